"""One call of each of the kernels that notes explain, under Nsight Compute.

    python benchmarks/gpu/profile_cases.py --list
    python benchmarks/gpu/profile_cases.py --run NAME      # once to warm up, once to be profiled
    python benchmarks/gpu/profile_cases.py [--out FILE] [NAME ...]

The last runs every case under `tilewright profile ncu` and collects what `tilewright ncu-extract`
says of the kernels of the profiled call: throughput, pipes and stalls. TILEWRIGHT_BIN is that tool.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

TOOL = os.environ.get("TILEWRIGHT_BIN", "tilewright")
LONGEST = 180  # seconds of a case

Call = Callable[[], Any]


def _row_of(module: str, name: str) -> Call:
    """Our call of a row of a program beside this."""
    call: Call = importlib.import_module(module).ours_of(name)
    return call


def _row(name: str, rows: int, cols: int) -> Call:
    """One of the rows of torch_peers.py."""
    from memory_gradients import gradient_rows, loss_rows
    from memory_rows import forward_rows

    every = [rows_of(rows, cols) for rows_of in (forward_rows, gradient_rows, loss_rows)]
    row = next(r for r in chain(*every) if r.name == name)
    operands = row.make()
    return lambda: row.ours(*operands)


def _product(m: int, n: int, k: int, dtype: str = "bfloat16") -> Call:
    import torch
    from replay import OPS

    x, w = (torch.randn(1, r, k, device="cuda").to(getattr(torch, dtype)) for r in (m, n))
    return lambda: OPS.matmul(x, w.mT)


def _fp8(m: int, n: int, k: int, block: int | None = None) -> Call:
    from gemm_narrow import fp8_operands, ours_fp8

    operands = fp8_operands((m, n, k), block)
    return lambda: ours_fp8(*operands)


def _int4(m: int, n: int, k: int) -> Call:
    from gemm_narrow import layer_operands
    from replay import OPS

    x, weight, scale, zero, _ = layer_operands((m, n, k), 4)
    return lambda: OPS.linear_int4(x, weight, scale, zero)


def _experts(tokens: int) -> Call:
    """Of qwen3-30b-a3b."""
    import torch
    from fused_experts import Row, operands
    from replay import OPS

    given = operands(Row("", tokens, 2048, 128, 768, 8), torch.bfloat16)
    return lambda: OPS.fused_experts(*given)


# Rows of torch_peers.py: their name, rows and columns.
ROWS = (
    ("layer_norm", 16384, 8192),
    ("layer_norm", 4096, 32768),
    ("layer_norm_backward", 16384, 8192),
    ("rms_norm_backward", 4096, 32768),
    ("fused_add_rms_norm_backward", 16384, 8192),
    ("silu_and_mul_backward", 16384, 8192),
    ("gelu", 16384, 8192),
    ("dropout", 16384, 8192),
    ("type_as, bf16 to f32", 16384, 8192),
    ("cross_entropy_backward", 8192, 131072),
    ("rope", 16384, 4096),
    ("sum", 4096, 32768),
    ("sum dim 0", 16384, 8192),
    ("softmax", 64, 8192),
    ("add", 1, 4096),
    ("copy", 64, 4096),
    ("dropout_backward", 1, 4096),
)
PRODUCTS = (
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (4096, 4096, 14336),
    (4095, 4097, 4093),
    (1, 4096, 4096),
    (1, 14336, 4096),
    (16, 4096, 4096),
    (64, 4096, 4096),
    (128, 4096, 4096),
    (1023, 1025, 1027),
)

CASES: dict[str, Callable[[], Call]] = {
    "attention D64 S512 causal": lambda: _row_of("attention", "D64 S512 causal"),
    "attention D256 S512 causal": lambda: _row_of("attention", "D256 S512 causal"),
    "attention D128 S4096 causal": lambda: _row_of("attention", "D128 S4096 causal"),
    "attention window 1024 S8192": lambda: _row_of("attention", "window 1024 S8192"),
    "attention varlen S4096 causal": lambda: _row_of("attention", "varlen S4096 causal"),
    "attention bias D64 S2048": lambda: _row_of("attention", "D64 S2048 bias"),
    "attention backward D128 S1024 causal": lambda: _row_of(
        "attention_backward", "D128 S1024 causal"
    ),
    "attention backward D128 S16384 causal": lambda: _row_of(
        "attention_backward", "D128 S16384 causal"
    ),
    "attention backward D256 S4096": lambda: _row_of("attention_backward", "D256 S4096"),
    "mla h128 B32 S8192": lambda: _row_of("mla", "h128 B32 S8192 dense"),
    "mla h128 B1 S65536": lambda: _row_of("mla", "h128 B1 S65536 dense"),
    "decode B16 L8192 paged by 16": lambda: _row_of("attention", "decode B16 L8192 paged by 16"),
    "decode B16 L64..65536 paged": lambda: _row_of("attention", "decode B16 L64..65536 paged"),
    "decode B1 L65536": lambda: _row_of("attention", "decode B1 L65536 dense"),
    "decode B64 L8192 paged int8": lambda: _row_of("attention", "decode B64 L8192 paged int8"),
    **{f"{name} {rows}x{cols}": partial(_row, name, rows, cols) for name, rows, cols in ROWS},
    "experts qwen3-30b-a3b 8192 tokens": lambda: _experts(8192),
    **{f"bf16 {m}x{n}x{k}": partial(_product, m, n, k) for m, n, k in PRODUCTS},
    "f32 4096x4096x4096": lambda: _product(4096, 4096, 4096, "float32"),
    "fp8 4096x4096x4096": lambda: _fp8(4096, 4096, 4096),
    "fp8 8192x8192x8192": lambda: _fp8(8192, 8192, 8192),
    "fp8 blocks of 128 64x2112x7168": lambda: _fp8(64, 2112, 7168, 128),
    "int4 1x4096x4096": lambda: _int4(1, 4096, 4096),
    "int4 1x14336x4096": lambda: _int4(1, 14336, 4096),
    "int4 128x4096x4096": lambda: _int4(128, 4096, 4096),
}


def _run(name: str) -> None:
    import tilewright.torch  # noqa: F401
    import torch

    call = CASES[name]()
    call()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    call()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def _profiled(name: str, folder: str) -> list[dict[str, Any]]:
    """What ncu-extract says of each kernel of the profiled call."""
    base = str(Path(folder) / "profile")
    program = [sys.executable, __file__, "--run", name]
    command = [TOOL, "profile", "ncu", "--out", base, "--", "--profile-from-start", "off"]
    _output([*command, *program])
    kernels: list[dict[str, Any]] = json.loads(
        _output([TOOL, "ncu-extract", f"{base}.ncu-rep", "--json"])
    )
    return kernels


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
    if done.returncode:
        raise OSError(f"{command[1]} failed: {(done.stdout + done.stderr)[-600:]}")
    return done.stdout


def _collect(names: list[str], out: Path | None) -> None:
    from torch.cuda import get_device_name

    results, machine = [], {"gpu": get_device_name()}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            try:
                kernels = _profiled(name, folder)
            except (OSError, subprocess.SubprocessError, ValueError) as error:
                print(f"{name}: FAILED {error!s:.800}", file=sys.stderr, flush=True)
                continue
        for kernel in kernels:
            print(f"{name:36} {kernel.get('duration_us', 0):9.1f} us  {kernel['throughput']}",
                  flush=True)  # fmt: skip
        results.append({"case": name, "kernels": kernels})
        if out:  # after every case, for runs that are cut short
            out.write_text(json.dumps({"machine": machine, "results": results}, indent=1))


def main() -> None:
    """Lists, runs or profiles."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--run", choices=CASES, metavar="NAME")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if unknown := set(options.names) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    if options.list:
        print("\n".join(CASES))
    elif options.run:
        _run(options.run)
    else:
        _collect(options.names or list(CASES), options.out)


if __name__ == "__main__":
    main()
