"""Matrix multiplication beside cuBLAS, and in groups beside torch._grouped_mm, on a GPU.

Of bf16 operands and of float32 ones, multiplied in float32 ("f32") and as tf32 ("tf32").

Of e4m3 operands ("fp8") beside torch._scaled_mm, with one scale and with scales for blocks of 128;
in groups, where torch has none with such scales, beside torch._grouped_mm in bf16. Of int8 ones
("int8") with a scale for each row of a and one for b beside torch._int_mm, which has int32 sums and
no scales; without scales ("int32") beside the same. Of weights of 4 and 8 bits ("4-bit", "8-bit")
in groups of 128 beside the same product of bf16 weights.

    python benchmarks/gpu/gemm_peers.py [--out FILE] [BEGINNING OF A NAME ...]

Both results are compared first. Large products run one launch of ours, one of the peer, in turn,
timed by events, since the card's clocks drift with its power; those of a few microseconds as CUDA
graphs over several weights, so that none is found in cache. Random normal data: zeros run faster.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tilewright.torch
import torch
import torch.nn.functional as F
from card import Timings, measured
from torch_peers import OPS, ROUNDS, _graph_of, _normal, _seconds

SQUARE = [(n, n, n) for n in (1024, 2048, 4096, 8192, 16384)]
MODEL = [(4096, 14336, 4096), (4096, 4096, 14336), (8192, 28672, 8192)]
FEW_ROWS = [(m, 4096, 4096) for m in (1, 16, 64, 128, 256, 512)] + [(1, 14336, 4096)]
ODD = [(4095, 4097, 4093), (8191, 8193, 8190), (1023, 1025, 1027)]
# Name, rows of each group, n, k; None: what a router gives them, the top 8 of so many experts.
GROUPED = [
    ("8 x 4096", [4096] * 8, 4096, 7168),
    ("128 experts, even", [512] * 128, 1536, 2048),
    ("128 experts, routed", None, 1536, 2048),
    ("256 experts, even", [256] * 256, 4096, 7168),
    ("256 experts, routed", None, 4096, 7168),
]
TOKENS, TOP = 8192, 8
FP8_ONE_SCALE = [(4096, 4096, 4096), (8192, 8192, 8192)]
FP8_BLOCKS = [
    (m, *nk) for m in (4096, 128, 64) for nk in ((4096, 7168), (7168, 16384), (2112, 7168))
]
FP8_GROUPED = ["8 x 4096", "128 experts, routed", "256 experts, routed"]
INT32 = [*SQUARE[1:4], (2048, 14336, 4096), (2048, 4096, 14336)]
INT32 += [(m, 4096, 4096) for m in (32, 128, 512, 2048)]
INT32_NN = [SQUARE[2], (32, 4096, 4096)]
LAYERS = [(m, n, 4096) for n in (4096, 14336) for m in (1, 16, 32, 64, 128)] + [(1, 4096, 14336)]
F32 = [(n, n, n) for n in (512, 1024, 2048, 4096, 8192)] + [ODD[0], (4096, 14336, 4096)]
F32_ROWS = [(m, 4096, 4096) for m in (1, 16, 64, 128, 512)]
HOST_CYCLES = 400_000
GRAPH_FLOPS = 1e11  # below, launches are too short to be timed one by one

Call = Callable[..., torch.Tensor]


def _is_wanted(label: str, options: argparse.Namespace) -> bool:
    return not options.filters or label.startswith(tuple(options.filters))


def _matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return OPS.matmul(a[None], b[None])[0]


def _cases() -> list[tuple[str, tuple[int, int, int], Call, Call, int]]:
    """Name, m n k, ours, the peer, operands beside x and weight."""
    cases: list[tuple[str, tuple[int, int, int], Call, Call, int]] = []
    for size in SQUARE + MODEL + FEW_ROWS + ODD:
        cases.append(("nt", size, lambda x, w: _matmul(x, w.t()), lambda x, w: x @ w.t(), 0))
    for size in [(4096, 4096, 4096), ODD[0]]:
        cases.append(("nn", size, _matmul, lambda x, w: x @ w, 0))
    cases.append(("linear bias", (4096, 4096, 4096), OPS.linear, F.linear, 1))
    cases += [("f32 linear", size, OPS.linear, F.linear, 0) for size in F32 + F32_ROWS]
    cases += [("f32 nn", size, _matmul, lambda x, w: x @ w, 0) for size in (F32[3], F32_ROWS[3])]
    cases += [("tf32 linear", size, OPS.linear, F.linear, 0) for size in F32[1:] + F32_ROWS[1:]]
    cases += [("tf32 nn", size, _matmul, lambda x, w: x @ w, 0) for size in F32[3:5]]
    return cases


def _set_precision(precision: str) -> None:
    """Of float32 products, ours and PyTorch's."""
    tilewright.set_float32_matmul_precision(precision)
    torch.set_float32_matmul_precision(precision)


def _operands(name: str, size: tuple[int, int, int], extra: int) -> tuple[torch.Tensor, ...]:
    m, n, k = size
    shapes = (m, k), (k, n) if name.endswith("nn") else (n, k), *((n,) for _ in range(extra))
    if "f32" in name:  # all bits of the mantissas are drawn: zeros take less power
        return tuple(torch.randn(*shape, device="cuda") for shape in shapes)
    return tuple(_normal(*shape) for shape in shapes)


def _check(ours: torch.Tensor, peer: torch.Tensor, k: int) -> None:
    error = (ours.float() - peer.float()).norm() / peer.float().norm()
    assert error < 1e-2, (tuple(ours.shape), k, float(error))


def _in_turns(calls: dict[str, Call], operands: tuple[Any, ...], count: int) -> Timings:
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call(*operands)
    for _ in range(count):
        for name, call in calls.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(HOST_CYCLES)  # meanwhile the host issues what follows
            begin.record()
            call(*operands)
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end) * 1e-3)
    seconds = {name: statistics.median(values) for name, values in times.items()}
    return measured(seconds, lambda: calls["ours"](*operands), seconds["ours"])


def _replayed(calls: dict[str, Call], operands: list[tuple[Any, ...]]) -> Timings:
    graphs = {name: _graph_of(call, operands, 8) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            times[name].append(_seconds(graph, 8 * len(operands)))
    seconds = {name: statistics.median(values) for name, values in times.items()}
    return measured(seconds, graphs["ours"].replay, seconds["ours"] * 8 * len(operands))


def _grouped_cases() -> list[tuple[str, list[int], int, int]]:
    """Name, rows of each group, n, k."""
    out = []
    for name, rows, n, k in GROUPED:
        if rows is None:
            experts = int(name.split()[0])
            draw = torch.Generator().manual_seed(1)
            chosen = torch.rand(TOKENS, experts, generator=draw).topk(TOP, 1).indices
            rows = torch.bincount(chosen.flatten(), minlength=experts).tolist()
        out.append((f"grouped {name}, {k} to {n}", rows, n, k))
    return out


def _grouped_operands(rows: list[int], n: int, k: int) -> tuple[torch.Tensor, ...]:
    ends = torch.tensor(rows, device="cuda").cumsum(0).to(torch.int32)
    weight = _normal(len(rows) * n, k).view(len(rows), n, k)
    return _normal(sum(rows), k), weight.mT, ends


def _grouped(options: argparse.Namespace) -> list[dict[str, Any]]:
    results = []
    calls: dict[str, Call] = {
        "ours": OPS.grouped_matmul,
        "torch": lambda a, b, ends: torch._grouped_mm(a, b, offs=ends),
    }
    for label, rows, n, k in _grouped_cases():
        if not _is_wanted(label, options):
            continue
        operands = _grouped_operands(rows, n, k)
        _check(calls["ours"](*operands), calls["torch"](*operands), k)
        flops = 2.0 * sum(rows) * n * k
        seconds = _in_turns(calls, operands, max(5, min(50, int(2e13 / flops))))
        ratio = seconds["torch"] / seconds["ours"]
        print(f"{label:44} {flops / seconds['ours'] * 1e-12:7.1f} TFLOPS  torch "
              f"{flops / seconds['torch'] * 1e-12:7.1f}  {ratio:5.3f}{seconds.shown()}",
              flush=True)  # fmt: skip
        results.append({"case": label, "dtype": "bf16", "flops": flops, "seconds": seconds,
                        "ratio": ratio, **seconds.card})  # fmt: skip
    return results


def _e4m3(rows: int, columns: int) -> torch.Tensor:
    return (_normal(rows, columns) * 16).to(torch.float8_e4m3fn)


def _scales(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, device="cuda") + 0.5


def _fp8_operands(size: tuple[int, int, int], block: int | None) -> tuple[Any, ...]:
    """a, b, their scales, the same as cuBLAS wants them, and ours' block_n and block_k."""
    m, n, k = size
    block_n, block_k = (n, k) if block is None else (block, block)
    deep, wide = -(-k // block_k), -(-n // block_n)
    a_scale, b_scale = _scales(m, deep), _scales(1, wide, deep)
    if block is None:
        a_scale.fill_(0.75)
        peer = a_scale[0, 0].clone(), b_scale[0, 0, 0].clone()
    else:
        padded = b_scale.new_zeros(wide, -(-deep // 4) * 4)
        padded[:, :deep] = b_scale[0]
        peer = a_scale.t().contiguous().t(), padded[:, :deep].t()
    return _e4m3(m, k), _e4m3(n, k), a_scale, b_scale, *peer, block_n, block_k


def _ours_fp8(*operands: Any) -> torch.Tensor:
    a, b, a_scale, b_scale, _, _, block_n, block_k = operands
    out: torch.Tensor = OPS.scaled_grouped_matmul(a, b[None], a_scale, b_scale, None, block_n,
                                                  block_k)  # fmt: skip
    return out


def _cublas_fp8(*operands: Any, fast: bool = False) -> torch.Tensor:
    a, b, _, _, a_scale, b_scale, *_ = operands
    return torch._scaled_mm(a, b.t(), a_scale, b_scale, out_dtype=torch.float32,
                            use_fast_accum=fast)  # fmt: skip


def _fp8(options: argparse.Namespace) -> list[dict[str, Any]]:
    results = []
    cases = [("one scale", size, None) for size in FP8_ONE_SCALE]
    for name, size, block in cases + [("blocks of 128", size, 128) for size in FP8_BLOCKS]:
        label = f"fp8 {name} {'x'.join(map(str, size))}"
        if not _is_wanted(label, options):
            continue
        m, n, k = size
        flops = 2.0 * m * n * k
        calls: dict[str, Call] = {"ours": _ours_fp8, "cublas": _cublas_fp8}
        if block is None:  # sums of some 14 bits, all of k
            calls["cublas_fast"] = lambda *operands: _cublas_fp8(*operands, fast=True)
        operands = [_fp8_operands(size, block) for _ in range(8 if m < 512 else 1)]
        _check(calls["ours"](*operands[0]), calls["cublas"](*operands[0]), k)
        if m < 512:
            seconds = _replayed(calls, operands)
        else:
            seconds = _in_turns(calls, operands[0], max(20, min(50, int(5e13 / flops))))
        results.append(_report(label, flops, seconds, n * k))
    return results


def _int8_operands(size: tuple[int, int, int]) -> tuple[Any, ...]:
    m, n, k = size
    draw = {"device": "cuda", "dtype": torch.int8}
    a, b = (torch.randint(-128, 128, shape, **draw) for shape in ((m, k), (n, k)))
    return a, b, _scales(m, 1), _scales(1, 1, 1), n, k


def _int8(options: argparse.Namespace) -> list[dict[str, Any]]:
    results = []

    def ours(a: Any, b: Any, a_scale: Any, b_scale: Any, n: int, k: int) -> torch.Tensor:
        out: torch.Tensor = OPS.scaled_grouped_matmul(a, b[None], a_scale, b_scale, None, n, k)
        return out

    calls: dict[str, Call] = {"ours": ours, "cublas": lambda a, b, *_: torch._int_mm(a, b.t())}
    for size in FP8_ONE_SCALE + FP8_BLOCKS[:3]:
        label = f"int8 {'x'.join(map(str, size))}"
        if not _is_wanted(label, options):
            continue
        m, n, k = size
        operands = _int8_operands(size)
        _check(calls["ours"](*operands),
               calls["cublas"](*operands) * operands[2] * operands[3][0], k)  # fmt: skip
        flops = 2.0 * m * n * k
        seconds = _in_turns(calls, operands, max(20, min(50, int(5e13 / flops))))
        results.append(_report(label, flops, seconds, n * k))
    return results


def _int32(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Weights by rows of k ("nt") or n ("nn": turned over first for cuBLAS); 17 rows or more."""
    results = []
    peers: dict[str, Call] = {
        "nt": torch._int_mm,
        "nn": lambda a, b: torch._int_mm(a, b.t().contiguous().t()),
    }
    for layout, size in [("nt", s) for s in INT32] + [("nn", s) for s in INT32_NN]:
        calls = {"ours": lambda a, b: OPS.int_matmul(a[None], b[None])[0], "cublas": peers[layout]}
        label = f"int32 {layout} {'x'.join(map(str, size))}"
        if not _is_wanted(label, options):
            continue
        m, n, k = size
        flops = 2.0 * m * n * k
        operands = []
        for _ in range(8 if flops < GRAPH_FLOPS else 1):
            a, b, *_ = _int8_operands(size)
            operands.append((a, b.t() if layout == "nt" else b.t().contiguous()))
        assert torch.equal(calls["ours"](*operands[0]), calls["cublas"](*operands[0]))
        if flops < GRAPH_FLOPS:
            seconds = _replayed(calls, operands)
        else:
            seconds = _in_turns(calls, operands[0], max(20, min(50, int(5e13 / flops))))
        results.append(_report(label, flops, seconds, n * k))
    return results


def _layer_operands(size: tuple[int, int, int], bits: int) -> tuple[torch.Tensor, ...]:
    """x, weights, scales and zero points, and the same weights in bf16."""
    m, n, k = size
    codes = torch.randint(0, 1 << bits, (n, k), device="cuda", dtype=torch.uint8)
    weight = codes[:, ::2] | codes[:, 1::2] << 4 if bits == 4 else codes
    scale = _normal(n, k // 128).abs() / (4 << bits)
    zero = torch.randint(0, 16, (n, k // 128), device="cuda", dtype=torch.int8)
    numbers = codes if bits == 4 else codes.view(torch.int8)
    wide = (numbers.float() - zero.float().repeat_interleave(128, 1)).bfloat16()
    return (_normal(m, k), weight.view(torch.int8), scale, zero,
            wide * scale.repeat_interleave(128, 1))  # fmt: skip


def _layers(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Of whole numbers as weights, beside weights of bf16."""
    results = []
    for bits, operator in ((4, OPS.linear_int4), (8, OPS.linear_int8)):
        calls: dict[str, Call] = {
            "ours": lambda x, weight, scale, zero, _, op=operator: op(x, weight, scale, zero),
            "cublas_bf16": lambda *of: F.linear(of[0], of[4]),
        }
        for size in LAYERS:
            label = f"{bits}-bit {'x'.join(map(str, size))}"
            if not _is_wanted(label, options):
                continue
            m, n, k = size
            operands = [_layer_operands(size, bits) for _ in range(8)]
            _check(calls["ours"](*operands[0]), calls["cublas_bf16"](*operands[0]), k)
            weight_bytes = n * k * bits // 8 + n * (k // 128) * 3
            seconds = _replayed(calls, operands)
            results.append(_report(label, 2.0 * m * n * k, seconds, weight_bytes))
    return results


def _report(label: str, flops: float, seconds: Timings, weight_bytes: int) -> dict[str, Any]:
    ratio = seconds[next(name for name in seconds if name != "ours")] / seconds["ours"]
    times = "  ".join(f"{name} {s * 1e6:8.2f} us {flops / s * 1e-12:6.0f} TFLOPS"
                      for name, s in seconds.items())  # fmt: skip
    rate = weight_bytes / seconds["ours"] * 1e-12
    print(
        f"{label:44} {times}  weights {rate:4.2f} TB/s  {ratio:5.3f}{seconds.shown()}", flush=True
    )
    dtype = {"fp8": "f8_e4m3fn", "int8": "i8", "int32": "i8"}.get(label.split()[0], "bf16")
    return {"case": label, "dtype": dtype, "flops": flops, "seconds": seconds,
            "ratio": ratio, "weight_bytes": weight_bytes, **seconds.card}  # fmt: skip


def _fp8_grouped(options: argparse.Namespace) -> list[dict[str, Any]]:
    results = []
    calls: dict[str, Call] = {
        "ours": lambda a, b, a_scale, b_scale, ends, *_: OPS.scaled_grouped_matmul(
            a, b, a_scale, b_scale, ends
        ),
        "torch_bf16": lambda *of: torch._grouped_mm(of[5], of[6], offs=of[4]),
    }
    for label, rows, n, k in _grouped_cases():
        if not any(name in label for name in FP8_GROUPED):
            continue
        label = f"fp8 {label}"
        if not _is_wanted(label, options):
            continue
        a16, b16, ends = _grouped_operands(rows, n, k)
        a, b = a16.to(torch.float8_e4m3fn), b16.mT.to(torch.float8_e4m3fn)
        a_scale, b_scale = _scales(sum(rows), k // 128), _scales(len(rows), n // 128, k // 128)
        operands = (a, b, a_scale, b_scale, ends, a16, b16)
        flops = 2.0 * sum(rows) * n * k
        seconds = _in_turns(calls, operands, 20)
        results.append(_report(label, flops, seconds, b.numel()))
    return results


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("filters", nargs="*")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    properties = torch.cuda.get_device_properties(0)
    print(f"{properties.name}, torch {torch.__version__}")
    results = []
    for name, size, ours, peer, extra in _cases():
        label = f"{name} {'x'.join(map(str, size))}"
        if not _is_wanted(label, options):
            continue
        m, n, k = size
        flops = 2.0 * m * n * k
        _set_precision("high" if name.startswith("tf32") else "highest")
        operands = [_operands(name, size, extra) for _ in range(8 if flops < GRAPH_FLOPS else 1)]
        _check(ours(*operands[0]), peer(*operands[0]), k)
        calls = {"ours": ours, "cublas": peer}
        if flops < GRAPH_FLOPS:
            seconds = _replayed(calls, operands)
        else:
            seconds = _in_turns(calls, operands[0], max(5, min(50, int(5e13 / flops))))
        ratio = seconds["cublas"] / seconds["ours"]
        print(f"{label:28} {flops / seconds['ours'] * 1e-12:7.1f} TFLOPS "
              f"{seconds['ours'] * 1e6:9.2f} us  cuBLAS {seconds['cublas'] * 1e6:9.2f} us  "
              f"{ratio:5.3f}{seconds.shown()}", flush=True)  # fmt: skip
        dtype, width = (name.split()[0], 4) if "f32" in name else ("bf16", 2)
        results.append({"case": label, "dtype": dtype, "flops": flops, "seconds": seconds,
                        "ratio": ratio, "weight_bytes": n * k * width, **seconds.card})  # fmt: skip
    for measure in (_grouped, _fp8, _fp8_grouped, _int8, _int32, _layers):
        results += measure(options)
    if options.out:
        versions = {"torch": torch.__version__, "tilewright": tilewright.__version__}
        machine = {"gpu": properties.name, **versions}
        options.out.write_text(json.dumps({"machine": machine, "results": results}, indent=1))


if __name__ == "__main__":
    main()
