"""Products in groups, of bf16 and of e4m3, beside torch._grouped_mm of bf16."""

from __future__ import annotations

import argparse
from typing import Any

import torch
from gemm_narrow import scales
from gemm_timing import check, in_turns, is_wanted, report
from replay import OPS, Call, normal

# Name, rows of each group, n, k; None: what a router gives them, the top 8 of so many experts.
GROUPED = [
    ("8 x 4096", [4096] * 8, 4096, 7168),
    ("128 experts, even", [512] * 128, 1536, 2048),
    ("128 experts, routed", None, 1536, 2048),
    ("256 experts, even", [256] * 256, 4096, 7168),
    ("256 experts, routed", None, 4096, 7168),
]
TOKENS, TOP = 8192, 8
FP8_GROUPED = ["8 x 4096", "128 experts, routed", "256 experts, routed"]


def routed(tokens: int, experts: int, top: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Which entries of tokens' top experts each expert has, in turn, and where its ones end."""
    draw = torch.Generator().manual_seed(1)
    chosen = torch.rand(tokens, experts, generator=draw).topk(top, 1).indices.flatten()
    ends = torch.bincount(chosen, minlength=experts).cumsum(0)
    order = chosen.argsort(stable=True)
    return order.to("cuda", torch.int32), ends.to("cuda", torch.int32)


def _grouped_cases() -> list[tuple[str, list[int], int, int]]:
    """Name, rows of each group, n, k."""
    out = []
    for name, rows, n, k in GROUPED:
        if rows is None:
            experts = int(name.split()[0])
            ends = routed(TOKENS, experts, TOP)[1].tolist()
            rows = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
        out.append((f"grouped {name}, {k} to {n}", rows, n, k))
    return out


def _grouped_operands(rows: list[int], n: int, k: int) -> tuple[torch.Tensor, ...]:
    ends = torch.tensor(rows, device="cuda").cumsum(0).to(torch.int32)
    weight = normal(len(rows) * n, k).view(len(rows), n, k)
    return normal(sum(rows), k), weight.mT, ends


def grouped(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Of bf16."""
    results = []
    calls: dict[str, Call] = {
        "ours": OPS.grouped_matmul,
        "torch": lambda a, b, ends: torch._grouped_mm(a, b, offs=ends),
    }
    for label, rows, n, k in _grouped_cases():
        if not is_wanted(label, options):
            continue
        operands = _grouped_operands(rows, n, k)
        check(calls["ours"](*operands), calls["torch"](*operands), k)
        flops = 2.0 * sum(rows) * n * k
        seconds = in_turns(calls, operands, max(5, min(50, int(2e13 / flops))))
        ratio = seconds["torch"] / seconds["ours"]
        print(f"{label:44} {flops / seconds['ours'] * 1e-12:7.1f} TFLOPS  torch "
              f"{flops / seconds['torch'] * 1e-12:7.1f}  {ratio:5.3f}{seconds.shown()}",
              flush=True)  # fmt: skip
        results.append({"case": label, "dtype": "bf16", "flops": flops, "seconds": seconds,
                        "ratio": ratio, **seconds.card})  # fmt: skip
    return results


def fp8_grouped(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Of e4m3 with scales for blocks of 128; PyTorch has these in bf16."""
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
        if not is_wanted(label, options):
            continue
        a16, b16, ends = _grouped_operands(rows, n, k)
        a, b = a16.to(torch.float8_e4m3fn), b16.mT.to(torch.float8_e4m3fn)
        a_scale, b_scale = scales(sum(rows), k // 128), scales(len(rows), n // 128, k // 128)
        operands = (a, b, a_scale, b_scale, ends, a16, b16)
        flops = 2.0 * sum(rows) * n * k
        seconds = in_turns(calls, operands, 20)
        results.append(report(label, flops, seconds, b.numel()))
    return results
