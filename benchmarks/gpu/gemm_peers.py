"""Matrix multiplication beside cuBLAS, and in groups beside torch._grouped_mm, on a GPU.

Of bf16 operands and of float32 ones, multiplied in float32 ("f32") and as tf32 ("tf32").

Of e4m3 operands ("fp8") beside torch._scaled_mm, with one scale and with scales for blocks of 128;
in groups, where torch has none with such scales, beside torch._grouped_mm in bf16, and as a layer's
experts have them (gemm_experts.py). Of int8 ones ("int8") with a scale for each row of a and one
for b beside torch._int_mm, which has int32 sums and no scales; without scales ("int32") beside the
same. Of weights of 4 and 8 bits ("4-bit", "8-bit") in groups of 128 beside the same product of bf16
weights.

    python benchmarks/gpu/gemm_peers.py [--out FILE] [BEGINNING OF A NAME ...]

Both results are compared first. Large products run one launch of ours, one of the peer, in turn,
timed by events, since the card's clocks drift with its power; those of a few microseconds as CUDA
graphs over several weights, so that none is found in cache. Random normal data: zeros run faster.
Odd sizes are timed in turn with the nearest multiples of 64, too, in the same run.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import tilewright.torch
import torch
import torch.nn.functional as F
from gemm_experts import experts
from gemm_grouped import fp8_grouped, grouped
from gemm_narrow import fp8, int8, int32, layers
from gemm_timing import GRAPH_FLOPS, check, is_wanted, timed
from replay import OPS, Call, normal

SQUARE = [(n, n, n) for n in (1024, 2048, 4096, 8192, 16384)]
MODEL = [(4096, 14336, 4096), (4096, 4096, 14336), (8192, 28672, 8192)]
FEW_ROWS = [(m, 4096, 4096) for m in (1, 16, 64, 128, 256, 512)] + [(1, 14336, 4096)]
ODD = [(4095, 4097, 4093), (8191, 8193, 8190), (1023, 1025, 1027), (2047, 2049, 2051)]
ODD += [(8191, 8193, 8189), (4095, 14335, 4097), (511, 4095, 4097)]
# Of products with an addend, and of gated layers, whose columns are the gate's and up's.
EPILOGUES = [(m, 28672, 4096) for m in (1, 16, 128, 4096)] + [(4096, 8192, 4096)]
F32 = [(n, n, n) for n in (512, 1024, 2048, 4096, 8192)] + [ODD[0], (4096, 14336, 4096)]
F32_ROWS = [(m, 4096, 4096) for m in (1, 16, 64, 128, 512)]

Size = tuple[int, int, int]
# Name, m n k, ours, the peer, operands beside x and weight.
Case = tuple[str, Size, Call, Call, int]


def _matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return OPS.matmul(a[None], b[None])[0]


def _with_addend(x: torch.Tensor, w: torch.Tensor, addend: torch.Tensor) -> torch.Tensor:
    return OPS.matmul(x[None], w.t()[None], 1.0, addend[None], 0.5)[0]


def _gated(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    gate, up = F.linear(x, w).chunk(2, -1)
    return F.silu(gate) * up


def _gate_after(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return OPS.silu_and_mul(OPS.linear(x, w))


def _cases() -> list[Case]:
    """All but those in groups or of narrow numbers."""
    cases: list[Case] = []
    for size in SQUARE + MODEL + FEW_ROWS + ODD:
        cases.append(("nt", size, lambda x, w: _matmul(x, w.t()), lambda x, w: x @ w.t(), 0))
    for size in [(4096, 4096, 4096), ODD[0]]:
        cases.append(("nn", size, _matmul, lambda x, w: x @ w, 0))
    cases.append(("linear bias", (4096, 4096, 4096), OPS.linear, F.linear, 1))
    for size in EPILOGUES:
        cases.append(("addend", size, _with_addend,
                      lambda x, w, addend: torch.addmm(addend, x, w.t(), beta=0.5), 1))  # fmt: skip
        cases.append(("gated", size, OPS.gated_linear, _gated, 0))
        cases.append(("gate after", size, _gate_after, _gated, 0))
    cases += [("f32 linear", size, OPS.linear, F.linear, 0) for size in F32 + F32_ROWS]
    cases += [("f32 nn", size, _matmul, lambda x, w: x @ w, 0) for size in (F32[3], F32_ROWS[3])]
    cases += [("tf32 linear", size, OPS.linear, F.linear, 0) for size in F32[1:] + F32_ROWS[1:]]
    cases += [("tf32 nn", size, _matmul, lambda x, w: x @ w, 0) for size in F32[3:5]]
    return cases


def _label(case: Case) -> str:
    return f"{case[0]} {'x'.join(map(str, case[1]))}"


def _set_precision(precision: str) -> None:
    """Of float32 products, ours and PyTorch's."""
    tilewright.set_float32_matmul_precision(precision)
    torch.set_float32_matmul_precision(precision)


def _operands(name: str, size: Size, extra: int) -> tuple[torch.Tensor, ...]:
    m, n, k = size
    shapes = (m, k), (k, n) if name.endswith("nn") else (n, k), *((n,) for _ in range(extra))
    if name == "addend":
        shapes = *shapes[:2], (m, n)
    if "f32" in name:  # all bits of the mantissas are drawn: zeros take less power
        return tuple(torch.randn(*shape, device="cuda") for shape in shapes)
    return tuple(normal(*shape) for shape in shapes)


def _neighbour(size: Size) -> Size:
    """What TMA and tiles like, nearest to odd sizes."""
    m, n, k = (round(of / 64) * 64 for of in size)
    return m, n, k


def _measure(case: Case) -> dict[str, Any]:
    """What a row's JSON says; of odd sizes also how near their speed is to their neighbour's."""
    name, size, ours, peer, extra = case
    m, n, k = size
    flops = 2.0 * m * n * k
    _set_precision("high" if name.startswith("tf32") else "highest")
    operands = [_operands(name, size, extra) for _ in range(8 if flops < GRAPH_FLOPS else 1)]
    check(ours(*operands[0]), peer(*operands[0]), k)
    calls, count = {"ours": ours, "cublas": peer}, max(5, min(50, int(5e13 / flops)))
    dtype, width = (name.split()[0], 4) if "f32" in name else ("bf16", 2)
    row = {"case": _label(case), "dtype": dtype, "flops": flops, "weight_bytes": n * k * width}
    if size in ODD:
        near = _neighbour(size)
        operands = [(*of, *_operands(name, near, extra)) for of in operands]
        calls = {who: lambda x, w, *_, call=call: call(x, w) for who, call in calls.items()}
        calls["neighbour"] = lambda _, __, x, w: ours(x, w)
    seconds = timed(calls, operands, count)
    if size in ODD:
        took = seconds.pop("neighbour")
        row["neighbour"] = "x".join(map(str, near))
        row["of_neighbour"] = took / seconds["ours"] * flops / (2.0 * math.prod(near))
    return {**row, "seconds": seconds, "ratio": seconds["cublas"] / seconds["ours"], **seconds.card}


def _print(row: dict[str, Any]) -> None:
    seconds, flops = row["seconds"], row["flops"]
    near = f"  {row['of_neighbour']:5.3f} of {row['neighbour']}" if "neighbour" in row else ""
    print(f"{row['case']:28} {flops / seconds['ours'] * 1e-12:7.1f} TFLOPS "
          f"{seconds['ours'] * 1e6:9.2f} us  cuBLAS {seconds['cublas'] * 1e6:9.2f} us  "
          f"{row['ratio']:5.3f}{near}{seconds.shown()}", flush=True)  # fmt: skip


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("filters", nargs="*")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    properties = torch.cuda.get_device_properties(0)
    print(f"{properties.name}, torch {torch.__version__}")
    results = []
    for case in _cases():
        if is_wanted(_label(case), options):
            results.append(_measure(case))
            _print(results[-1])
    for measure in (grouped, fp8, fp8_grouped, experts, int8, int32, layers):
        results += measure(options)
    if options.out:
        versions = {"torch": torch.__version__, "tilewright": tilewright.__version__}
        machine = {"gpu": properties.name, **versions}
        options.out.write_text(json.dumps({"machine": machine, "results": results}, indent=1))


if __name__ == "__main__":
    main()
