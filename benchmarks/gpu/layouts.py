"""Transposes and permutations with small dimensions beside PyTorch's on a GPU.

    python benchmarks/gpu/layouts.py [--out FILE]

See beside_torch.py.
"""

from __future__ import annotations

import torch
from beside_torch import run
from replay import OPS

MIDDLE_FIRST = [0, 2, 1, 3]  # of three dimensions the last two change places
# Matrices with a short side, one and many; channels and pixels; heads of few dimensions; and small
# tensors.
SHAPES = [(1, 16, 4096), (1, 17, 4096), (1, 16, 65536), (1, 16, 1 << 22), (1, 8, 1 << 22),
          (1, 1 << 22, 8), (4096, 16, 64), (1024, 16, 1024), (65536, 16, 16), (16384, 8, 8),
          (8192, 32, 64), (1024, 256, 16), (32, 3, 50176), (32, 50176, 3), (32, 63, 3136),
          (32, 3136, 63), (500, 100, 40), (1 << 20, 3, 3), (4, 1000, 1000), (64, 128, 16, 4),
          (64, 512, 32, 8), (8, 512, 32, 12), (16, 197, 12, 20), (4, 1000, 7, 3), (8, 32, 128),
          (1, 4097, 65), (200, 1000, 5), (2, 128, 16, 64), (1, 512, 8, 128), (1, 256, 256),
          (1, 512, 512), (64, 64, 64), (3, 224, 224), (3, 100, 100), (1, 2048, 2048),
          (16, 256, 256)]  # fmt: skip


def _ours(x: torch.Tensor) -> torch.Tensor:
    return OPS.permute(x, MIDDLE_FIRST[: x.dim()])


def _torch(x: torch.Tensor) -> torch.Tensor:
    return x.permute(MIDDLE_FIRST[: x.dim()]).contiguous()


def _check(name: str, x: torch.Tensor, ours: torch.Tensor, theirs: torch.Tensor) -> None:
    if not torch.equal(ours, theirs):
        raise SystemExit(f"{name} {tuple(x.shape)}: not PyTorch's")


if __name__ == "__main__":
    run(__doc__, {"permute": (_ours, _torch)}, SHAPES, _check)
