"""TileGym's quantization to 4-bit floats."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import ops
from tilewright.compat.tilegym._backends import uses

_GROUP = 16  # columns that share a scale
_TILE = (128, 4)  # rows and groups of a tile of scales
_LARGEST = 6.0  # of e2m1
_LEAST_SCALE = 1.5258789e-05


def _codes(x: torch.Tensor) -> torch.Tensor:
    """The nearest of 0, 0.5, 1, 1.5, 2, 3, 4, 6 by number, ties to the even one; 8 for the sign."""
    size = x.abs()
    code = torch.zeros_like(x, dtype=torch.uint8)
    for half, even_is_above in zip(
        (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0), (0, 1, 0, 1, 0, 1, 0), strict=True
    ):
        code += (size >= half) if even_is_above else (size > half)
    return code | x.signbit().to(torch.uint8) << 3


@uses("amax")
def nvfp4_quantize(
    x: torch.Tensor, s_enc: float = 1.0, **_tuning: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """X [R, C] as 4-bit floats, two in a byte, and the 8-bit scales of groups of 16.

    Scales lie in tiles of 128 rows and 4 groups: (r % 32) * 16 + r // 32 * 4 + g within each.

    Raises:
        ValueError: x is no matrix of floats, or its columns are no groups of 16.
    """
    if x.dim() != 2 or x.dtype not in (torch.bfloat16, torch.float16, torch.float32):
        raise ValueError(f"nvfp4_quantize: x is {x.dtype} {tuple(x.shape)}, not a matrix of floats")
    rows, cols = x.shape
    if cols % _GROUP:
        raise ValueError(f"nvfp4_quantize: {cols} columns are no groups of {_GROUP}")
    parts = x.float().reshape(rows, -1, _GROUP)
    largest: torch.Tensor = ops.amax(parts.abs())
    scale = (largest / _LARGEST * s_enc).clamp(min=_LEAST_SCALE).to(torch.float8_e4m3fn)
    factor = (s_enc / scale.float())[..., None]
    codes = _codes(torch.where(factor.isfinite(), parts * factor, parts * 0)).view(rows, cols)
    packed = codes[:, ::2] | codes[:, 1::2] << 4

    high, wide = (-(-n // t) for n, t in zip(scale.shape, _TILE, strict=True))
    tiles = torch.zeros(high * _TILE[0], wide * _TILE[1], dtype=torch.uint8, device=x.device)
    tiles[:rows, : scale.shape[1]] = scale.view(torch.uint8)
    by_tile = tiles.view(high, 4, 32, wide, 4).permute(0, 3, 2, 1, 4)
    return packed, by_tile.flatten()
