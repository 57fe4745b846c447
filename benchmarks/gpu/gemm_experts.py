"""The products of experts of a layer, of e4m3 with scales for blocks of 128.

Gate and up from gathered rows ("gate_up"), and down into the order of the tokens, weighted
("down"). Beside the same in PyTorch's terms around torch._scaled_grouped_mm, which has a scale for
each row and each column instead, and beside our own of bf16.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from gemm_grouped import routed
from gemm_narrow import scales
from gemm_timing import check, in_turns, is_wanted, report
from replay import OPS, Call, normal

# Features, experts, features inside an expert; of each token, so many experts.
MODELS = {"qwen3-30b-a3b": (2048, 128, 768), "deepseek-v3": (7168, 256, 2048)}
TOKENS, TOP = (64, 512, 4096), 8


def _wide(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Numbers times their scales, in bf16."""
    return (x.float() * scale).bfloat16()


def _weight(experts: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of e4m3, its scales, and what both say in bf16."""
    b = normal(experts * n, k).view(experts, n, k).to(torch.float8_e4m3fn)
    scale = scales(experts, n // 128, k // 128)
    wide = torch.empty(experts, n, k, device="cuda", dtype=torch.bfloat16)
    for expert in range(experts):  # in float32 all of them take more memory than there is
        spread = scale[expert].repeat_interleave(128, 0).repeat_interleave(128, 1)
        wide[expert] = _wide(b[expert], spread)
    return b, scale, wide


def _rows(m: int, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    a, scale = normal(m, k).to(torch.float8_e4m3fn), scales(m, k // 128)
    return a, scale, _wide(a, scale.repeat_interleave(128, 1))


def _torch_product(
    a: torch.Tensor, row_scale: torch.Tensor, b: torch.Tensor, ends: torch.Tensor
) -> torch.Tensor:
    columns = torch.ones(b.shape[:2], device=b.device)
    return torch._scaled_grouped_mm(
        a, b.mT, row_scale.contiguous(), columns, ends, out_dtype=torch.bfloat16
    )


def _gate_up() -> dict[str, Call]:
    def peer(a: Any, a_scale: Any, b: Any, _: Any, ends: Any, rows: Any, *__: Any) -> Any:
        gathered = a.view(torch.uint8)[rows].view(a.dtype)
        gate, up = _torch_product(gathered, a_scale[:, 0][rows], b, ends).chunk(2, -1)
        return torch.nn.functional.silu(gate) * up

    return {
        "ours": lambda a, a_scale, b, b_scale, ends, rows, *_: OPS.scaled_grouped_gated_matmul(
            a, b, a_scale, b_scale, ends, None, rows
        ),
        "torch_fp8": peer,
        "ours_bf16": lambda *of: OPS.grouped_gated_matmul(of[6], of[7].mT, of[4], None, of[5]),
    }


def _down() -> dict[str, Call]:
    def peer(a: Any, a_scale: Any, b: Any, _: Any, ends: Any, rows: Any, weights: Any,
             *__: Any) -> Any:  # fmt: skip
        made = _torch_product(a, a_scale[:, 0], b, ends)
        out = torch.empty_like(made)
        out[rows] = made
        return out.mul_(weights[:, None])

    return {
        "ours": lambda a, a_scale, b, b_scale, ends, to, weights, *_: (
            OPS.scaled_grouped_matmul_unpermute(a, b, a_scale, b_scale, ends, None, to, weights)
        ),
        "torch_fp8": peer,
        "ours_bf16": lambda *of: OPS.grouped_matmul_unpermute(
            of[7], of[8].mT, of[4], None, of[5], of[6]
        ),
    }


def experts(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Both products of both models, tokens routed at random."""
    results = []
    for model, (hidden, count, inner) in MODELS.items():
        weights: dict[str, tuple[torch.Tensor, ...]] = {}
        for tokens in TOKENS:
            order, ends = routed(tokens, count, TOP)
            for product, n, k in (("gate_up", 2 * inner, hidden), ("down", hidden, inner)):
                label = f"fp8 {model} {product} {tokens} tokens"
                if not is_wanted(label, options):
                    continue
                if product not in weights:
                    weights[product] = _weight(count, n, k)
                b, b_scale, b16 = weights[product]
                m = tokens if product == "gate_up" else tokens * TOP
                a, a_scale, a16 = _rows(m, k)
                extra = (order // TOP,) if product == "gate_up" else (order, scales(m))
                calls = _gate_up() if product == "gate_up" else _down()
                operands = (a, a_scale, b, b_scale, ends, *extra, a16, b16)
                check(calls["ours"](*operands), calls["ours_bf16"](*operands), k)
                seconds = in_turns(calls, operands, 20)
                results.append(report(label, 2.0 * tokens * TOP * n * k, seconds, b.numel()))
    return results
