"""TileOPs' rotary embeddings: tables made from their parameters, applied by `rope`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._tensors import tensor


def _frequencies(
    head_dim: int, base: float, device: torch.device, rescale: torch.Tensor | float = 1.0
) -> torch.Tensor:
    half = head_dim // 2
    index = torch.arange(half, dtype=torch.float32, device=device)
    return 1.0 / (rescale * base ** (index / half))


def _apply(
    x: torch.Tensor,
    frequencies: torch.Tensor,
    *,
    layout: str,
    length: int | None = None,
    positions: torch.Tensor | None = None,
    factor: float = 1.0,
    interleaved: bool = False,
) -> torch.Tensor:
    """Rotates [S, D] or [B, S, H, D]; the tables have x's precision."""
    if layout not in ("1d", "2d") or x.dim() != (2 if layout == "1d" else 4):
        raise ValueError(f"rope: layout {layout!r} does not fit x {tuple(x.shape)}")
    wide = x[None, :, None] if layout == "1d" else x
    steps = torch.arange(length or wide.shape[1], dtype=torch.float32, device=x.device)
    angles = torch.outer(steps, frequencies)
    cos, sin = ((t * factor).to(x.dtype).float() for t in (angles.cos(), angles.sin()))
    out: torch.Tensor = ops.rope(wide, cos, sin, positions, interleaved)
    return out.reshape(x.shape)


@uses("rope")
def rope_neox(x: torch.Tensor, *, layout: str = "1d", base: float = 10000.0) -> torch.Tensor:
    """Pairs are halves of a head."""
    return _apply(x, _frequencies(x.shape[-1], base, x.device), layout=layout)


@uses("rope")
def rope_non_neox(x: torch.Tensor, *, layout: str = "1d", base: float = 10000.0) -> torch.Tensor:
    """Pairs are neighbours."""
    frequencies = _frequencies(x.shape[-1], base, x.device)
    return _apply(x, frequencies, layout=layout, interleaved=True)


@uses("rope")
def rope_llama31(
    x: torch.Tensor,
    *,
    layout: str = "1d",
    base: float = 10000.0,
    scale_factor: float = 8.0,
    low_freq_factor: float = 1.0,
    high_freq_factor: float = 4.0,
    original_max_position: int = 8192,
) -> torch.Tensor:
    """Low frequencies are divided by scale_factor, with a ramp up to the high ones."""
    plain = _frequencies(x.shape[-1], base, x.device)
    turns = original_max_position * plain / (2 * math.pi)
    ramp = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor)
    ramp = ramp.clamp(0, 1)
    return _apply(x, (1 - ramp) * plain / scale_factor + ramp * plain, layout=layout)


@uses("rope")
def rope_yarn(
    x: torch.Tensor,
    *,
    layout: str = "1d",
    base: float = 10000.0,
    scale: float = 16.0,
    original_max_position: int = 4096,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    attn_factor: float = 1.0,
) -> torch.Tensor:
    """Low dimensions are plain, high ones those of a base that is `scale` times as large."""
    half = x.shape[-1] // 2

    def dimension(turns: float) -> float:
        return half * math.log(original_max_position / (turns * 2 * math.pi)) / (2 * math.log(base))

    low = max(math.floor(dimension(beta_fast)), 0)
    high = min(math.ceil(dimension(beta_slow)), half - 1)
    index = torch.arange(half, dtype=torch.float32, device=x.device)
    ramp = ((index - low) / (high - low or 1)).clamp(0, 1)
    plain, wide = (_frequencies(x.shape[-1], b, x.device) for b in (base, scale * base))
    return _apply(x, ramp * wide + (1 - ramp) * plain, layout=layout, factor=attn_factor)


@uses("rope")
def rope_long_rope(
    x: torch.Tensor,
    *,
    layout: str = "1d",
    base: float = 10000.0,
    rescale_factors: torch.Tensor | Sequence[float] | None = None,
    max_position_embeddings: int = 4096,
    original_max_position_embeddings: int = 4096,
) -> torch.Tensor:
    """Each frequency is divided by a factor of its own, and the result grows with the context."""
    rescale: torch.Tensor | float = 1.0
    if rescale_factors is not None:
        rescale = torch.as_tensor(rescale_factors, dtype=torch.float32, device=x.device)
    growth = max(max_position_embeddings / original_max_position_embeddings, 1.0)
    factor = math.sqrt(1 + math.log(growth) / math.log(original_max_position_embeddings))
    frequencies = _frequencies(x.shape[-1], base, x.device, rescale)
    return _apply(x, frequencies, layout=layout, factor=factor)


@uses("rope")
def rope_neox_position_ids(
    x: torch.Tensor,
    position_ids: torch.Tensor,
    *,
    max_position: int,
    base: float = 10000.0,
    rotary_dim: int | None = None,
) -> torch.Tensor:
    """X [tokens, heads, head_dim], each token at its position."""
    frequencies = _frequencies(rotary_dim or x.shape[-1], base, x.device)
    positions = position_ids.to(torch.int32)[None]
    wide = _apply(x[None], frequencies, layout="2d", length=max_position, positions=positions)
    return wide[0]


def rotated(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, rows: torch.Tensor, layout: str
) -> torch.Tensor:
    """X [B, S, H, D] turned by rows [B, S] of the tables."""
    if layout not in ("neox", "interleaved"):
        raise ValueError(f"rope_layout {layout!r} is neither neox nor interleaved")
    cos, sin = (t.float().contiguous() for t in (cos, sin))
    return tensor(ops.rope(x, cos, sin, rows.int().contiguous(), layout == "interleaved"))


def rotated_by_table(
    x: torch.Tensor, positions: torch.Tensor, table: torch.Tensor, layout: str
) -> torch.Tensor:
    """Heads x [N, H, D] turned by rows of the table: cosines, then sines."""
    cos, sin = table.chunk(2, -1)
    return rotated(x[None], cos, sin, positions[None], layout)[0]


@uses("rms_norm", "rope")
def fused_qk_norm_rope(
    qkv: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    positions: torch.Tensor,
    *,
    num_heads: int,
    num_kv_heads: int,
    eps: float = 1e-6,
    rope_layout: str = "neox",
) -> None:
    """Normalizes and rotates the heads of q and of k in qkv [N, (H + 2 Hkv) D], in place."""
    heads = qkv.view(len(qkv), num_heads + 2 * num_kv_heads, -1)
    spans = ((0, num_heads, q_weight), (num_heads, num_kv_heads, k_weight))
    for first, count, weight in spans:
        own = heads[:, first : first + count]
        normal = tensor(ops.rms_norm(own.float(), weight.float(), eps))
        own.copy_(rotated_by_table(normal, positions, cos_sin_cache, rope_layout))


__all__ = list(provided(vars()))
