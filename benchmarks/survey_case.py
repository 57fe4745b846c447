"""What benchmarks/survey.py measures: calls, and random operands for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

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
