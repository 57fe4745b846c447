"""TileGym's attention over a list of keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tilewright.compat._sparse_attention import (
    attend_to_latent_lists,
    attend_to_lists,
    sequence_starts,
    valid_first,
)
from tilewright.compat._tensors import packed
from tilewright.compat.tilegym._backends import uses


def _check_configuration(given: Mapping[str, Any], topk: int, heads: int, kv_heads: int) -> None:
    """Refuses a tiling that TileGym's kernel could not run, in its own terms.

    Raises:
        ValueError: a size is missing.
        TypeError: one is no whole number.
        AssertionError: one does not fit the heads or the list.
    """
    sizes = {}
    for name in ("TILE_H", "TILE_N"):
        if name not in given:
            raise ValueError(f"sparse_mla: kernel_configs has no {name}")
        if not isinstance(given[name], int):
            raise TypeError(f"sparse_mla: {name} must be an int, not {type(given[name]).__name__}")
        sizes[name] = given[name]
        if sizes[name] < 1 or sizes[name] & (sizes[name] - 1):
            raise AssertionError(f"sparse_mla: {name} = {sizes[name]} must be a power of 2")
    for name, whole, what in (
        ("TILE_H", heads // kv_heads, "query heads per key head"),
        ("TILE_N", topk, "listed keys"),
    ):
        if whole % sizes[name]:
            raise AssertionError(
                f"sparse_mla: {name} = {sizes[name]} must divide the {whole} {what}"
            )


@uses("attention_paged", "mla_paged")
def sparse_mla(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    indices: torch.Tensor,
    qpe: torch.Tensor,
    kpe: torch.Tensor,
    is_causal: bool = True,
    scaling: float | None = None,
    **tuning: Any,
) -> torch.Tensor:
    """As mla, of the keys at indices [B, S, Hkv, topk]: those beyond the query are not seen.

    Where `v` is `k` itself, its keys are read once, as latent ones.
    """
    batch, heads, length, dims = q.shape
    kv_heads, keys = k.shape[1:3]
    if tuning.get("kernel_configs") is not None:
        _check_configuration(tuning["kernel_configs"], indices.shape[-1], heads, kv_heads)
    position = torch.arange(length, device=q.device)
    ends = (position + 1).clamp(max=keys) if is_causal else torch.full_like(position, keys)
    rows, lengths = valid_first(
        indices.flatten(0, 1), sequence_starts(batch, length, keys, q), ends.repeat(batch)
    )
    queries, tails, latent, rotated, values = (
        x.transpose(1, 2).flatten(0, 1) for x in (q, qpe, k, kpe.expand(-1, kv_heads, -1, -1), v)
    )
    if v is k:
        out, _ = attend_to_latent_lists(queries, tails, latent, rotated, rows, lengths, scaling)
    else:
        queries, listed = torch.cat([queries, tails], -1), torch.cat([latent, rotated], -1)
        out, _ = attend_to_lists(queries, listed, values, rows, lengths, scaling)
    return packed(out.view(batch, length, heads, dims).transpose(1, 2))
