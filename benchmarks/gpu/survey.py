"""Many operators on shapes that no other table has, beside eager PyTorch, to find what is slow.

    python benchmarks/gpu/survey.py [--out FILE] [FILTER ...]

Each call is timed by replaying a CUDA graph of calls on rotating operands, in turn with the peer's.
Percentages are of the bandwidth of a device-to-device copy, for the bytes that must be moved.
Results are not compared here: tests do that.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tilewright.torch
import torch
import torch.nn.functional as F
from replay import OPS, Call, normal, replayed
from torch_peers import copy_rate

Make = Callable[[], tuple[Any, ...]]


@dataclass
class Case:
    """One operator on one shape, and what must be moved."""

    name: str
    make: Make
    ours: Call
    peer: Call | None
    bytes: int


def _f32(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda")


def _below(limit: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, limit, shape, device="cuda")


REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (OPS.sum, torch.sum),
    "amax": (OPS.amax, torch.amax),
    "argmax": (OPS.argmax, torch.argmax),
    "var_mean": (OPS.var_mean, torch.var_mean),
    "logsumexp": (lambda x, d: OPS.reduce(x, "logsumexp", d), torch.logsumexp),
    "norm2": (lambda x, d: OPS.reduce(x, "norm2", d), lambda x, d: x.norm(dim=d)),
    "prod": (lambda x, d: OPS.reduce(x, "prod", d), torch.prod),
    "count_nonzero": (OPS.count_nonzero, torch.count_nonzero),
}
SAME_SHAPE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "softmax": (OPS.softmax, F.softmax),
    "cumsum": (lambda x, d: OPS.scan(x, "sum", d), torch.cumsum),
}
WHERE = [((32768, 4096), 1), ((524288, 128), 1), ((4096, 50257), 1), ((64, 1048576), 1),
         ((32, 1000, 64), 1), ((64, 4096, 128), 1), ((8, 512, 32, 64), 2),
         ((4096, 4096), 0)]  # fmt: skip


def _along(shape: tuple[int, ...], dim: int) -> Iterator[Case]:
    size = 2 * math.prod(shape)
    for functions, moved in ((REDUCTIONS, size), (SAME_SHAPE, 2 * size)):
        for name, (ours, peer) in functions.items():
            yield Case(f"{name} {shape} dim {dim}", lambda: (normal(*shape),),
                       lambda x, f=ours: f(x, dim), lambda x, f=peer: f(x, dim),
                       moved)  # fmt: skip


def _rows() -> Iterator[Case]:
    for rows, cols in ((8192, 32000), (4096, 50257), (65536, 128), (16384, 1000)):
        yield Case(f"cross_entropy {rows}x{cols}",
                   lambda r=rows, c=cols: (normal(r, c), _below(c, r)), OPS.cross_entropy,
                   F.cross_entropy, 2 * rows * cols)  # fmt: skip
    for rows, cols in ((32768, 4096), (524288, 128), (8192, 1023)):
        one = lambda r=rows, c=cols: (_f32(r, c),)  # noqa: E731
        yield Case(f"softmax f32 {rows}x{cols}", one, lambda x: OPS.softmax(x, -1),
                   lambda x: F.softmax(x, -1), 8 * rows * cols)  # fmt: skip
        yield Case(f"layer_norm f32 {rows}x{cols}",
                   lambda r=rows, c=cols: (_f32(r, c), _f32(c), _f32(c)), OPS.layer_norm,
                   lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b),
                   8 * rows * cols)  # fmt: skip
    for group in (128, 4096):
        for name, call in (("fp8", OPS.quantize_fp8), ("int8", OPS.quantize_int8)):
            yield Case(f"quantize_{name} 8192x4096 by {group}", lambda: (normal(8192, 4096),),
                       lambda x, f=call, g=group: f(x, g), None, 3 * 8192 * 4096)  # fmt: skip


def _choices() -> Iterator[Case]:
    for rows, cols, k in ((65536, 128, 8), (8192, 256, 8), (64, 50257, 50), (16, 128256, 50),
                          (4096, 4096, 64), (1, 128256, 1)):  # fmt: skip
        yield Case(f"topk {rows}x{cols} k {k}", lambda r=rows, c=cols: (normal(r, c),),
                   lambda x, k=k: OPS.topk(x, k), lambda x, k=k: x.topk(k),
                   2 * rows * cols)  # fmt: skip
    for vocabulary in (32000, 128256):
        logits = lambda v=vocabulary: (_f32(16, v),)  # noqa: E731
        yield Case(f"sample greedy 16x{vocabulary}", logits, lambda x: OPS.sample(x, None, 0.0),
                   lambda x: x.argmax(-1), 64 * vocabulary)  # fmt: skip
        yield Case(f"sample top_k 50 top_p 0.9 16x{vocabulary}", logits,
                   lambda x: OPS.sample(x, None, 0.8, 50, 0.9), None,
                   64 * vocabulary)  # fmt: skip
    for tokens, experts, k in ((8192, 128, 8), (65536, 256, 8), (64, 64, 6)):
        yield Case(f"moe_align {tokens}x{k} of {experts}",
                   lambda t=tokens, e=experts, k=k: (_below(e, t, k).int(),),
                   lambda x, e=experts: OPS.moe_align(x, e, 1), lambda x: torch.sort(x.view(-1)),
                   4 * tokens * k)  # fmt: skip


def _embeddings() -> Iterator[Case]:
    dense = torch.ops.aten.embedding_dense_backward
    for words, dims, n in ((50257, 768, 16384), (32000, 100, 65536), (128256, 64, 65536),
                           (50304, 2048, 8192)):  # fmt: skip
        yield Case(f"embedding {words}x{dims} of {n}",
                   lambda w=words, d=dims, n=n: (normal(w, d), _below(w, n)), OPS.embedding,
                   lambda w, i: F.embedding(i, w), 4 * n * dims)  # fmt: skip
        yield Case(f"embedding_backward {words}x{dims} of {n}",
                   lambda w=words, d=dims, n=n: (normal(n, d), _below(w, n), normal(w, d)),
                   OPS.embedding_backward, lambda g, i, w: dense(g, i, w.shape[0], -1, False),
                   2 * (n + words) * dims)  # fmt: skip


def _elements() -> Iterator[Case]:
    rows, cols = 8192, 4096
    n = 2 * rows * cols
    one = lambda: (normal(rows, cols),)  # noqa: E731
    yield Case("add a row", lambda: (*one(), normal(cols)), OPS.add, torch.add, 2 * n)
    yield Case("mul a column", lambda: (*one(), normal(rows, 1)), OPS.mul, torch.mul, 2 * n)
    yield Case("add transposed", lambda: (normal(cols, rows).t(), *one()), OPS.add, torch.add,
               3 * n)  # fmt: skip
    yield Case("add every other", lambda: (normal(rows, 2 * cols)[:, ::2], *one()), OPS.add,
               torch.add, 3 * n)  # fmt: skip
    yield Case("sin", one, lambda x: OPS.unary(x, "sin"), torch.sin, 2 * n)
    yield Case("pow", lambda: (one()[0].abs(), *one()), lambda a, b: OPS.binary(a, b, "pow"),
               torch.pow, 3 * n)  # fmt: skip
    for length in (4096, 1000):
        yield Case(f"fft 2048x{length}", lambda k=length: (_f32(2048, k, 2),), OPS.fft,
                   lambda x: torch.fft.fft(torch.view_as_complex(x)),
                   16 * 2048 * length)  # fmt: skip


def cases() -> Iterator[Case]:
    """All, which make their operands when they are measured."""
    for shape, dim in WHERE:
        yield from _along(shape, dim)
    for group in (_rows, _choices, _embeddings, _elements):
        yield from group()


def _measure(case: Case, copy: float) -> dict[str, Any]:
    copies = max(1, min(6, int(200e6 // case.bytes) + 1))
    operands = [case.make() for _ in range(copies)]
    calls = {"ours": case.ours} | ({"torch": case.peer} if case.peer else {})
    repeats = max(1, min(20, int(1e-3 / (case.bytes / 1.5e12 + 3e-6) / copies)))
    seconds = replayed(calls, operands, repeats)
    return {"case": case.name, "bytes": case.bytes, "seconds": dict(seconds),
            "fraction_of_copy": case.bytes / seconds["ours"] / copy}  # fmt: skip


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="write the results to this file, JSON")
    parser.add_argument("filter", nargs="*", help="only cases whose name contains one of these")
    args = parser.parse_args()
    copy = copy_rate()
    machine = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
               "copy_gbs": copy * 1e-9, "tilewright": tilewright.__version__}  # fmt: skip
    print(machine, flush=True)
    results = []
    for case in cases():
        if args.filter and not any(part in case.name for part in args.filter):
            continue
        row = _measure(case, copy)
        results.append(row)
        times = "  ".join(f"{k} {v * 1e6:9.1f} us" for k, v in row["seconds"].items())
        print(f"{case.name:44s} {100 * row['fraction_of_copy']:6.1f} %  {times}", flush=True)
    if args.out:
        args.out.write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
