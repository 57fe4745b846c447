#!/usr/bin/env python3
"""A linear layer of 4-bit weights on tilewright and on ggml's kernels, in turns on the same data.

ggml is that of llama-cpp-python, built for this very processor; its weight lies as it repacks it
for speed where it has such a layout. Both read the same blocks, quantised by ggml from random
normal weights, and are compared before they are timed. Weights come from memory: each side goes
through three copies, which no cache holds. A turn begins with some calls that are not timed, since
a machine that was idle takes milliseconds to get going.

Example:
    python3 benchmarks/language_model/linear_peers.py --out benchmarks/results/linear_peers.json
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
from environment import environment

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("TILEWRIGHT_BIN", ROOT / "build" / "release" / "tilewright"))
os.environ.setdefault("TILEWRIGHT_LIBRARY_DIR", str(TOOL.parent.resolve()))
sys.path.insert(0, str(ROOT / "python"))

from tilewright import ops  # noqa: E402

FORMATS = {"q4_0": 2, "q4_k": 12}  # enum ggml_type
F32 = 0  # the same
Call = Callable[[], Any]
FEATURES, K = 14336, 4096
COPIES = 3
TIMED = 3  # calls of a turn
WARM_SECONDS = 0.03
QUIET_SECONDS = 0.3  # ggml's threads wait for work by spinning, which takes another side's cores


class Parameters(ctypes.Structure):
    """`struct ggml_init_params`."""

    _fields_ = [("size", ctypes.c_size_t), ("buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


class Ggml:
    """Products by ggml's CPU backend."""

    def __init__(self, python: str, threads: int) -> None:
        """Loads the libraries of the environment that `python` belongs to."""
        code = "import importlib.util as u; print(u.find_spec('llama_cpp').origin)"
        found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
        folder = Path(found.stdout.strip()).parent / "lib"
        self.base = ctypes.CDLL(str(folder / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
        self.cpu = ctypes.CDLL(str(folder / "libggml-cpu.so"), mode=ctypes.RTLD_GLOBAL)
        self.backend = self.call("ggml_backend_cpu_init")
        self.call("ggml_backend_cpu_set_n_threads", self.backend, ctypes.c_int(threads))

    def call(self, name: str, *arguments: Any) -> Any:
        """A function that gives a pointer, a count or nothing; integers are 64 bits wide."""
        function = getattr(self.cpu, name, None) or getattr(self.base, name)
        function.restype = ctypes.c_void_p
        wide = [ctypes.c_int64(a) if type(a) is int and a < 1 << 31 else a for a in arguments]
        return function(*(ctypes.c_void_p(a) if type(a) is int else a for a in wide))

    def quantized(self, weight: np.ndarray, kind: int) -> np.ndarray:
        """Rows of blocks."""
        rows, k = weight.shape
        row_bytes = self.call("ggml_row_size", ctypes.c_int(kind), k)
        out = np.zeros((rows, row_bytes), np.uint8)
        args = (ctypes.c_int(kind), weight.ctypes, out.ctypes, 0, rows, k, None)
        self.call("ggml_quantize_chunk", *args)
        return out

    def tensor(self, kind: int, sizes: tuple[int, int], data: np.ndarray, buffers: Any) -> Any:
        """A tensor of `sizes` (rows, columns) in memory of its own, and its context."""
        context = self.call("ggml_init", Parameters(1 << 20, None, True))
        made = self.call("ggml_new_tensor_2d", context, ctypes.c_int(kind), sizes[1], sizes[0])
        if not self.call("ggml_backend_alloc_ctx_tensors_from_buft", context, buffers):
            raise RuntimeError("ggml allocated no buffer")
        self.call("ggml_backend_tensor_set", made, data.ctypes, 0, data.nbytes)
        return made

    def product(self, blocks: np.ndarray, kind: int, x: np.ndarray) -> tuple[Call, Any]:
        """How to run x weightᵀ, and how to read it."""
        plain = self.call("ggml_backend_cpu_buffer_type")
        repacked = self.call("_Z35ggml_backend_cpu_repack_buffer_typev")
        weight = self.tensor(kind, (FEATURES, K), blocks, repacked)
        tokens = self.tensor(F32, x.shape, x, plain)
        context = self.call("ggml_init", Parameters(1 << 20, None, True))
        result = self.call("ggml_mul_mat", context, weight, tokens)
        graph = self.call("ggml_new_graph", context)
        self.call("ggml_build_forward_expand", graph, result)
        self.call("ggml_backend_alloc_ctx_tensors_from_buft", context, plain)

        def read() -> np.ndarray:
            out = np.empty((x.shape[0], FEATURES), np.float32)
            self.call("ggml_backend_tensor_get", result, out.ctypes, 0, out.nbytes)
            return out

        return lambda: self.call("ggml_backend_graph_compute", self.backend, graph), read


def summary(values: list[float]) -> dict[str, float]:
    """Median and spread, in microseconds."""
    tenths = quantiles(values, n=10)
    return {"median": median(values), "p10": tenths[0], "p90": tenths[-1], "runs": len(values)}


def timed(weights: list[Call]) -> list[float]:
    """Microseconds of some calls, in turns, once the machine is awake."""
    calls = itertools.cycle(weights)
    begin = time.perf_counter()
    while time.perf_counter() < begin + WARM_SECONDS:
        next(calls)()
    found = []
    for call in itertools.islice(calls, TIMED):
        begin = time.perf_counter()
        call()
        found.append(1e6 * (time.perf_counter() - begin))
    return found


def measure(ggml: Ggml, name: str, tokens: int, turns: int) -> dict[str, Any]:
    """Both in turns on one layer."""
    rng = np.random.default_rng(tokens)
    blocks = ggml.quantized(rng.standard_normal((FEATURES, K), np.float32), FORMATS[name])
    x = rng.standard_normal((tokens, K), np.float32)
    packed = [ops.pack_quantized(blocks, format=name) for _ in range(COPIES)]
    products = [ggml.product(blocks, FORMATS[name], x) for _ in range(COPIES)]
    sides: dict[str, list[Call]] = {
        "tilewright": [partial(ops.linear_quantized, x, weight) for weight in packed],
        "ggml": [run for run, _ in products],
    }
    exact = ops.linear_quantized(x, packed[0], compute="f32")
    theirs, read = products[0]
    theirs()
    for side, out in (("tilewright", ops.linear_quantized(x, packed[0])), ("ggml", read())):
        error = float(np.linalg.norm(out - exact) / np.linalg.norm(exact))
        if not error < 0.02:
            raise RuntimeError(
                f"{side} differs from float32 by {error:.3g} on {name}, n = {tokens}"
            )
    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(turns):
        for side in rng.permutation(list(sides)):
            time.sleep(QUIET_SECONDS)
            times[side] += timed(sides[side])
    work = {"format": name, "tokens": tokens, "features": FEATURES, "k": K, "unit": "us"}
    return {**work, "results": {side: summary(values) for side, values in times.items()}}


def rows(options: argparse.Namespace, threads: int) -> list[dict[str, Any]]:
    """All layers with so many threads, in a process of their own."""
    command = [sys.executable, __file__, "--threads", str(threads), "--inner"]
    command += ["--python", options.python, "--turns", str(options.turns)]
    command += ["--tokens", *map(str, options.tokens)]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "TILEWRIGHT_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)},
    )
    return [{"threads": threads, **row} for row in json.loads(done.stdout)]


def inner(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of one process."""
    made = []
    for name in FORMATS:
        for tokens in options.tokens:
            ggml = Ggml(options.python, options.threads[0])
            made.append(measure(ggml, name, tokens, options.turns))
            ours, theirs = (made[-1]["results"][side]["median"] for side in ("tilewright", "ggml"))
            work = f"{name} n = {tokens}, {options.threads[0]} threads"
            times = f"{ours:.0f} us, ggml {theirs:.0f} ({theirs / ours:.2f} x)"
            print(f"{work}: {times}", file=sys.stderr)
    return made


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--python", default=str(ROOT / ".venv-peers/bin/python"), help="has llama-cpp-python"
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 8, 32, 128, 512])
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--out", type=Path, help="JSON; default: stdout")
    parser.add_argument("--inner", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Measures and writes JSON; progress on stderr."""
    options = parse()
    if options.inner:
        print(json.dumps(inner(options)))
        return 0
    made = [row for threads in options.threads for row in rows(options, threads)]
    version = "import importlib.metadata as m; print(m.version('llama-cpp-python'))"
    peer = subprocess.run(
        [options.python, "-c", version], capture_output=True, text=True, check=True
    )
    found = {"env": environment(TOOL), "llama_cpp": peer.stdout.strip(), "rows": made}
    text = json.dumps(found, indent=1)
    if options.out:
        options.out.write_text(text + "\n")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
