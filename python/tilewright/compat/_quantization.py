"""Scales of blocks: what the mappings share."""

from __future__ import annotations

import torch

from tilewright import ops
from tilewright.compat._tensors import tensor


def block_of(size: int, scales: int, block: int = 128) -> int:
    """How many values share a scale: `block` if that gives so many scales."""
    if -(-size // block) == scales or scales == 0:
        return block
    return -(-size // scales)


def scaled_product(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor,
    b_scale: torch.Tensor,
    offsets: torch.Tensor | None = None,
    block: tuple[int, int] | None = None,
) -> torch.Tensor:
    """Rows a [M, K] times matrices b [G, N, K], of 8 bits with scales; in float32."""
    if block is None:
        block = (block_of(b.shape[1], b_scale.shape[1]), block_of(a.shape[1], a_scale.shape[1]))
    scales = (a_scale.float(), b_scale.float())
    return tensor(ops.scaled_grouped_matmul(a, b, *scales, offsets, *block))
