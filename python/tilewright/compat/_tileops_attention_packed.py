"""TileOPs' attention of requests one after the other, over keys beside them or in pages."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._sparse_attention import attend_to_latent_lists
from tilewright.compat._tensors import Kind, dtype_of, places_of, tensor
from tilewright.compat._tileops_attention_states import WithLse, seen
from tilewright.compat._tileops_rope import rotated

_LATENT, _SCALED = 512, 128  # columns of a cache of 8 bits, and how many have a scale


def _scaled(
    x: torch.Tensor, scale: torch.Tensor | None, request: torch.Tensor, kind: torch.dtype
) -> torch.Tensor:
    """X [T, heads, D] by scales of all [1], or of each request and head of keys [B, Hkv]."""
    if scale is None:
        return x.to(kind)
    each = scale.float().expand(1, 1) if scale.dim() == 1 else scale.float()[request]
    each = each.repeat_interleave(x.shape[1] // each.shape[1], 1)
    return tensor(ops.mul(x.float(), each[..., None])).to(kind)


def _check(name: str, q: torch.Tensor, sinks: torch.Tensor | None, mode: str) -> None:
    if mode not in ("none", "rope"):
        raise ValueError(f"{name}: pos_encoding_mode = {mode!r} is not none or rope")
    if sinks is not None and (sinks.dtype != torch.float32 or sinks.shape != q.shape[1:2]):
        raise ValueError(f"{name}: sinks {tuple(sinks.shape)} of {sinks.dtype} must be float32 [H]")


def _turned(
    name: str,
    x: torch.Tensor,
    position: torch.Tensor,
    tables: tuple[torch.Tensor | None, torch.Tensor | None],
    rotary_dim: int | None,
    layout: str,
) -> torch.Tensor:
    """X [T, H, D] turned by its tokens' rows of the tables."""
    cos, sin = tables
    if cos is None or sin is None:
        raise ValueError(f"{name}: rope takes rope_cos and rope_sin")
    width = (x.shape[-1] if rotary_dim is None else rotary_dim) // 2
    return rotated(x[None], cos[:, :width], sin[:, :width], position[None], layout)[0]


@uses("attention_varlen", "rope", "mul")
def gqa_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_kv: torch.Tensor,
    q_scale: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    rope_cos: torch.Tensor | None = None,
    rope_sin: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    *,
    is_causal: bool = True,
    window_size_left: int = -1,
    window_size_right: int = -1,
    sm_scale: float | None = None,
    softcap: float | None = None,
    out_dtype: Kind = None,
    pos_encoding_mode: str = "none",
    rotary_dim: int | None = None,
    rope_layout: str = "neox",
    validate_inputs: bool = False,
) -> torch.Tensor:
    """Attention of requests [T, H, D], whose last query stands at the last key.

    8-bit floats have a scale for each request and head of keys, and an out_dtype.
    """
    _check("gqa_varlen", q, sinks, pos_encoding_mode)
    kind = q.dtype if out_dtype is None else dtype_of(out_dtype)
    if (q.itemsize == 1) != (q_scale is not None) or kind.itemsize == 1:
        raise ValueError("gqa_varlen: 8-bit floats, and no others, take scales and an out_dtype")
    request, place = places_of(cu_seqlens_q, len(q))
    key_request, key_place = places_of(cu_seqlens_kv, len(k))
    q = _scaled(q, q_scale, request, kind)
    k, v = (_scaled(x, s, key_request, kind) for x, s in ((k, k_scale), (v, v_scale)))
    if pos_encoding_mode == "rope":
        first = (cu_seqlens_kv.diff() - cu_seqlens_q.diff()).long()
        turn: Any = ((rope_cos, rope_sin), rotary_dim, rope_layout)
        q = _turned("gqa_varlen", q, place + first[request], *turn)
        k = _turned("gqa_varlen", k, key_place, *turn)
    options = seen(is_causal, window_size_left, window_size_right, sm_scale, softcap)
    starts = (cu_seqlens_q, cu_seqlens_kv)
    return tensor(ops.attention_varlen(q, k, v, *starts, sinks=sinks, **options))


@uses("attention_paged", "rope", "mul")
def gqa_paged(
    q: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    page_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    q_scale: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    rope_cos: torch.Tensor | None = None,
    rope_sin: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    *,
    is_causal: bool = True,
    window_size_left: int = -1,
    window_size_right: int = -1,
    sm_scale: float | None = None,
    softcap: float | None = None,
    out_dtype: Kind = None,
    pos_encoding_mode: str = "none",
    rotary_dim: int | None = None,
    rope_layout: str = "neox",
) -> torch.Tensor:
    """Attention of requests [T, H, D], the last tokens of their caches in pages [P, S, Hkv, D].

    Keys that are turned, or of 8 bits, are first copied, a request's pages one after the other;
    scales are of all, or of each request and head of keys.
    """
    _check("gqa_paged", q, sinks, pos_encoding_mode)
    options = seen(is_causal, window_size_left, window_size_right, sm_scale, softcap)
    if pos_encoding_mode == "none" and k_pages.itemsize > 1:
        given = (q, k_pages, v_pages, page_table, cache_seqlens, cu_seqlens_q)
        return tensor(ops.attention_paged(*given, sinks=sinks, **options))
    batch, most = page_table.shape
    page = k_pages.shape[1]
    slots = torch.arange(most * page, device=q.device)
    is_there = slots < cache_seqlens[:, None]  # [B, keys]
    pages = torch.where(is_there[:, ::page], page_table, 0).long()
    kind = q.dtype if out_dtype is None else dtype_of(out_dtype)
    of_key = torch.arange(batch, device=q.device).repeat_interleave(most * page)
    k, v = (
        _scaled(x[pages].flatten(0, 2), scale, of_key, kind)
        for x, scale in ((k_pages, k_scale), (v_pages, v_scale))
    )
    request, place = places_of(cu_seqlens_q, len(q))
    q = _scaled(q, q_scale, request, kind)
    if pos_encoding_mode == "rope":
        first = (cache_seqlens - cu_seqlens_q.diff()).long()
        turn: Any = ((rope_cos, rope_sin), rotary_dim, rope_layout)
        q = _turned("gqa_paged", q, place + first[request], *turn)
        k = _turned("gqa_paged", k, torch.where(is_there, slots, 0).flatten(), *turn)
    copies = torch.arange(batch * most, dtype=torch.int32, device=q.device).view(batch, most)
    k, v = (x.view(batch * most, page, *x.shape[1:]) for x in (k, v))
    given = (q, k, v, copies, cache_seqlens, cu_seqlens_q)
    return tensor(ops.attention_paged(*given, sinks=sinks, **options))


@uses("mla_paged", "mul")
def dsa_paged(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    indices: torch.Tensor,
    *,
    sm_scale: float | None = None,
) -> WithLse:
    """Queries [B, S, H, 576] to the keys at these positions [B, S, K] of caches in pages.

    A row of the pages [P, page, 656] is bytes: 512 8-bit floats of the latent, a float32 for each
    128 of them, and 64 rotated dimensions in bfloat16. Positions outside the cache count for none.

    Returns:
        [B, S, H, 512], and the logarithms of its sums [B, S, H].
    """
    batch, length, heads, _ = q.shape
    page, tail = kv_cache.shape[1], _LATENT + 4 * (_LATENT // _SCALED)
    cache = kv_cache.reshape(-1, kv_cache.shape[-1]).view(torch.uint8)
    latent = cache[:, :_LATENT].contiguous().view(torch.float8_e4m3fn).float()
    scales = cache[:, _LATENT:tail].contiguous().view(torch.float32)
    values = ops.mul(latent, scales.repeat_interleave(_SCALED, 1)).to(q.dtype)[:, None]
    rope = cache[:, tail:].contiguous().view(torch.bfloat16).to(q.dtype)[:, None]
    kept = (indices >= 0) & (indices < cache_seqlens[:, None, None])
    place = torch.where(kept, indices, 0).long()
    own = torch.arange(batch, device=q.device)[:, None, None]
    rows = block_table[own, place // page].long() * page + place % page
    order = torch.argsort((~kept).to(torch.uint8), dim=-1, stable=True)
    lists = rows.gather(-1, order).flatten(0, 1)[:, None]
    counts = kept.sum(-1).flatten()[:, None]
    queries, tails = q.flatten(0, 1).tensor_split([_LATENT], -1)
    scale = q.shape[-1] ** -0.5 if sm_scale is None else sm_scale
    out, lse = attend_to_latent_lists(queries, tails, values, rope, lists, counts, scale)
    return out.view(batch, length, heads, -1), lse.view(batch, length, heads)


__all__ = list(provided(vars()))
