"""Mixtures of experts by the catalog's operators."""

from __future__ import annotations

import torch

from tilewright import ops
from tilewright.compat._tensors import tensor

Aligned = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def align(ids: torch.Tensor, experts: int, block_size: int = 1) -> Aligned:
    """moe_align: how many entries each expert has, where they end, their order, and back."""
    counts, offsets, order, positions = ops.moe_align(ids.to(torch.int32), experts, block_size)
    return counts, offsets, order, positions


def block_experts(offsets: torch.Tensor, slots: int, block_size: int) -> torch.Tensor:
    """The expert of each block of slots; the last one's after the end."""
    begins = torch.arange(0, slots, block_size, dtype=torch.int32, device=offsets.device)
    found = torch.searchsorted(offsets, begins, right=True)
    return found.clamp(max=max(len(offsets) - 1, 0)).to(torch.int32)


def rows(x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Rows of x, in any dtype."""
    if x.dtype in (torch.float32, torch.float16, torch.bfloat16):
        return tensor(ops.embedding(x, indices))
    return x.view(torch.uint8).index_select(0, indices).view(x.dtype)
