"""TileOPs' attention of release 0.1.0, with natural logarithms of its sums, and its gradients."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import _functions, ops
from tilewright._values import score_scale
from tilewright.compat._coverage import provided, uses
from tilewright.compat._tensors import dtype_of, tensor
from tilewright.compat._tileops_rope import rotated

_attention = _functions.full("attention")
_attention_varlen = _functions.full("attention_varlen")
_mla_paged = _functions.full("mla_paged")

WithLse = tuple[torch.Tensor, torch.Tensor]
Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _turned(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, first: int, layout: str
) -> torch.Tensor:
    """X [B, S, H, D] rotated by the tables' rows from `first` on."""
    rows = torch.arange(first, first + x.shape[1], device=x.device)
    return rotated(x, cos, sin, rows.expand(len(x), -1), layout)


def seen(
    causal: bool, left: int, right: int, scale: float | None, softcap: float | None
) -> dict[str, Any]:
    """The catalog's options of attention."""
    return {
        "causal": causal,
        "window_left": left,
        "window_right": right,
        "scale": score_scale(scale),
        "softcap": softcap or 0.0,
    }


def _of_8_bits(
    x: torch.Tensor, scale: torch.Tensor | None, kind: torch.dtype, heads: int
) -> torch.Tensor:
    """X [B, S, heads, D] times its scales [B, Hkv]; itself without them."""
    if scale is None:
        return x
    each = scale.float().repeat_interleave(heads // scale.shape[1], 1)
    return (x.float() * each[:, None, :, None]).to(kind)


@uses("attention", "rope")
def gqa_dense(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_scale: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    rope_cos: torch.Tensor | None = None,
    rope_sin: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    *,
    is_causal: bool = False,
    window_size_left: int = -1,
    window_size_right: int = -1,
    sm_scale: float | None = None,
    softcap: float | None = None,
    pos_encoding_mode: str = "none",
    rotary_dim: int | None = None,
    rope_layout: str = "neox",
    out_dtype: str | torch.dtype | None = None,
) -> torch.Tensor:
    """Attention [B, S, H, D]; the last query stands at the last key, whose row of tables it takes.

    8-bit floats have a scale for each sequence and head of keys.
    """
    narrow = q.element_size() == 1
    scales = (q_scale, k_scale, v_scale)
    if any((scale is not None) != narrow for scale in scales) or (narrow and out_dtype is None):
        raise ValueError("gqa_dense: 8-bit floats, and no others, take scales and an out_dtype")
    kind = q.dtype if out_dtype is None else dtype_of(out_dtype)
    pairs = zip((q, k, v), scales, strict=True)
    q, k, v = (_of_8_bits(x, scale, kind, x.shape[2]) for x, scale in pairs)
    if pos_encoding_mode not in ("none", "rope"):
        raise ValueError(
            f"gqa_dense: pos_encoding_mode = {pos_encoding_mode!r} is not none or rope"
        )
    if pos_encoding_mode == "rope":
        if rope_cos is None or rope_sin is None:
            raise ValueError("gqa_dense: rope takes rope_cos and rope_sin")
        width = (q.shape[-1] if rotary_dim is None else rotary_dim) // 2
        tables = rope_cos[:, :width], rope_sin[:, :width]
        q = _turned(q, *tables, k.shape[1] - q.shape[1], rope_layout)
        k = _turned(k, *tables, 0, rope_layout)
    options = seen(is_causal, window_size_left, window_size_right, sm_scale, softcap)
    return tensor(ops.attention(q, k, v, sinks=sinks, **options))


@uses("attention")
def gqa_dense_with_lse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    is_causal: bool = False,
    window_size_left: int = -1,
    window_size_right: int = -1,
    sm_scale: float | None = None,
    softcap: float | None = None,
) -> WithLse:
    """Attention [B, S, H, D], and the logarithms of its sums [B, H, S]."""
    options = seen(is_causal, window_size_left, window_size_right, sm_scale, softcap)
    out, lse = _attention(q, k, v, **options)
    return out, lse


@uses("attention_backward")
def gqa_dense_bwd(
    do: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    *,
    is_causal: bool = False,
    window_size_left: int = -1,
    window_size_right: int = -1,
    sm_scale: float | None = None,
    softcap: float | None = None,
) -> Gradients:
    """The gradients of q, k and v, from what gqa_dense_with_lse returned."""
    options = seen(is_causal, window_size_left, window_size_right, sm_scale, softcap)
    dq, dk, dv = ops.attention_backward(do, q, k, v, o, lse, **options)
    return dq, dk, dv


@uses("attention_backward")
def mla_dense_bwd(
    do: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    *,
    is_causal: bool = False,
    sm_scale: float | None = None,
) -> Gradients:
    """The gradients of q and k [B, S, H, D] and of v [B, L, H, Dv], whose heads are as many."""
    return gqa_dense_bwd(do, q, k, v, o, lse, is_causal=is_causal, sm_scale=sm_scale)


@uses("attention_varlen")
def mla_varlen(
    q: torch.Tensor,
    k_nope: torch.Tensor,
    k_pe: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens: torch.Tensor,
    *,
    is_causal: bool = False,
    sm_scale: float | None = None,
    validate_inputs: bool = False,
) -> WithLse:
    """Attention [T, H, D] within sequences to keys whose rotated part k_pe [T, R] heads share.

    Returns:
        [T, H, Dv], and the logarithms of its sums [H, T].
    """
    keys = torch.cat([k_nope, k_pe[:, None].expand(-1, k_nope.shape[1], -1)], -1)
    options: dict[str, Any] = {"scale": score_scale(sm_scale), "causal": is_causal}
    out, lse = _attention_varlen(q, keys, v, cu_seqlens, cu_seqlens, **options)
    return out, lse


@uses("attention_varlen_backward")
def mla_varlen_bwd(
    do: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_kv: torch.Tensor,
    *,
    is_causal: bool = False,
    sm_scale: float | None = None,
    validate_inputs: bool = False,
) -> Gradients:
    """The gradients of q [T, H, D], and of k and v, within sequences."""
    options: dict[str, Any] = {"scale": score_scale(sm_scale), "causal": is_causal}
    given = (do, q, k, v, o, lse, cu_seqlens_q, cu_seqlens_kv)
    dq, dk, dv = ops.attention_varlen_backward(*given, **options)
    return dq, dk, dv


@uses("mla_paged")
def mla_paged(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    kv_scale: torch.Tensor | None = None,
    *,
    kv_lora_rank: int,
    is_causal: bool = False,
    sm_scale: float | None = None,
) -> WithLse:
    """The last queries [B, S, H, D] of sequences over latents in pages [P, page, D].

    Returns:
        [B, S, H, kv_lora_rank], and the logarithms of its sums [B, H, S].
    """
    batch, length, heads, width = q.shape
    pages = kv_cache if kv_scale is None else (kv_cache.float() * kv_scale).to(q.dtype)
    latent, rotated = pages[:, :, None].tensor_split([kv_lora_rank], -1)
    queries, tails = q.flatten(0, 1).tensor_split([kv_lora_rank], -1)
    starts = length * torch.arange(batch + 1, dtype=torch.int32, device=q.device)
    given = (queries, tails, latent, rotated, block_table, cache_seqlens, starts)
    scale = width**-0.5 if sm_scale is None else sm_scale
    out, lse = _mla_paged(*given, scale=scale, causal=is_causal)
    return out.view(batch, length, heads, -1), lse.view(heads, batch, length).transpose(0, 1)


__all__ = list(provided(vars()))
