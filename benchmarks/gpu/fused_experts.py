"""A layer of experts on a GPU, beside PyTorch's grouped products and beside its own two products.

    python benchmarks/gpu/fused_experts.py [--out FILE] [--dtype bf16|f16] [FILTER ...]

Every row compares ours with float64 of sampled tokens, then times replays of captured graphs in
turn: `ours`; `products`, the two grouped products alone, which are its bound; and `torch`, which
sorts tokens by expert, gathers, multiplies by torch._grouped_mm and adds up. Tokens choose their
experts at random. Rates count the products; the fraction of the bound is products / ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import tilewright.torch  # noqa: F401
import torch
from attention import Call, arguments, in_turns, run
from card import Timings

OPS = torch.ops.tilewright


@dataclass
class Row:
    """Tokens, features, experts, features inside an expert, and experts of a token."""

    name: str
    tokens: int
    hidden: int
    experts: int
    inner: int
    top_k: int
    chosen: int = 0  # experts that tokens chose, whose weights have to be read
    timings: Timings = field(default_factory=Timings)

    def flops(self) -> float:
        """Of both products."""
        return 6.0 * self.tokens * self.top_k * self.hidden * self.inner

    def bytes(self) -> float:
        """Of the chosen experts' weights, and of tokens once in and once out."""
        return 2.0 * self.hidden * (3 * self.chosen * self.inner + 2 * self.tokens)


def _rows() -> Iterator[Row]:
    for model, sizes in {
        "qwen3-30b-a3b": (2048, 128, 768, 8),
        "deepseek-v3": (7168, 256, 2048, 8),
    }.items():
        for tokens in (1, 16, 128, 1024, 8192):
            yield Row(f"{model} {tokens} tokens", tokens, *sizes)


def _captured(call: Call) -> Call:
    """Replays of a call, whose tensors live as long."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return lambda _=call: graph.replay()


def _torch(x: Any, gate_up: Any, down: Any, weights: Any, ids: Any) -> torch.Tensor:
    top_k = ids.shape[1]
    order = ids.flatten().argsort(stable=True)
    experts = torch.arange(len(down), device=x.device, dtype=ids.dtype)
    ends = torch.searchsorted(ids.flatten()[order], experts, right=True).to(torch.int32)
    made = torch._grouped_mm(x[order // top_k], gate_up.mT, offs=ends)
    gate, up = made.chunk(2, -1)
    made = torch._grouped_mm(torch.nn.functional.silu(gate) * up, down.mT, offs=ends)
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=x.device)
    rows = made[back].view(*ids.shape, -1)
    return (rows * weights[..., None].to(rows.dtype)).sum(1)


def _products(row: Row, x: Any, gate_up: Any, down: Any, ids: Any) -> Call:
    _, offsets, order, _ = OPS.moe_align(ids, row.experts)
    rows = x[order.long() // row.top_k]
    inside = torch.randn(len(rows), row.inner, device="cuda").to(x.dtype)

    def call() -> None:
        OPS.grouped_matmul(rows, gate_up.mT, offsets)
        OPS.grouped_matmul(inside, down.mT, offsets)

    return call


def _check(out: torch.Tensor, x: Any, gate_up: Any, down: Any, weights: Any, ids: Any) -> None:
    for t in {0, len(x) // 2, len(x) - 1}:
        want = torch.zeros_like(out[t], dtype=torch.float64)
        for weight, expert in zip(weights[t].double(), ids[t].tolist(), strict=True):
            gate, up = (gate_up[expert].double() @ x[t].double()).chunk(2)
            want += weight * (down[expert].double() @ (torch.nn.functional.silu(gate) * up))
        error = (out[t].double() - want).norm() / want.norm()
        assert error < 1e-2, f"token {t} is off by {error:.1e} of its norm"


def _normal(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Of the deviation of a layer that keeps that of its input."""
    return torch.randn(shape, device="cuda", dtype=dtype).mul_(shape[-1] ** -0.5)


def operands(row: Row, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Tokens, both weights, and the experts of each token with their weights."""
    x = torch.randn(row.tokens, row.hidden, device="cuda", dtype=dtype)
    gate_up = _normal(dtype, row.experts, 2 * row.inner, row.hidden)
    down = _normal(dtype, row.experts, row.hidden, row.inner)
    logits = torch.randn(row.tokens, row.experts, device="cuda")
    weights, ids = OPS.moe_topk(logits, row.top_k, None, "softmax", True)
    return x, gate_up, down, weights, ids


def _measure(row: Row, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    given = x, gate_up, down, _, ids = operands(row, dtype)
    row.chosen = len(ids.unique())
    _check(OPS.fused_experts(*given), *given)
    row.timings = in_turns(
        _captured(lambda: OPS.fused_experts(*given)),
        {
            "products": lambda: _captured(_products(row, x, gate_up, down, ids)),
            "torch": lambda: _captured(lambda: _torch(*given)),
        },
        most=50,
        seconds=10e-3,
    )


def _describe(row: Row) -> dict[str, Any]:
    rates = {name: row.flops() * 1e-12 / seconds for name, seconds in row.timings.items()}
    bound = row.timings["products"] / row.timings["ours"]
    text = "  ".join(f"{name} {seconds * 1e6:8.1f}" for name, seconds in row.timings.items())
    print(f"{row.name:28} us  {text}   {rates['ours']:4.0f} TFLOP/s  {bound:.2f} of the bound"
          f"{row.timings.shown()}")  # fmt: skip
    shape = {key: value for key, value in vars(row).items() if key != "timings"}
    return {**shape, "seconds": row.timings, "unit": "TFLOP/s", "rates": rates,
            "bytes": row.bytes(), "fraction_of_bound": bound}  # fmt: skip


def main() -> None:
    """Measures what the command line asks for."""
    run(arguments(__doc__), _rows(), _measure, _describe)


if __name__ == "__main__":
    main()
