"""The flashinfer suite of TileGym."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilewright import _functions
from tilewright import ops as catalog
from tilewright.compat._coverage import by_name, refuse
from tilewright.compat._tensors import tensor
from tilewright.compat.tilegym._backends import uses
from tilewright.compat.tilegym._flashinfer_products import (
    gemm_alpha_beta,
    masked_bmm,
    per_token_group_quant_8bit,
    ragged_block_scaled_bmm,
    ragged_bmm,
    rope_quantize_fp8,
)

_paged, _varlen = (_functions.full(f"attention_{kind}") for kind in ("paged", "varlen"))

MISSING: dict[str, str] = by_name({})


__all__ = [
    "MISSING",
    "decode_attention_kv_paged",
    "decode_mla_kv_paged",
    "gemm_alpha_beta",
    "masked_bmm",
    "per_token_group_quant_8bit",
    "prefill_attention_kv_paged",
    "prefill_attention_kv_ragged",
    "ragged_block_scaled_bmm",
    "ragged_bmm",
    "rope_quantize_fp8",
]


def __getattr__(name: str) -> Callable[..., Any]:
    return refuse(__name__, MISSING, name)


def _scaled(out: torch.Tensor, factor: float, into: torch.Tensor | None) -> torch.Tensor:
    """Out times the scale of the values, where the caller wants it."""
    scaled = out if float(factor) == 1 else tensor(catalog.scale(out, float(factor)))
    return scaled if into is None else into.copy_(scaled.view(into.shape))


def _tables(lengths: torch.Tensor, tables: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = lengths.reshape(-1).int()
    return lengths, tables.reshape(len(lengths), -1).int()


@uses("attention_paged")
def decode_attention_kv_paged(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    actual_seq_lens: torch.Tensor,
    block_tables: torch.Tensor,
    k_scale: float,
    v_scale: float,
    max_seq_len: int = -1,
    outputs: torch.Tensor | None = None,
    force_split_kv: bool = False,
    force_persistent: bool = False,
) -> torch.Tensor:
    """One query [B, H, D] over keys in pages [P, page, Hkv, D]; k_scale scales the scores."""
    lengths, tables = _tables(actual_seq_lens, block_tables)
    out = catalog.attention_paged(q, k_cache, v_cache, tables, lengths, scale=float(k_scale))
    return _scaled(tensor(out), v_scale, outputs)


@uses("mla_paged")
def decode_mla_kv_paged(
    q: torch.Tensor,
    q_rope: torch.Tensor,
    kv_cache: torch.Tensor,
    k_rope: torch.Tensor,
    actual_seq_lens: torch.Tensor,
    block_tables: torch.Tensor,
    k_scale: float,
    v_scale: float,
    max_seq_len: int = -1,
    outputs: torch.Tensor | None = None,
    force_split_kv: bool = False,
    force_persistent: bool = False,
) -> torch.Tensor:
    """One query [B, H, D] over latent keys in pages [P, page, D] that are the values, too.

    k_rope [P, page, R] are further dimensions of the keys.
    """
    lengths, tables = _tables(actual_seq_lens, block_tables)
    pages = (kv_cache[:, :, None], k_rope[:, :, None])
    out = catalog.mla_paged(q, q_rope, *pages, tables, lengths, scale=float(k_scale))
    return _scaled(tensor(out), v_scale, outputs)


def _segments(
    name: str,
    lengths_q: torch.Tensor,
    lengths_kv: torch.Tensor,
    offsets: torch.Tensor,
    is_causal: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Where requests begin, and how many queries and keys of each take part."""
    queries, keys = lengths_q.reshape(-1).int(), lengths_kv.reshape(-1).int()
    if is_causal:  # query i sees the keys up to i
        if bool((keys < queries).any()):
            raise NotImplementedError(f"{name}: a causal request needs a key for each query")
        keys = queries
    return offsets.reshape(-1)[: len(queries)].int(), queries, keys


def _with_gaps(starts: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """The bounds of requests and of what lies between them: [2 * requests]."""
    return torch.stack([starts, starts + lengths], -1).flatten()


def _filled(
    out: torch.Tensor,
    lse: torch.Tensor,
    v_scale: float,
    outputs: torch.Tensor | None,
    out_lse: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    by_token = lse.T.contiguous()
    if out_lse is not None:
        by_token = out_lse.copy_(by_token.view(out_lse.shape))
    return _scaled(out, v_scale, outputs), by_token


@uses("attention_paged")
def prefill_attention_kv_paged(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    actual_seq_lens_q: torch.Tensor,
    actual_seq_lens_kv: torch.Tensor,
    actual_seq_offset: torch.Tensor,
    block_tables: torch.Tensor,
    k_scale: float,
    v_scale: float,
    num_batch: int,
    max_seq_len: int,
    is_causal: bool = True,
    outputs: torch.Tensor | None = None,
    out_lse: torch.Tensor | None = None,
    use_lpt_scheduler: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Requests in q [tokens, H, D] over keys in pages [P, page, Hkv, D]; and the lse [tokens, H].

    A causal query i sees the keys up to i, however many there are.
    """
    name = "prefill_attention_kv_paged"
    lengths = (actual_seq_lens_q, actual_seq_lens_kv, actual_seq_offset)
    starts, queries, keys = _segments(name, *lengths, is_causal)
    tables = block_tables.reshape(len(queries), -1).int().repeat_interleave(2, 0)[:-1]
    keys = torch.stack([keys, torch.zeros_like(keys)], -1).flatten()[:-1]  # none in between
    out, lse = _paged(
        q,
        k_cache,
        v_cache,
        tables,
        keys,
        _with_gaps(starts, queries),
        scale=float(k_scale),
        causal=is_causal,
    )
    return _filled(out, lse, v_scale, outputs, out_lse)


@uses("attention_varlen")
def prefill_attention_kv_ragged(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    actual_seq_lens_q: torch.Tensor,
    actual_seq_lens_kv: torch.Tensor,
    actual_seq_offset: torch.Tensor,
    block_tables: torch.Tensor | None,
    k_scale: float,
    v_scale: float,
    num_batch: int,
    max_seq_len: int,
    is_causal: bool = True,
    outputs: torch.Tensor | None = None,
    out_lse: torch.Tensor | None = None,
    use_lpt_scheduler: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As prefill_attention_kv_paged, over keys [tokens, Hkv, D] that begin where the queries do."""
    name = "prefill_attention_kv_ragged"
    lengths = (actual_seq_lens_q, actual_seq_lens_kv, actual_seq_offset)
    starts, queries, keys = _segments(name, *lengths, is_causal)
    out, lse = _varlen(
        q,
        k_cache,
        v_cache,
        _with_gaps(starts, queries),
        _with_gaps(starts, keys),
        scale=float(k_scale),
        causal=is_causal,
    )
    return _filled(out, lse, v_scale, outputs, out_lse)
