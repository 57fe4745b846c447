"""The loss of a language model's last layer and its gradients on a GPU, beside PyTorch and Liger.

    python benchmarks/gpu/linear_cross_entropy.py [--out FILE] [--dtype bf16|f16] [FILTER ...]

A call is the mean cross-entropy of x weightᵀ and both gradients, from autograd. Every row compares
the loss and both gradients with PyTorch's of the same data, then times ours and the peers in turn.
Rates count the three products; memory is what a call takes beside its operands, gradients and all.
Liger Kernel is a peer where it is installed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import liger_peers
import tilewright.torch  # noqa: F401
import torch
import torch.nn.functional as F
from attention import Call, arguments, in_turns, run
from card import Timings

Loss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
TOLERANCE = 2e-2  # of the norm


@dataclass
class Row:
    """Tokens, features and classes."""

    name: str
    rows: int
    features: int
    vocabulary: int
    timings: Timings = field(default_factory=Timings)
    memory: dict[str, int] = field(default_factory=dict)

    def flops(self) -> float:
        """Of the logits and of both gradients."""
        return 6.0 * self.rows * self.features * self.vocabulary


ROWS = (
    Row("llama-3-8b", 8192, 4096, 131072),
    Row("qwen3-4b", 8192, 2560, 151936),
    Row("smollm2-135m", 8192, 576, 49152),
    Row("odd sizes", 4095, 2050, 32003),
)


def _ours(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = torch.ops.tilewright.fused_linear_cross_entropy(x, weight, target)
    return out


def _eager(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(F.linear(x, weight), target)


def _liger(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    from liger_kernel.ops import LigerFusedLinearCrossEntropyFunction as Function

    loss: torch.Tensor = Function.apply(x, weight, target)[0]
    return loss


def _peers() -> dict[str, Loss]:
    out: dict[str, Loss] = {"torch": _eager, "compiled": torch.compile(_eager)}
    if liger_peers.version() != "absent":
        out["liger"] = _liger
    return out


def _call(loss: Loss, operands: tuple[torch.Tensor, ...]) -> Call:
    x, weight, target = operands

    def call() -> list[torch.Tensor]:
        value = loss(x, weight, target)
        return [value, *torch.autograd.grad(value, (x, weight))]

    return call


def _compare(row: Row, ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> None:
    for name, a, b in zip(("loss", "x.grad", "weight.grad"), ours, theirs, strict=True):
        a, b = a.detach().float(), b.detach().float()
        error = float((a - b).norm() / b.norm())
        if not error <= TOLERANCE:
            raise AssertionError(f"{row.name}: {name} differs by {error:.3g} of its norm")


def _outside() -> int:
    """What the device holds beside PyTorch's allocator."""
    free, total = torch.cuda.mem_get_info()
    return total - free - torch.cuda.memory_reserved()


@functools.cache
def _outside_before() -> int:
    """The same with our kernels loaded, before they need memory of their own."""
    _call(_ours, _operands(2, 8, 8, torch.bfloat16))()
    torch.cuda.synchronize()
    return _outside()


def _peak(call: Call) -> int:
    """Bytes at once at most; our workspace stays with the process."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - held


def _operands(
    rows: int, features: int, vocabulary: int, dtype: torch.dtype
) -> tuple[torch.Tensor, ...]:
    options: dict[str, Any] = {"device": "cuda", "dtype": dtype}
    x = torch.randn(rows, features, **options)
    weight = torch.randn(vocabulary, features, **options).mul_(features**-0.5)
    target = torch.randint(vocabulary, (rows,), device="cuda")
    return x.requires_grad_(), weight.requires_grad_(), target


def _measure(row: Row, dtype: torch.dtype) -> None:
    before = _outside_before()
    operands, peers = _operands(row.rows, row.features, row.vocabulary, dtype), _peers()
    calls = {name: _call(loss, operands) for name, loss in {"ours": _ours, **peers}.items()}
    _compare(row, calls["ours"](), calls["torch"]())
    row.memory = {name: _peak(call) for name, call in calls.items()}
    row.memory["ours"] += max(_outside() - before, 0)
    makers = {name: partial(_call, loss, operands) for name, loss in peers.items()}
    row.timings = in_turns(calls["ours"], makers, most=10, seconds=0.1)


def _describe(row: Row) -> dict[str, Any]:
    rates = {name: row.flops() * 1e-12 / seconds for name, seconds in row.timings.items()}
    text = "  ".join(
        f"{name} {rate:6.0f} ({row.memory[name] / 2**20:5.0f} MiB)" for name, rate in rates.items()
    )
    shape = f"{row.rows} x {row.features} x {row.vocabulary}"
    print(f"{row.name:14} {shape:22} TFLOP/s  {text}{row.timings.shown()}", flush=True)
    about = {key: value for key, value in vars(row).items() if key != "timings"}
    about["name"] = f"{row.name}, {shape}"
    return {**about, "seconds": row.timings, "unit": "TFLOP/s", "rates": rates}


def main() -> None:
    """Measures what the command line asks for."""
    run(arguments(__doc__), ROWS, _measure, _describe)


if __name__ == "__main__":
    main()
