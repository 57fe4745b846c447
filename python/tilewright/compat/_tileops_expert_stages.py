"""TileOPs' layers of experts, whole and stage by stage."""

from __future__ import annotations

from typing import Literal

import torch

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._experts import align, rows
from tilewright.compat._tensors import Kind, as_dtype, tensor
from tilewright.compat._tileops_expert_layouts import (
    ContiguousLayoutSpec,
    ContiguousMetadata,
    Layout,
    MaskedLayoutSpec,
    RoutingEpilogueSpec,
)
from tilewright.compat._tileops_experts import moe_fused_topk, moe_shared_expert_mlp

Scoring = Literal["softmax", "sigmoid"]

# The catalog's activations of a whole layer, and of a product, by TileOPs' names.
_ACTIVATIONS: dict[str, Literal["silu", "gelu"]] = {"silu_and_mul": "silu", "gelu_and_mul": "gelu"}


def _activation(name: str, kind: str) -> Literal["silu", "gelu"]:
    if kind not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise ValueError(f"{name}: activation must be one of {known}, not {kind!r}")
    return _ACTIVATIONS[kind]


def _into(made: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    return made if out is None else out.copy_(made)


@uses("moe_align", "embedding")
def moe_pre_permute(
    hidden_states: torch.Tensor,
    local_expert_ids: torch.Tensor,
    *,
    layout: ContiguousLayoutSpec,
    num_local_experts: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens' rows [T, H] in the layout, by their experts [T, K].

    Returns:
        The rows, what tells the experts', and the row of each route [T K].
    """
    if num_local_experts <= 0:
        raise ValueError("moe_pre_permute: num_local_experts must be positive")
    if not isinstance(layout, ContiguousLayoutSpec):
        raise ValueError(f"moe_pre_permute: {layout} may not hold all routes of an expert")
    tokens, top_k = local_expert_ids.shape
    counts, ends, order, places = align(local_expert_ids, num_local_experts, layout.alignment)
    routes = tokens * top_k
    slots = layout.capacity(routes, num_local_experts)
    source = order.new_full((slots,), routes)
    source[: len(order)] = order[:slots]
    made = rows(hidden_states, (source // max(top_k, 1)).clamp(max=max(tokens - 1, 0)))
    made.masked_fill_((source == routes)[:, None], 0)
    if layout.metadata_kind is ContiguousMetadata.PER_ROW:
        at = torch.arange(slots, dtype=ends.dtype, device=ends.device)
        return made, torch.searchsorted(ends, at, right=True).int(), places.flatten()
    begins = torch.nn.functional.pad(ends[:-1], (1, 0))
    return made, begins + counts, places.flatten()


@uses("grouped_matmul", "matmul", *_ACTIVATIONS)
def moe_grouped_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    layout_metadata: torch.Tensor,
    out: torch.Tensor | None = None,
    *,
    layout: Layout,
    activation: str | None = None,
    out_dtype: Kind = None,
) -> torch.Tensor:
    """Experts' rows of a times their matrices of b [E, N, K], gated by its second half if wanted.

    Rows that are no expert's are left as they come out.
    """
    if activation is not None:
        _activation("moe_grouped_gemm", activation)
    if out_dtype is not None:  # sums in float32 are not rounded to the operands' dtype first
        a, b = as_dtype(a, out_dtype), as_dtype(b, out_dtype)
    if isinstance(layout, MaskedLayoutSpec):
        made = tensor(ops.matmul(a, b.mT))
    else:
        made = tensor(ops.grouped_matmul(a, b.mT, *layout.bounds(layout_metadata, len(b))))
    return _into(made if activation is None else tensor(getattr(ops, activation)(made)), out)


@uses("dequantize", "matmul")
def moe_grouped_gemm_fp8(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    b: torch.Tensor,
    b_scale: torch.Tensor,
    layout_metadata: torch.Tensor,
    out: torch.Tensor | None = None,
    *,
    layout: MaskedLayoutSpec,
) -> torch.Tensor:
    """Slabs a [E, max_m, K] times b [E, N, K], 8-bit floats, in bfloat16.

    A scale is of 128 columns, and those of b of 128 rows.
    """
    wide = a.float() * a_scale.float().repeat_interleave(128, -1)
    scale = b_scale.float().repeat_interleave(128, -1).repeat_interleave(128, -2)
    return _into(tensor(ops.matmul(wide, (b.float() * scale).mT)).bfloat16(), out)


@uses("grouped_matmul", "matmul", *_ACTIVATIONS)
def moe_expert_mlp(
    expert_input: torch.Tensor,
    w_gate_up: torch.Tensor,
    w_down: torch.Tensor,
    layout_metadata: torch.Tensor,
    out: torch.Tensor | None = None,
    *,
    layout: Layout,
    activation: str = "silu_and_mul",
) -> torch.Tensor:
    """Experts' gated layers, w_gate_up [E, 2 F, H] and w_down [E, H, F], of their rows."""
    inner = moe_grouped_gemm(
        expert_input, w_gate_up, layout_metadata, layout=layout, activation=activation
    )
    return moe_grouped_gemm(inner, w_down, layout_metadata, out, layout=layout)


@uses("moe_combine")
def moe_post_permute(
    expert_output: torch.Tensor,
    topk_weights: torch.Tensor,
    inverse_indices: torch.Tensor,
    out: torch.Tensor | None = None,
    *,
    layout: Layout,
    epilogue: RoutingEpilogueSpec | None = None,
    out_dtype: Kind = None,
) -> torch.Tensor:
    """The weighted sums [T, H] of each token's rows, by the row of each route."""
    flat = expert_output.reshape(-1, expert_output.shape[-1])
    places = inverse_indices.int().view(topk_weights.shape)
    factor = 1.0 if epilogue is None else epilogue.routed_scaling_factor
    if out_dtype is not None:
        flat = flat.float()
    made = tensor(ops.moe_combine(flat, places, topk_weights.float(), factor))
    return _into(as_dtype(made, out_dtype), out)


@uses("fused_experts")
def fused_moe_experts(
    output: torch.Tensor,
    hidden_states: torch.Tensor,
    w_gate_up: torch.Tensor,
    w_down: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    *,
    routed_scaling_factor: float = 1.0,
    activation: str = "silu_and_mul",
) -> None:
    """Each token's experts [T, K], weighted and added up, into `output` [T, H]."""
    kind = _activation("fused_moe_experts", activation)
    weights, ids = topk_weights.float(), topk_ids.int()
    given = (hidden_states, w_gate_up, w_down, weights, ids)
    output.copy_(tensor(ops.fused_experts(*given, kind, routed_scaling_factor)))


@uses("moe_topk", "fused_experts")
def fused_moe(
    hidden_states: torch.Tensor,
    gating_output: torch.Tensor,
    w_gate_up: torch.Tensor,
    w_down: torch.Tensor,
    correction_bias: torch.Tensor | None = None,
    *,
    top_k: int,
    scoring_func: Scoring = "softmax",
    renormalize: bool = False,
    routed_scaling_factor: float = 1.0,
    activation: str = "silu_and_mul",
) -> torch.Tensor:
    """A whole layer: each token's top_k experts by its scores [T, E], weighted and added up."""
    weights, ids = moe_fused_topk(
        gating_output, correction_bias, top_k=top_k, scoring_func=scoring_func,
        renormalize=renormalize,
    )  # fmt: skip
    made = torch.empty_like(hidden_states)
    fused_moe_experts(
        made, hidden_states, w_gate_up, w_down, weights, ids, activation=activation,
        routed_scaling_factor=routed_scaling_factor,
    )  # fmt: skip
    return made


@uses("moe_topk", "fused_experts", "linear", "silu_and_mul")
def fused_moe_shared_expert(
    hidden_states: torch.Tensor,
    gating_output: torch.Tensor,
    w_gate_up: torch.Tensor,
    w_down: torch.Tensor,
    correction_bias: torch.Tensor | None = None,
    shared_w_gate_up: torch.Tensor | None = None,
    shared_w_down: torch.Tensor | None = None,
    *,
    top_k: int,
    scoring_func: Scoring = "softmax",
    renormalize: bool = False,
    routed_scaling_factor: float = 1.0,
    tp_size: int = 1,
    tp_rank: int = 0,
    activation: str = "silu_and_mul",
) -> tuple[torch.Tensor | None, torch.Tensor]:
    """fused_moe, and before it what this rank of tp_size adds to an expert of all tokens."""
    routed = fused_moe(
        hidden_states, gating_output, w_gate_up, w_down, correction_bias, top_k=top_k,
        scoring_func=scoring_func, renormalize=renormalize, activation=activation,
        routed_scaling_factor=routed_scaling_factor,
    )  # fmt: skip
    if shared_w_gate_up is None or shared_w_down is None:
        return None, routed
    shared = (hidden_states, shared_w_gate_up, shared_w_down)
    return share_of_expert(*shared, tp_size, tp_rank), routed


def share_of_expert(
    hidden_states: torch.Tensor,
    w_gate_up: torch.Tensor,
    w_down: torch.Tensor,
    tp_size: int,
    tp_rank: int,
) -> torch.Tensor:
    """What this rank of tp_size adds to an expert of all tokens."""
    width = w_down.shape[1]
    if not 0 <= tp_rank < tp_size or width % tp_size:
        raise ValueError(
            f"fused_moe_shared_expert: rank {tp_rank} of {tp_size} has no whole part of {width}"
        )
    share = width // tp_size
    own = slice(tp_rank * share, (tp_rank + 1) * share)
    both = w_gate_up.view(2, width, -1)[:, own].reshape(2 * share, -1)
    return moe_shared_expert_mlp(hidden_states, both, w_down[:, own].contiguous())


__all__ = list(provided(vars()))
