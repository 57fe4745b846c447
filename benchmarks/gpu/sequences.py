"""A matrix product behind a norm on a GPU: what the order of kernels on a stream costs.

    python benchmarks/gpu/sequences.py [--out FILE] [--dtype bf16|f16] [FILTER ...]

Every row times, in turn, our norm and product (`ours`), the same with a small kernel of PyTorch
between them (`apart`), our norm and cuBLAS's product (`cublas`), and the product alone (`product`),
after comparing ours with float64 in sampled rows. Rates count the product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import tilewright.torch  # noqa: F401
import torch
from attention import arguments, in_turns, run
from card import Timings

OPS = torch.ops.tilewright


@dataclass
class Row:
    """A product of m x k by k x n."""

    m: int
    n: int
    k: int
    timings: Timings = field(default_factory=Timings)

    @property
    def name(self) -> str:
        """What the command line chooses by."""
        return f"{self.m} x {self.n} x {self.k}"


def _rows() -> Iterator[Row]:
    for shape in (
        (1, 4096, 4096),
        (16, 14336, 4096),
        (128, 14336, 4096),
        (512, 14336, 4096),
        (2048, 4096, 4096),
        (4096, 14336, 4096),
        (8192, 4096, 4096),
        (8192, 28672, 8192),
    ):
        yield Row(*shape)


def _check(out: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> None:
    at = [0, len(x) // 2, len(x) - 1]
    rows = x[at].double()
    want = rows / (rows.square().mean(-1, keepdim=True) + 1e-6).sqrt() @ w.double().T
    error = (out[at].double() - want).norm() / want.norm()
    assert error < 1e-2, f"off by {error:.1e} of its norm"


def _measure(row: Row, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(row.m, row.k, device="cuda", dtype=dtype)
    w = torch.randn(row.n, row.k, device="cuda", dtype=dtype).mul_(row.k**-0.5)
    scale, little = torch.ones(row.k, device="cuda", dtype=dtype), torch.zeros(4, device="cuda")

    def ours() -> Any:
        return OPS.linear(OPS.rms_norm(x, scale, 1e-6), w)

    def apart() -> Any:
        y = OPS.rms_norm(x, scale, 1e-6)
        little.add_(1)
        return OPS.linear(y, w)

    def cublas() -> Any:
        return torch.nn.functional.linear(OPS.rms_norm(x, scale, 1e-6), w)

    _check(ours(), x, w)
    others = {"apart": apart, "cublas": cublas, "product": lambda: OPS.linear(x, w)}
    makers = {name: (lambda call=call: call) for name, call in others.items()}
    row.timings = in_turns(ours, makers, most=50, seconds=10e-3)


def _describe(row: Row) -> dict[str, Any]:
    text = "  ".join(f"{name} {seconds * 1e6:8.1f}" for name, seconds in row.timings.items())
    rate = 2e-12 * row.m * row.n * row.k / row.timings["ours"]
    print(f"{row.name:28} us  {text}   {rate:4.0f} TFLOP/s{row.timings.shown()}")
    return {"m": row.m, "n": row.n, "k": row.k, "seconds": row.timings}


def main() -> None:
    """Measures what the command line asks for."""
    run(arguments(__doc__), _rows(), _measure, _describe)


if __name__ == "__main__":
    main()
