"""As _tileops_unified, of layers of experts."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import ops
from tilewright.compat import _tileops_expert_stages as stages
from tilewright.compat import _tileops_experts as experts_
from tilewright.compat._coverage import uses
from tilewright.compat._tensors import Kind, as_dtype, constant, segments_of, tensor
from tilewright.compat._tileops_expert_layouts import (
    ContiguousLayoutSpec,
    ContiguousMetadata,
    Layout,
    MaskedLayoutSpec,
    RoutingEpilogueSpec,
)

Tensor = torch.Tensor

_GATES = ("silu_and_mul", "gelu_and_mul")


def _in_groups(
    gating: Tensor, bias: Tensor | None, scoring: str, top_k: int, groups: int, kept: int
) -> tuple[Tensor, Tensor]:
    """The scores and numbers of the top_k experts in the `kept` groups that score most.

    A group's score is that of its best expert, with a bias the sum of its best two.
    """
    scores = tensor(getattr(ops, scoring)(gating.float()))
    ranked = scores if bias is None else tensor(ops.add(scores, bias.float().expand_as(scores)))
    by_group = ranked.view(len(ranked), groups, -1)
    best = tensor(ops.sum(ops.topk(by_group, 1 if bias is None else 2)[0], -1))
    chosen = tensor(ops.topk(best, kept)[1]).long()
    is_kept = torch.zeros_like(best, dtype=torch.bool).scatter(1, chosen, True)
    left = by_group.masked_fill(~is_kept[..., None], -torch.inf).flatten(1)
    ids = tensor(ops.topk(left, top_k)[1])
    return scores.gather(1, ids.long()), ids


@uses("moe_topk")
def fused_top_k(
    gating_output: Tensor,
    correction_bias: Tensor | None = None,
    *,
    top_k: int,
    scoring_func: Any = "softmax",
    renormalize: bool = False,
    num_expert_group: int = 1,
    topk_group: int = 1,
    routed_scaling_factor: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """The weights and numbers of each token's experts, of some groups of them."""
    options: dict[str, Any] = {"scoring_func": scoring_func, "renormalize": renormalize}
    weights, ids = experts_.moe_fused_topk(gating_output, correction_bias, top_k=top_k, **options)
    if num_expert_group > 1:
        groups = (top_k, num_expert_group, topk_group)
        weights, ids = _in_groups(gating_output, correction_bias, scoring_func, *groups)
        if renormalize:
            weights = weights / tensor(ops.sum(weights, -1))[:, None]
    if routed_scaling_factor != 1.0:
        weights = tensor(ops.mul(weights, constant(weights, routed_scaling_factor)))
    return weights, ids


@uses("moe_align")
def moe_permute_align(
    topk_ids: Tensor, *, num_experts: int, block_size: int = 64
) -> tuple[Tensor, Tensor, Tensor]:
    """Entries by expert in blocks."""
    tokens, top_k = topk_ids.shape
    return experts_.moe_permute_align(
        topk_ids, total_tokens=tokens, top_k=top_k, num_experts=num_experts, block_size=block_size
    )


def _of_rows(bias: Tensor, rows: Tensor, metadata: Tensor, layout: Layout) -> Tensor:
    """Each row's bias, of those of experts [E, N]."""
    if isinstance(layout, MaskedLayoutSpec):
        return bias[:, None].expand_as(rows)
    if layout.metadata_kind is ContiguousMetadata.PER_ROW:
        return bias[metadata.long()]
    ends, _ = layout.bounds(metadata, len(bias))
    return bias[segments_of(ends, len(rows))]


@uses("grouped_matmul", "matmul", "add", *_GATES)
def moe_grouped_gemm(
    a: Tensor,
    b: Tensor,
    layout_metadata: Tensor,
    bias: Tensor | None = None,
    *,
    layout: Layout,
    activation: str | None = None,
    out_dtype: Kind = None,
    out: Tensor | None = None,
) -> Tensor:
    """Experts' rows of a times their matrices of b [E, N, K], plus their bias, gated if wanted."""
    if activation == "swigluoai":
        raise NotImplementedError("MoEGroupedGEMMFwdOp: activation = 'swigluoai'")
    given = (a, b, layout_metadata)
    if bias is None:
        return stages.moe_grouped_gemm(
            *given, out, layout=layout, activation=activation, out_dtype=out_dtype
        )
    made = stages.moe_grouped_gemm(*given, layout=layout, out_dtype=torch.float32)
    made = tensor(ops.add(made, _of_rows(bias.float(), made, layout_metadata, layout)))
    if activation is not None:
        made = tensor(getattr(ops, activation)(made))
    made = as_dtype(made, out_dtype or a.dtype)
    return made if out is None else out.copy_(made)


@uses("grouped_matmul", "matmul", "add", *_GATES)
def moe_expert_mlp(
    expert_input: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    layout_metadata: Tensor,
    b_gate_up: Tensor | None = None,
    b_down: Tensor | None = None,
    *,
    layout: Layout,
    activation: str = "silu_and_mul",
    out: Tensor | None = None,
) -> Tensor:
    """Experts' gated layers, w_gate_up [E, 2 F, H] and w_down [E, H, F], of their rows."""
    inner = moe_grouped_gemm(
        expert_input, w_gate_up, layout_metadata, b_gate_up, layout=layout, activation=activation
    )
    return moe_grouped_gemm(inner, w_down, layout_metadata, b_down, layout=layout, out=out)


@uses("fused_experts", "moe_align", "grouped_matmul", "moe_combine")
def fused_moe_experts(
    hidden_states: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    b_gate_up: Tensor | None = None,
    b_down: Tensor | None = None,
    *,
    routed_scaling_factor: float = 1.0,
    activation: str = "silu_and_mul",
    out: Tensor | None = None,
) -> Tensor:
    """Each token's experts [T, K], weighted and added up [T, H]."""
    if activation == "swigluoai":
        raise NotImplementedError("FusedMoEExpertsFwdOp: activation = 'swigluoai'")
    made = torch.empty_like(hidden_states) if out is None else out
    if b_gate_up is None and b_down is None:
        stages.fused_moe_experts(
            made, hidden_states, w_gate_up, w_down, topk_weights, topk_ids,
            routed_scaling_factor=routed_scaling_factor, activation=activation,
        )  # fmt: skip
        return made
    layout = ContiguousLayoutSpec.tight_physical_psum()
    rows, ends, places = stages.moe_pre_permute(
        hidden_states, topk_ids, layout=layout, num_local_experts=len(w_gate_up)
    )
    rows = moe_expert_mlp(
        rows, w_gate_up, w_down, ends, b_gate_up, b_down, layout=layout, activation=activation
    )
    epilogue = RoutingEpilogueSpec(routed_scaling_factor)
    return stages.moe_post_permute(
        rows, topk_weights, places, made, layout=layout, epilogue=epilogue
    )


@uses("fused_experts")
def indexed_expert_mlp(
    hidden_states: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    *,
    routed_scaling_factor: float = 1.0,
    out: Tensor | None = None,
) -> Tensor:
    """As fused_moe_experts, by silu."""
    given = (hidden_states, w_gate_up, w_down, topk_weights, topk_ids)
    return fused_moe_experts(*given, routed_scaling_factor=routed_scaling_factor, out=out)


@uses("linear", "silu_and_mul")
def shared_expert_mlp(hidden_states: Tensor, w_gate_up: Tensor, w_down: Tensor) -> Tensor:
    """A gated layer of all tokens."""
    return experts_.moe_shared_expert_mlp(hidden_states, w_gate_up, w_down)


@uses("moe_topk", "fused_experts")
def fused_moe(
    hidden_states: Tensor,
    gating_output: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    correction_bias: Tensor | None = None,
    b_gate_up: Tensor | None = None,
    b_down: Tensor | None = None,
    *,
    top_k: int,
    scoring_func: Any = "softmax",
    renormalize: bool = False,
    routed_scaling_factor: float = 1.0,
    num_expert_group: int = 1,
    topk_group: int = 1,
    activation: str = "silu_and_mul",
    experts: Any = None,
) -> Tensor:
    """A whole layer; `experts` are those of a FusedMoEExpertsFwdOp, with its own parameters."""
    weights, ids = fused_top_k(
        gating_output, correction_bias, top_k=top_k, scoring_func=scoring_func,
        renormalize=renormalize, num_expert_group=num_expert_group, topk_group=topk_group,
    )  # fmt: skip
    given = (hidden_states, w_gate_up, w_down, weights, ids, b_gate_up, b_down)
    if experts is not None:
        return tensor(experts(*given))
    return fused_moe_experts(
        *given, routed_scaling_factor=routed_scaling_factor, activation=activation
    )


@uses("moe_topk", "fused_experts", "linear", "silu_and_mul")
def fused_moe_shared_expert(
    hidden_states: Tensor,
    gating_output: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    correction_bias: Tensor | None = None,
    shared_w_gate_up: Tensor | None = None,
    shared_w_down: Tensor | None = None,
    *,
    top_k: int,
    scoring_func: Any = "softmax",
    renormalize: bool = False,
    routed_scaling_factor: float = 1.0,
    num_expert_group: int = 1,
    topk_group: int = 1,
    tp_size: int = 1,
    tp_rank: int = 0,
    activation: str = "silu_and_mul",
    experts: Any = None,
) -> tuple[Tensor | None, Tensor]:
    """fused_moe, and before it what this rank of tp_size adds to an expert of all tokens."""
    routed = fused_moe(
        hidden_states, gating_output, w_gate_up, w_down, correction_bias, top_k=top_k,
        scoring_func=scoring_func, renormalize=renormalize, num_expert_group=num_expert_group,
        topk_group=topk_group, routed_scaling_factor=routed_scaling_factor,
        activation=activation, experts=experts,
    )  # fmt: skip
    if shared_w_gate_up is None or shared_w_down is None:
        return None, routed
    shared = (hidden_states, shared_w_gate_up, shared_w_down)
    return stages.share_of_expert(*shared, tp_size, tp_rank), routed
