"""Reductions and softmax over a dimension in the middle beside PyTorch's on a GPU.

    python benchmarks/gpu/middle_dimensions.py [--out FILE] [FILTER ...]

See beside_torch.py.
"""

from __future__ import annotations

import torch
from beside_torch import Function, run
from replay import OPS

# Heads of tokens, pixels of channels, experts of a token; few and many, odd.
SHAPES = [(8, 512, 32, 64), (16, 1024, 16, 64), (64, 128, 8, 128), (4096, 33, 64), (4096, 16, 32),
          (1024, 16, 200), (300, 100, 40), (512, 49, 768), (2048, 12, 8), (2048, 100, 8),
          (4096, 7, 33)]  # fmt: skip
FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "sum": (lambda x: OPS.sum(x, -2), lambda x: x.sum(-2)),
    "mean": (lambda x: OPS.mean(x, -2), lambda x: x.mean(-2)),
    "amax": (lambda x: OPS.amax(x, -2), lambda x: x.amax(-2)),
    "argmax": (lambda x: OPS.argmax(x, -2), lambda x: x.argmax(-2)),
    "var_mean": (lambda x: OPS.var_mean(x, -2), lambda x: torch.var_mean(x, -2)),
    "norm2": (
        lambda x: OPS.reduce(x, "norm2", -2),
        lambda x: torch.linalg.vector_norm(x, dim=-2),
    ),
    "logsumexp": (lambda x: OPS.reduce(x, "logsumexp", -2), lambda x: x.logsumexp(-2)),
    "softmax": (lambda x: OPS.softmax(x, -2), lambda x: x.softmax(-2)),
    "log_softmax": (lambda x: OPS.log_softmax(x, -2), lambda x: x.log_softmax(-2)),
}


def _check(name: str, x: torch.Tensor, ours: torch.Tensor, theirs: torch.Tensor) -> None:
    if name == "argmax":  # of equals PyTorch may name any
        ours, theirs = (x.gather(-2, at.unsqueeze(-2)) for at in (ours, theirs))
    torch.testing.assert_close(ours.float(), theirs.float(), rtol=1e-2, atol=2e-2)


if __name__ == "__main__":
    run(__doc__, FUNCTIONS, SHAPES, _check)
