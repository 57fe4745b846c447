"""Reductions and softmax over a dimension in the middle beside PyTorch's on a GPU.

    python benchmarks/gpu/middle_dimensions.py [--out FILE] [FILTER ...]

Every row compares the results, then times both in turn by replaying CUDA graphs of calls on the
same random data, which the cache may hold. Bytes are those of the input and of the results.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tilewright.torch
import torch
from replay import OPS, replayed

import tilewright

# Heads of tokens, pixels of channels, experts of a token; few and many, odd.
SHAPES = [(8, 512, 32, 64), (16, 1024, 16, 64), (64, 128, 8, 128), (4096, 33, 64), (4096, 16, 32),
          (1024, 16, 200), (300, 100, 40), (512, 49, 768), (2048, 12, 8), (2048, 100, 8),
          (4096, 7, 33)]  # fmt: skip
Function = Callable[[torch.Tensor], Any]
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
DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
REPEATS = 20


def _tensors(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _check(name: str, x: torch.Tensor, got: Any, want: Any) -> None:
    for ours, theirs in zip(_tensors(got), _tensors(want), strict=True):
        if name == "argmax":  # of equals PyTorch may name any
            ours, theirs = (x.gather(-2, at.unsqueeze(-2)) for at in (ours, theirs))
        torch.testing.assert_close(ours.float(), theirs.float(), rtol=1e-2, atol=2e-2)


def _measure(name: str, shape: tuple[int, ...], dtype: str) -> dict[str, Any]:
    x = torch.randn(shape, device="cuda", dtype=DTYPES[dtype])
    ours, peer = FUNCTIONS[name]
    got = ours(x)
    _check(name, x, got, peer(x))
    timings = replayed({"ours": ours, "torch": peer}, [(x,)], REPEATS)
    moved = x.nbytes + sum(result.nbytes for result in _tensors(got))
    return {"op": name, "shape": list(shape), "dtype": dtype, "bytes": moved, "seconds": timings,
            "ratio": timings["torch"] / timings["ours"], **timings.card}  # fmt: skip


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("filters", nargs="*", help="of operators' names")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    machine = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
               "tilewright": tilewright.__version__}  # fmt: skip
    print(machine)
    results: list[dict[str, Any]] = []
    for name in FUNCTIONS:
        if options.filters and not any(f in name for f in options.filters):
            continue
        for dtype in DTYPES:
            for shape in SHAPES:
                row = _measure(name, shape, dtype)
                ours, peer = (1e6 * row["seconds"][of] for of in ("ours", "torch"))
                print(f"{name:10} {dtype:5} {shape!s:20} {ours:7.2f} us  torch {peer:7.2f}")
                results.append(row)
        of_name = [math.log(row["ratio"]) for row in results if row["op"] == name]
        print(f"{name:10} geometric mean {math.exp(sum(of_name) / len(of_name)):.2f}", flush=True)
    if options.out:
        options.out.write_text(json.dumps({"machine": machine, "results": results}, indent=1))


if __name__ == "__main__":
    main()
