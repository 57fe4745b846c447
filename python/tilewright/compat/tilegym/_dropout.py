"""TileGym's dropout, whose seed draws the same mask as there."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import ops
from tilewright.compat.tilegym._backends import uses


def _int32(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def _kept(shape: torch.Size, seed: int, p: float, device: torch.device) -> torch.Tensor:
    """Which elements stay: those whose number and seed, mixed in 32 bits with a sign, exceed p."""
    word = torch.arange(shape.numel(), device=device).to(torch.int32)
    word.mul_(1103515245).add_(_int32(seed * 2654435761))
    word ^= word >> 16
    word ^= word << 8
    word ^= word >> 4
    return ((word & 0x7FFFFFFF).float().mul_(2.0**-31) > p).reshape(shape)


class _Dropout(torch.autograd.Function):
    """Keeps no tensor: the backward draws the mask again, and has a gradient itself."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, seed: int, p: float) -> torch.Tensor:
        ctx.drawn = seed, p
        scaled = ops.scale(x, 1 / (1 - p) if p < 1 else 0.0)
        kept = _kept(x.shape, seed, p, x.device)
        out: torch.Tensor = ops.where(kept, scaled, torch.zeros((), dtype=x.dtype, device=x.device))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return _dropped(grads[0], *ctx.drawn), None, None


def _dropped(x: torch.Tensor, seed: int, p: float) -> torch.Tensor:
    out: torch.Tensor = _Dropout.apply(x, seed, p)  # type: ignore[no-untyped-call]
    return out


@uses("scale", "where")
def dropout(
    x: torch.Tensor,
    seed: int,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    **tuning: Any,
) -> torch.Tensor:
    """Zeros with probability p, which ones by the seed; x itself where there is nothing to do.

    Raises:
        ValueError: p is no probability.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: {p} is no probability")
    if not training or p == 0:
        return x
    out = _dropped(x, seed, p)
    return x.copy_(out) if inplace else out
