"""The builds of the Hopper matrix multiplication beside each other and beside cuBLAS.

    python benchmarks/gpu/gemm_builds.py [--out FILE] [--fit] [--plain]

Layers of bf16 with a bias (--plain: without), as CUDA graphs over several weights.
TILEWRIGHT_GEMM_BUILD says which build of tilewright/kernels/gemm_policy_sm90.h runs; "chosen" is
what the policy takes. With --fit, the policy's constants are fitted to what was measured: clocks
of a step and microseconds of a wave, for each build.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from card import machine
from replay import OPS, Call, graph_of, normal, seconds

BUILD = "TILEWRIGHT_GEMM_BUILD"
POLICY = Path(__file__).parents[2] / "tilewright/kernels/gemm_policy_sm90.h"

FEATURES = [(768, 768), (2304, 768), (3072, 768), (768, 3072), (1024, 1024), (4096, 1024),
            (1024, 4096), (512, 512), (2048, 2048), (4096, 4096), (14336, 4096)]  # fmt: skip
ROWS = [1, 16, 32, 64, 128, 197, 256, 384, 577, 1024, 1576, 2048, 3000, 4096, 8192]
MOST_FLOPS = 3e11


def _constant(header: Path, name: str) -> float:
    return float(re.search(rf"\b{name} = ([\d.e]+)", header.read_text())[1])


MULTIPROCESSORS = 132
LAUNCH_US, EXPOSED = _constant(POLICY, "kLaunchUs"), _constant(POLICY, "kExposed")
LIMITS = POLICY.with_name("hopper_limits.h")
MHZ, READ = _constant(LIMITS, "kTensorMhz"), _constant(LIMITS, "kReadBytesPerUs")


def _builds() -> list[dict[str, Any]]:
    """Of the policy's table: sizes of a tile and the other fields."""
    table = POLICY.read_text().split("kGemmShapes[] = {")[1].split("};")[0]
    builds = []
    for text in re.split(r"\{\{", table)[1:]:
        fields = dict(re.findall(r"\.(\w+) = (\w+)", text))
        costs = text.split("}", 1)[1]
        clocks, us = re.findall(r"[\d.]+", costs)[:2]
        builds.append({"m": int(fields["tile_m"]), "n": int(fields["tile_n"]),
                       "split": int(fields.get("split", 1)), "turned": "transposed_out" in fields,
                       "ping_pong": "ping_pong" in fields, "only_tf32": "true" in costs,
                       "clocks": float(clocks), "us": float(us)})  # fmt: skip
    return builds


def _predicted(build: dict[str, Any], size: list[int], clocks: float, us: float) -> float:
    """Microseconds, by the policy's model."""
    m, n, k = size
    along = (n, m) if build["turned"] else (m, n)
    tiles = math.ceil(along[0] / build["m"]) * math.ceil(along[1] / build["n"])
    waves = math.ceil(tiles / (MULTIPROCESSORS // build["split"]))
    steps = math.ceil(math.ceil(k * 2 / 128) / build["split"])
    working = waves * steps * clocks / MHZ + us * (1 if build["ping_pong"] else waves)
    reading = 2 * (m * k + n * k + m * n) / READ + us
    return LAUNCH_US + max(working, reading) + EXPOSED * min(working, reading)


def _fitted(build: dict[str, Any], rows: list[dict[str, Any]], name: str) -> tuple[float, float]:
    def error(clocks: float, us: float) -> float:
        return sum(math.log(_predicted(build, row["size"], clocks, us) / row["us"][name]) ** 2
                   for row in rows)  # fmt: skip

    grid = [(c, u / 10) for c in range(200, 1200, 10) for u in range(40)]
    return min(grid, key=lambda at: error(*at))


def _measure(size: tuple[int, int, int], biased: bool, builds: list[str]) -> dict[str, Any]:
    """Medians in microseconds, of builds in turn."""
    m, n, k = size
    count = 3 if n * k > 3e7 else 8
    shapes = [(m, k), (n, k), (n,)][: 3 if biased else 2]
    operands = [tuple(normal(*shape) for shape in shapes) for _ in range(count)]
    graphs = {}
    for name in ["cublas", "chosen", *builds]:
        call: Call = F.linear if name == "cublas" else OPS.linear
        os.environ[BUILD] = name if name in builds else ""  # the policy chooses
        graphs[name] = graph_of(call, operands, 4)
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(5):
        for name, graph in graphs.items():
            times[name].append(seconds(graph, 4 * count) * 1e6)
    return {"size": list(size), "us": {name: statistics.median(t) for name, t in times.items()}}


def _mean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def main() -> None:
    """Measures, prints and fits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="write what was measured as JSON")
    parser.add_argument("--fit", action="store_true", help="print constants for the policy")
    parser.add_argument("--plain", action="store_true", help="without a bias")
    options = parser.parse_args()
    builds = {str(i): b for i, b in enumerate(_builds()) if not b["only_tf32"]}
    rows = []
    for m in ROWS:
        for n, k in FEATURES:
            if 2.0 * m * n * k > MOST_FLOPS:
                continue
            row = _measure((m, n, k), not options.plain, list(builds))
            us = row["us"]
            fastest = min(builds, key=us.__getitem__)
            print(f"{m} x {n} x {k}: cuBLAS {us['cublas']:.1f}  chosen {us['chosen']:.1f}  "
                  f"best {us[fastest]:.1f} ({fastest})", flush=True)  # fmt: skip
            rows.append(row)
    chosen = _mean([row["us"]["cublas"] / row["us"]["chosen"] for row in rows])
    best = _mean([row["us"]["cublas"] / min(row["us"][b] for b in builds) for row in rows])
    print(f"of cuBLAS, geometric mean: chosen {chosen:.3f}, best {best:.3f}")
    if options.fit:
        for name, build in builds.items():
            clocks, us = _fitted(build, rows, name)
            print(f"build {name}, {build['m']}x{build['n']}: {clocks:.0f}, {us:.1f} "
                  f"(now {build['clocks']:.0f}, {build['us']:.1f})")  # fmt: skip
    if options.out:
        options.out.write_text(json.dumps({"machine": machine(), "results": rows}) + "\n")


if __name__ == "__main__":
    main()
