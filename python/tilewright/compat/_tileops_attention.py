"""TileOPs' attention: q [B, S, H, D], causal masks aligned at the last key."""

from __future__ import annotations

import math
from typing import Any

import torch

from tilewright import ops
from tilewright._values import score_scale
from tilewright.compat._coverage import provided, uses
from tilewright.compat._tensors import dtype_of, places_of, tensor
from tilewright.compat._tileops_rope import rope_neox_position_ids


def _scores(sm_scale: float | None, softcap: float | None) -> dict[str, Any]:
    """How scores are scaled and capped; as the operator does by itself where neither is given."""
    return {"scale": score_scale(sm_scale), "softcap": softcap or 0.0}


def _pages(pages: torch.Tensor, page_size: int) -> torch.Tensor:
    return pages.view(-1, page_size, *pages.shape[1:])


@uses("attention")
def multi_head_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, is_causal: bool = True
) -> torch.Tensor:
    """Attention with as many key heads as query heads."""
    return tensor(ops.attention(q, k, v, causal=is_causal))


@uses("attention")
def multi_head_attention_decode_with_kv_cache(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> torch.Tensor:
    """Queries [B, S, H, D] that see all keys."""
    return tensor(ops.attention(q, k, v))


@uses("attention_paged")
def multi_head_attention_decode_paged_with_kv_cache(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    real_seqlen_kv: torch.Tensor,
    block_table: torch.Tensor,
    *,
    page_size: int,
    is_causal: bool = False,
) -> torch.Tensor:
    """Queries [B, S, H, D] over keys in pages [tokens, H, D]."""
    out = ops.attention_paged(
        q.flatten(0, 1),
        _pages(k, page_size),
        _pages(v, page_size),
        block_table,
        real_seqlen_kv,
        causal=is_causal,
    )
    return tensor(out).view(q.shape)


@uses("attention_backward")
def grouped_query_attention_bwd(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    do: torch.Tensor,
    lse: torch.Tensor,
    *,
    is_causal: bool = True,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of q, k and v, from the output and the lse [B, H, S] in base 2."""
    natural = lse.float() * math.log(2)
    dq, dk, dv = ops.attention_backward(do, q, k, v, o, natural, causal=is_causal)
    return dq, dk, dv


@uses("attention_backward")
def multi_head_attention_bwd(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    do: torch.Tensor,
    lse: torch.Tensor,
    *,
    is_causal: bool = True,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As grouped_query_attention_bwd."""
    return grouped_query_attention_bwd(q, k, v, o, do, lse, is_causal=is_causal)


@uses("attention_varlen", "attention_fp8")
def grouped_query_attention_prefill(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_kv: torch.Tensor,
    q_scale: torch.Tensor | None,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
    *,
    max_seqlen_q: int,
    max_seqlen_kv: int,
    is_causal: bool = True,
    sm_scale: float | None = None,
    softcap: float | None = None,
    window_size_left: int = -1,
    window_size_right: int = -1,
    dtype: str | torch.dtype = "float16",
) -> torch.Tensor:
    """Requests one after the other: q [tokens, H, D]; 8-bit floats with a scale per request."""
    mask = _window(is_causal, window_size_left, window_size_right)
    options = {**mask, **_scores(sm_scale, softcap)}
    starts = (cu_seqlens_q, cu_seqlens_kv)
    scales = (q_scale, k_scale, v_scale)
    if q.dtype == torch.float8_e4m3fn and dtype_of(dtype) == torch.bfloat16:
        names = ("q_scale", "k_scale", "v_scale")
        given = zip(names, scales, strict=True)
        options |= {name: x.float() for name, x in given if x is not None}
        return tensor(ops.attention_fp8(q, k, v, *starts, **options))
    if q.itemsize == 1:  # attention_fp8 would round the result to bfloat16 first
        at = (cu_seqlens_q, cu_seqlens_kv, cu_seqlens_kv)
        q, k, v = map(_unscaled, (q, k, v), scales, at)
    return tensor(ops.attention_varlen(q, k, v, *starts, **options)).to(dtype_of(dtype))


def _unscaled(x: torch.Tensor, scale: torch.Tensor | None, starts: torch.Tensor) -> torch.Tensor:
    """X [tokens, H, D] in float32, by the scales [requests, Hkv] of its tokens."""
    wide = x.float()
    if scale is None:
        return wide
    each = scale.float()[places_of(starts, len(x))[0]]
    each = each.repeat_interleave(x.shape[1] // each.shape[1], 1)
    return tensor(ops.mul(wide, each[..., None]))


@uses("attention")
def grouped_query_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    is_causal: bool = True,
    sm_scale: float | None,
    softcap: float | None,
) -> torch.Tensor:
    """Attention whose heads of queries share those of keys."""
    return tensor(ops.attention(q, k, v, causal=is_causal, **_scores(sm_scale, softcap)))


@uses("attention")
def grouped_query_attention_decode_with_kv_cache(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    sm_scale: float | None,
    softcap: float | None,
) -> torch.Tensor:
    """One query [B, H, D] that sees all keys."""
    return tensor(ops.attention(q[:, None], k, v, **_scores(sm_scale, softcap)))[:, 0]


@uses("attention_paged")
def grouped_query_attention_decode_paged_with_kv_cache(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    real_seqlen_kv: torch.Tensor,
    block_table: torch.Tensor,
    *,
    page_size: int,
    sm_scale: float | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """One query [B, H, D] over keys in pages [tokens, Hkv, D]."""
    return tensor(
        ops.attention_paged(
            q,
            _pages(k, page_size),
            _pages(v, page_size),
            block_table,
            real_seqlen_kv,
            **_scores(sm_scale, softcap),
        )
    )


@uses("attention_varlen")
def grouped_query_attention_prefill_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_kv: torch.Tensor,
    *,
    max_seqlen_q: int,
    max_seqlen_kv: int,
    is_causal: bool,
    sm_scale: float | None,
    softcap: float | None,
) -> torch.Tensor:
    """Requests one after the other: q [tokens, H, D]."""
    options = _scores(sm_scale, softcap)
    out = ops.attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, causal=is_causal, **options)
    return tensor(out)


def _new_tokens(
    count: int,
    cu_seqlens_q: torch.Tensor,
    cache_seqlens: torch.Tensor,
    block_table: torch.Tensor,
    page_size: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each new token's position in its request, and its row in the pages."""
    request, step = places_of(cu_seqlens_q, count)
    position = cache_seqlens.long()[request] + step
    capacity = block_table.shape[1] * page_size
    if bool((position >= capacity).any()):
        raise ValueError(f"a request grows beyond the capacity of its pages, {capacity} tokens")
    rows = block_table[request, position // page_size].long() * page_size + position % page_size
    return position, rows


def _append(
    pages: torch.Tensor,
    new: torch.Tensor,
    rows: torch.Tensor,
    scale: torch.Tensor | None,
    name: str,
) -> torch.Tensor:
    """Writes new rows into the pages, and the pages in new's dtype: 8-bit floats times `scale`."""
    if pages.dtype == new.dtype:
        pages[rows] = new
        return pages
    factor = torch.ones(1, device=new.device) if scale is None else scale.float()
    if not bool((factor.isfinite() & (factor > 0)).all()):
        raise ValueError(f"{name} must be finite positive, not {factor.tolist()}")
    pages.view(torch.uint8)[rows] = (new.float() / factor).to(pages.dtype).view(torch.uint8)
    return (pages.float() * factor).to(new.dtype)


@uses("attention_paged", "rope")
def grouped_query_attention_prefill_paged_with_kv_cache(
    q: torch.Tensor,
    k_new: torch.Tensor,
    v_new: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
    cu_seqlens_q: torch.Tensor,
    cache_seqlens: torch.Tensor,
    block_table: torch.Tensor,
    *,
    max_pages_per_req: int,
    page_size: int,
    max_seqlen_q: int,
    cache_dtype: torch.dtype | None = None,
    is_causal: bool = True,
    sm_scale: float | None = None,
    softcap: float | None = None,
    fuse_rope: bool = False,
    rope_base: float = 10000.0,
    max_position: int | None = None,
    rotary_dim: int | None = None,
) -> torch.Tensor:
    """Writes the new keys and values into the pages, then attends to all of them.

    Queries and new keys are rotated first, if wanted. 8-bit pages hold values over their scale.
    """
    position, rows = _new_tokens(len(k_new), cu_seqlens_q, cache_seqlens, block_table, page_size)
    if fuse_rope:
        end = block_table.shape[1] * page_size if max_position is None else max_position
        turn: dict[str, Any] = {"max_position": end, "base": rope_base, "rotary_dim": rotary_dim}
        q, k_new = (rope_neox_position_ids(x, position, **turn) for x in (q, k_new))
    keys = _append(k_pages, k_new, rows, k_scale, "k_scale")
    values = _append(v_pages, v_new, rows, v_scale, "v_scale")
    return tensor(
        ops.attention_paged(
            q,
            _pages(keys, page_size),
            _pages(values, page_size),
            block_table,
            cache_seqlens + cu_seqlens_q.diff(),
            cu_seqlens_q,
            causal=is_causal,
            **_scores(sm_scale, softcap),
        )
    )


def _window(is_causal: bool, left: int, right: int) -> dict[str, Any]:
    return {"causal": is_causal, "window_left": left, "window_right": -1 if is_causal else right}


@uses("attention")
def grouped_query_attention_sliding_window(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    is_causal: bool = True,
    window_size_left: int = -1,
    window_size_right: int = -1,
) -> torch.Tensor:
    """Attention to keys at most this far to the left and right."""
    mask = _window(is_causal, window_size_left, window_size_right)
    return tensor(ops.attention(q, k, v, **mask))


@uses("attention_varlen")
def grouped_query_attention_sliding_window_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    is_causal: bool = True,
    window_size_left: int = -1,
    window_size_right: int = -1,
    max_seqlen_q: int,
) -> torch.Tensor:
    """As grouped_query_attention_sliding_window, of requests one after the other."""
    mask = _window(is_causal, window_size_left, window_size_right)
    return tensor(ops.attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, **mask))


@uses("mla")
def multi_head_latent_attention_decode_with_kv_cache(
    q: torch.Tensor, q_pe: torch.Tensor, k: torch.Tensor, k_pe: torch.Tensor, *, pe_dim: int
) -> torch.Tensor:
    """One query [B, H, D] over latent keys [B, N, Hkv, D] that are the values, too."""
    return tensor(ops.mla(q[:, None], q_pe[:, None], k, k_pe))[:, 0]


__all__ = list(provided(vars()))
