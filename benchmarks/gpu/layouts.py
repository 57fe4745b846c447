"""Transposes and permutations with small dimensions beside PyTorch's on a GPU.

    python benchmarks/gpu/layouts.py [--out FILE]

Every row compares the results, then times both in turn by replaying CUDA graphs of calls on the
same random data, which the cache may hold. Bytes are those read and written.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import tilewright.torch
import torch
from replay import OPS, replayed

import tilewright

MIDDLE_FIRST = [0, 2, 1, 3]  # of three dimensions the last two change places
# Matrices with a short side, one and many; channels and pixels; heads of few dimensions.
TRANSPOSED = [(1, 16, 4096), (1, 17, 4096), (1, 16, 65536), (1, 16, 1 << 22), (1, 8, 1 << 22),
              (1, 1 << 22, 8), (4096, 16, 64), (1024, 16, 1024), (65536, 16, 16), (16384, 8, 8),
              (8192, 32, 64), (1024, 256, 16), (32, 3, 50176), (32, 50176, 3), (32, 63, 3136),
              (32, 3136, 63), (500, 100, 40), (1 << 20, 3, 3), (4, 1000, 1000)]  # fmt: skip
PERMUTED = [(64, 128, 16, 4), (64, 512, 32, 8), (8, 512, 32, 12), (16, 197, 12, 20),
            (4, 1000, 7, 3)]  # fmt: skip
DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
REPEATS = 20


def _measure(shape: tuple[int, ...], dtype: str) -> dict[str, Any]:
    x = torch.randn(shape, device="cuda", dtype=DTYPES[dtype])
    order = MIDDLE_FIRST[: x.dim()]
    calls = {
        "ours": lambda x: OPS.permute(x, order),
        "torch": lambda x: x.permute(order).contiguous(),
    }
    if not torch.equal(calls["ours"](x), calls["torch"](x)):
        raise SystemExit(f"permute {dtype} {shape}: not PyTorch's")
    timings = replayed(calls, [(x,)], REPEATS)
    return {"op": "permute", "shape": list(shape), "order": order, "dtype": dtype,
            "bytes": 2 * x.nbytes, "seconds": timings,
            "ratio": timings["torch"] / timings["ours"], **timings.card}  # fmt: skip


def main() -> None:
    """Measures all shapes and types."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    machine = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
               "tilewright": tilewright.__version__}  # fmt: skip
    print(machine)
    results: list[dict[str, Any]] = []
    for dtype in DTYPES:
        for shape in [*TRANSPOSED, *PERMUTED]:
            row = _measure(shape, dtype)
            ours, peer = (1e6 * row["seconds"][of] for of in ("ours", "torch"))
            print(f"{dtype:5} {shape!s:20} {ours:7.2f} us  torch {peer:7.2f}", flush=True)
            results.append(row)
    mean = math.exp(sum(math.log(row["ratio"]) for row in results) / len(results))
    print(f"geometric mean {mean:.2f}")
    if options.out:
        options.out.write_text(json.dumps({"machine": machine, "results": results}, indent=1))


if __name__ == "__main__":
    main()
