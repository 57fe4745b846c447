"""Products of 8-bit numbers and of weights of 4 and 8 bits, beside what PyTorch has for them."""

from __future__ import annotations

import argparse
from typing import Any

import torch
import torch.nn.functional as F
from gemm_timing import GRAPH_FLOPS, GRAPH_REPEATS, check, in_turns, is_wanted, report, timed
from replay import OPS, Call, normal, replayed

SQUARE = [(n, n, n) for n in (2048, 4096, 8192)]
FP8_ONE_SCALE = SQUARE[1:]
FP8_BLOCKS = [
    (m, *nk) for m in (4096, 128, 64) for nk in ((4096, 7168), (7168, 16384), (2112, 7168))
]
INT32 = [*SQUARE, (2048, 14336, 4096), (2048, 4096, 14336)]
INT32 += [(m, 4096, 4096) for m in (32, 128, 512, 2048)]
INT32_NN = [SQUARE[1], (32, 4096, 4096)]
LAYERS = [(m, n, 4096) for n in (4096, 14336) for m in (1, 16, 32, 64, 128)] + [(1, 4096, 14336)]


def _e4m3(rows: int, columns: int) -> torch.Tensor:
    return (normal(rows, columns) * 16).to(torch.float8_e4m3fn)


def scales(*shape: int) -> torch.Tensor:
    """Random ones about 1."""
    return torch.rand(*shape, device="cuda") + 0.5


def _launches(flops: float) -> int:
    return max(20, min(50, int(5e13 / flops)))


def fp8_operands(size: tuple[int, int, int], block: int | None) -> tuple[Any, ...]:
    """a, b, their scales, the same as cuBLAS wants them, and ours' block_n and block_k."""
    m, n, k = size
    block_n, block_k = (n, k) if block is None else (block, block)
    deep, wide = -(-k // block_k), -(-n // block_n)
    a_scale, b_scale = scales(m, deep), scales(1, wide, deep)
    if block is None:
        a_scale.fill_(0.75)
        peer = a_scale[0, 0].clone(), b_scale[0, 0, 0].clone()
    else:
        padded = b_scale.new_zeros(wide, -(-deep // 4) * 4)
        padded[:, :deep] = b_scale[0]
        peer = a_scale.t().contiguous().t(), padded[:, :deep].t()
    return _e4m3(m, k), _e4m3(n, k), a_scale, b_scale, *peer, block_n, block_k


def ours_fp8(*operands: Any) -> torch.Tensor:
    """Of fp8_operands."""
    a, b, a_scale, b_scale, _, _, block_n, block_k = operands
    out: torch.Tensor = OPS.scaled_grouped_matmul(a, b[None], a_scale, b_scale, None, block_n,
                                                  block_k)  # fmt: skip
    return out


def _cublas_fp8(*operands: Any, fast: bool = False) -> torch.Tensor:
    a, b, _, _, a_scale, b_scale, *_ = operands
    return torch._scaled_mm(a, b.t(), a_scale, b_scale, out_dtype=torch.float32,
                            use_fast_accum=fast)  # fmt: skip


def fp8(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Of e4m3 beside cuBLAS."""
    results = []
    cases = [("one scale", size, None) for size in FP8_ONE_SCALE]
    for name, size, block in cases + [("blocks of 128", size, 128) for size in FP8_BLOCKS]:
        label = f"fp8 {name} {'x'.join(map(str, size))}"
        if not is_wanted(label, options):
            continue
        m, n, k = size
        flops = 2.0 * m * n * k
        calls: dict[str, Call] = {"ours": ours_fp8, "cublas": _cublas_fp8}
        if block is None:  # sums of some 14 bits, all of k
            calls["cublas_fast"] = lambda *operands: _cublas_fp8(*operands, fast=True)
        operands = [fp8_operands(size, block) for _ in range(8 if m < 512 else 1)]
        check(calls["ours"](*operands[0]), calls["cublas"](*operands[0]), k)
        seconds = timed(calls, operands, _launches(flops))
        results.append(report(label, flops, seconds, n * k))
    return results


def _int8_operands(size: tuple[int, int, int]) -> tuple[Any, ...]:
    m, n, k = size
    draw = {"device": "cuda", "dtype": torch.int8}
    a, b = (torch.randint(-128, 128, shape, **draw) for shape in ((m, k), (n, k)))
    return a, b, scales(m, 1), scales(1, 1, 1), n, k


def int8(options: argparse.Namespace) -> list[dict[str, Any]]:
    """With scales, beside sums without."""
    results = []

    def ours(a: Any, b: Any, a_scale: Any, b_scale: Any, n: int, k: int) -> torch.Tensor:
        out: torch.Tensor = OPS.scaled_grouped_matmul(a, b[None], a_scale, b_scale, None, n, k)
        return out

    calls: dict[str, Call] = {"ours": ours, "cublas": lambda a, b, *_: torch._int_mm(a, b.t())}
    for size in FP8_ONE_SCALE + FP8_BLOCKS[:3]:
        label = f"int8 {'x'.join(map(str, size))}"
        if not is_wanted(label, options):
            continue
        m, n, k = size
        operands = _int8_operands(size)
        check(calls["ours"](*operands),
               calls["cublas"](*operands) * operands[2] * operands[3][0], k)  # fmt: skip
        flops = 2.0 * m * n * k
        seconds = in_turns(calls, operands, _launches(flops))
        results.append(report(label, flops, seconds, n * k))
    return results


def int32(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Weights by rows of k ("nt") or n ("nn": turned over first for cuBLAS); 17 rows or more."""
    results = []
    peers: dict[str, Call] = {
        "nt": torch._int_mm,
        "nn": lambda a, b: torch._int_mm(a, b.t().contiguous().t()),
    }
    for layout, size in [("nt", s) for s in INT32] + [("nn", s) for s in INT32_NN]:
        calls = {"ours": lambda a, b: OPS.int_matmul(a[None], b[None])[0], "cublas": peers[layout]}
        label = f"int32 {layout} {'x'.join(map(str, size))}"
        if not is_wanted(label, options):
            continue
        m, n, k = size
        flops = 2.0 * m * n * k
        operands = []
        for _ in range(8 if flops < GRAPH_FLOPS else 1):
            a, b, *_ = _int8_operands(size)
            operands.append((a, b.t() if layout == "nt" else b.t().contiguous()))
        assert torch.equal(calls["ours"](*operands[0]), calls["cublas"](*operands[0]))
        seconds = timed(calls, operands, _launches(flops))
        results.append(report(label, flops, seconds, n * k))
    return results


def layer_operands(size: tuple[int, int, int], bits: int) -> tuple[torch.Tensor, ...]:
    """x, weights, scales and zero points, and the same weights in bf16."""
    m, n, k = size
    codes = torch.randint(0, 1 << bits, (n, k), device="cuda", dtype=torch.uint8)
    weight = codes[:, ::2] | codes[:, 1::2] << 4 if bits == 4 else codes
    scale = normal(n, k // 128).abs() / (4 << bits)
    zero = torch.randint(0, 16, (n, k // 128), device="cuda", dtype=torch.int8)
    numbers = codes if bits == 4 else codes.view(torch.int8)
    wide = (numbers.float() - zero.float().repeat_interleave(128, 1)).bfloat16()
    return (normal(m, k), weight.view(torch.int8), scale, zero,
            wide * scale.repeat_interleave(128, 1))  # fmt: skip


def layers(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Of whole numbers as weights, beside weights of bf16."""
    results = []
    for bits, operator in ((4, OPS.linear_int4), (8, OPS.linear_int8)):
        calls: dict[str, Call] = {
            "ours": lambda x, weight, scale, zero, _, op=operator: op(x, weight, scale, zero),
            "cublas_bf16": lambda *of: F.linear(of[0], of[4]),
        }
        for size in LAYERS:
            label = f"{bits}-bit {'x'.join(map(str, size))}"
            if not is_wanted(label, options):
                continue
            m, n, k = size
            operands = [layer_operands(size, bits) for _ in range(8)]
            check(calls["ours"](*operands[0]), calls["cublas_bf16"](*operands[0]), k)
            weight_bytes = n * k * bits // 8 + n * (k // 128) * 3
            seconds = replayed(calls, operands, GRAPH_REPEATS)
            results.append(report(label, 2.0 * m * n * k, seconds, weight_bytes))
    return results
