"""TileOPs' routing to experts, and what they multiply."""

from __future__ import annotations

from typing import Literal

import torch

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._experts import align, block_experts, rows
from tilewright.compat._tensors import tensor

_GATED = ("silu_and_mul", "gelu_and_mul")


@uses("grouped_matmul", "k_grouped_matmul")
def grouped_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    batch_sizes: torch.Tensor,
    batch_offsets: torch.Tensor,
    batch_padded_offsets: torch.Tensor,
    *,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> torch.Tensor:
    """Rows [offset, offset + size) of a times their own matrix of b, [N, K] if transpose_b.

    With transpose_a, b has the same rows, or columns if transpose_b, and each group gives the
    product of a's columns with them.
    """
    starts = batch_offsets.to(torch.int32)
    ends = starts + batch_sizes.to(torch.int32)
    right = b.mT if transpose_b else b
    if transpose_a:
        return tensor(ops.k_grouped_matmul(a.mT, right, ends, starts))
    return tensor(ops.grouped_matmul(a, right, ends, starts))


@uses("grouped_matmul")
def moe_grouped_gemm_nopad(
    a: torch.Tensor,
    b: torch.Tensor,
    true_sizes: torch.Tensor,
    true_offsets: torch.Tensor,
    *,
    numel: int,
    num_experts: int,
    n: int,
    k: int,
) -> torch.Tensor:
    """Rows [offset, offset + size) of a [numel, k] times their expert's matrix [n, k]."""
    return grouped_gemm(a, b, true_sizes, true_offsets, true_offsets)


@uses("grouped_matmul", *_GATED)
def moe_gate_up(
    a: torch.Tensor,
    b: torch.Tensor,
    true_sizes: torch.Tensor,
    true_offsets: torch.Tensor,
    *,
    numel: int,
    num_experts: int,
    ffn: int,
    k: int,
    activation: str = "silu_and_mul",
) -> torch.Tensor:
    """As moe_grouped_gemm_nopad with matrices [2 ffn, k], then the gated activation."""
    if activation not in _GATED:
        raise ValueError(f"moe_gate_up: activation must be one of {_GATED}, not {activation!r}")
    both = grouped_gemm(a, b, true_sizes, true_offsets, true_offsets)
    return tensor(getattr(ops, activation)(both))


@uses("linear", "silu_and_mul")
def moe_shared_expert_mlp(
    x: torch.Tensor, w_gate_up: torch.Tensor, w_down: torch.Tensor
) -> torch.Tensor:
    """The gated layer with weights [2F, H], gate rows first, and [H, F]."""
    return tensor(ops.linear(ops.silu_and_mul(ops.linear(x, w_gate_up)), w_down))


@uses("moe_topk")
def moe_fused_topk(
    gating_output: torch.Tensor,
    correction_bias: torch.Tensor | None,
    *,
    top_k: int,
    scoring_func: Literal["softmax", "sigmoid"],
    renormalize: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The weights and numbers of each token's experts.

    Raises:
        ValueError: the scoring is unknown, or softmax with a bias.
    """
    if correction_bias is not None and scoring_func != "sigmoid":
        raise ValueError("moe_fused_topk: correction_bias requires scoring_func='sigmoid'")
    bias = None if correction_bias is None else correction_bias.float()
    weights, ids = ops.moe_topk(gating_output, top_k, bias, scoring_func, renormalize)
    return weights, ids


@uses("moe_align")
def moe_permute_align(
    topk_ids: torch.Tensor, *, total_tokens: int, top_k: int, num_experts: int, block_size: int = 64
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Entries by expert in blocks, each block's expert, and how many entries that makes."""
    _, offsets, order, _ = align(topk_ids, num_experts, block_size)
    slots = topk_ids.numel() + (num_experts + 1) * (block_size - 1)
    padded = order.new_full((slots,), topk_ids.numel())
    padded[: len(order)] = order
    return padded, block_experts(offsets, slots, block_size), offsets[-1:].clone()


def _check_experts(expert_map: torch.Tensor | None, experts: int, here: int) -> None:
    """Refuses a map that does not give each expert here a number of its own."""
    if expert_map is None:
        if here != experts:
            raise ValueError(f"moe_permute_nopad: {here} of {experts} experts needs an expert_map")
    elif sorted(expert_map[expert_map >= 0].tolist()) != list(range(here)):
        raise ValueError(
            f"moe_permute_nopad: expert_map {expert_map.tolist()} must name 0 .. {here - 1} "
            "exactly once each"
        )


@uses("moe_align", "embedding")
def moe_permute_nopad(
    hidden_states: torch.Tensor,
    topk_ids: torch.Tensor,
    expert_map: torch.Tensor | None = None,
    *,
    num_experts: int,
    num_experts_local: int | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows of tokens by expert, and where each lies; expert_map: numbers here, -1 for elsewhere.

    Raises:
        ValueError: the map does not name each of the experts here exactly once.
    """
    experts = num_experts if num_experts_local is None else num_experts_local
    _check_experts(expert_map, num_experts, experts)
    ids = topk_ids if expert_map is None else expert_map[topk_ids.long()]
    counts, offsets, order, positions = align(ids, experts)
    tokens, top_k = topk_ids.shape
    index = (order // max(top_k, 1)).clamp(max=max(tokens - 1, 0))
    permuted = rows(hidden_states, index)
    if expert_map is not None:
        permuted.masked_fill_((order == topk_ids.numel())[:, None], 0)
    first = torch.nn.functional.pad(offsets.long(), (1, 0))
    return permuted, offsets - counts, counts, first, positions.flatten()


def _check_out(out: torch.Tensor, x: torch.Tensor) -> None:
    if not out.is_contiguous():
        raise ValueError("moe_unpermute: out must be contiguous")
    spans = [(t.data_ptr(), t.data_ptr() + t.numel() * t.element_size()) for t in (out, x)]
    if max(spans[0][0], spans[1][0]) < min(spans[0][1], spans[1][1]):
        raise ValueError("moe_unpermute: out must not overlap mm2_pad")


@uses("moe_combine")
def moe_unpermute(
    mm2_pad: torch.Tensor,
    fwd_idx: torch.Tensor,
    topk_weights: torch.Tensor,
    *,
    total_tokens: int,
    top_k: int,
    hidden_size: int,
    out: torch.Tensor | None = None,
    routed_scaling_factor: float,
) -> torch.Tensor:
    """The weighted sum of each token's rows, times a factor.

    Raises:
        ValueError: out is not contiguous, or overlaps mm2_pad.
    """
    if out is not None:
        _check_out(out, mm2_pad)
    positions = fwd_idx.to(torch.int32).view(total_tokens, top_k)
    weights = topk_weights.float()
    made = tensor(ops.moe_combine(mm2_pad, positions, weights, routed_scaling_factor))
    return made if out is None else out.copy_(made)


__all__ = list(provided(vars()))
