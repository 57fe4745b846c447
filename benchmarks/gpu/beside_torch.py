"""Operators of one tensor beside PyTorch's on a GPU: what the scripts that compare them share.

Every row compares the results, then times both in turn by replaying CUDA graphs of calls on the
same random data, which the cache may hold. Bytes are those of the input and of the results.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from card import machine
from replay import replayed

Function = Callable[[torch.Tensor], Any]
Check = Callable[[str, torch.Tensor, torch.Tensor, torch.Tensor], None]
DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
REPEATS = 20


def _tensors(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _measure(
    name: str,
    functions: tuple[Function, Function],
    check: Check,
    shape: tuple[int, ...],
    dtype: str,
) -> dict[str, Any]:
    x = torch.randn(shape, device="cuda", dtype=DTYPES[dtype])
    ours, peer = functions
    got = _tensors(ours(x))
    for result, want in zip(got, _tensors(peer(x)), strict=True):
        check(name, x, result, want)
    timings = replayed({"ours": ours, "torch": peer}, [(x,)], REPEATS)
    moved = x.nbytes + sum(result.nbytes for result in got)
    return {"op": name, "shape": list(shape), "dtype": dtype, "bytes": moved, "seconds": timings,
            "ratio": timings["torch"] / timings["ours"], **timings.card}  # fmt: skip


def run(
    description: str,
    functions: Mapping[str, tuple[Function, Function]],
    shapes: Sequence[tuple[int, ...]],
    check: Check,
) -> None:
    """Measures what the command line asks for: of each name ours and PyTorch's, of all shapes."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("filters", nargs="*", help="of operators' names")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    print(machine())
    results: list[dict[str, Any]] = []
    for name, both in functions.items():
        if options.filters and not any(f in name for f in options.filters):
            continue
        for dtype in DTYPES:
            for shape in shapes:
                row = _measure(name, both, check, shape, dtype)
                ours, peer = (1e6 * row["seconds"][of] for of in ("ours", "torch"))
                print(f"{name:10} {dtype:5} {shape!s:20} {ours:7.2f} us  torch {peer:7.2f}")
                results.append(row)
        of_name = [math.log(row["ratio"]) for row in results if row["op"] == name]
        print(f"{name:10} geometric mean {math.exp(sum(of_name) / len(of_name)):.2f}", flush=True)
    if options.out:
        options.out.write_text(json.dumps({"machine": machine(), "results": results}, indent=1))
