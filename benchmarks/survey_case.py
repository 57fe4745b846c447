"""What benchmarks/survey.py measures: calls, and random operands for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

OPS = torch.ops.tilewright

Make = Callable[[], tuple[Any, ...]]
Call = Callable[..., Any]


@dataclass
class Case:
    """One operator on one shape, what must be moved, and what is computed."""

    name: str
    make: Make
    ours: Call
    peer: Call | None
    bytes: int
    flops: int = 0
    captured: bool = True  # whether a CUDA graph can hold the peer


def heads_first(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """As PyTorch's attention has them."""
    return [x.transpose(1, 2) for x in tensors]


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **more: Any) -> torch.Tensor:
    """PyTorch's attention, of [B, S, H, D]."""
    gqa = q.shape[2] != k.shape[2]
    return F.scaled_dot_product_attention(*heads_first(q, k, v), enable_gqa=gqa, **more)


class Operands:
    """The calls of a device, which make their operands when they are measured."""

    def __init__(self, device: str) -> None:
        """Of a GPU, with all rows."""
        self.device = device
        self.share = 1 if device == "cuda" else 16

    def _f32(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=self.device)

    def _bf16(self, *shape: int) -> torch.Tensor:
        return self._f32(*shape).bfloat16()

    def _below(self, limit: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, limit, shape, device=self.device)
