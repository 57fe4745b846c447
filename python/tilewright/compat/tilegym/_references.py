"""What TileGym's interfaces have beside its operators: their references and their parts."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import ops
from tilewright.compat._tensors import tensor
from tilewright.compat.tilegym._attention import attention_sink
from tilewright.compat.tilegym._backends import uses
from tilewright.compat.tilegym._experts import (
    Alignment,
    fused_moe,
    invoke_fused_moe_kernel,
    moe_align_block_size,
)
from tilewright.compat.tilegym._layers import silu_and_mul


def repeat_kv(tensor: torch.Tensor, num_groups: int) -> torch.Tensor:
    """Each head of keys [B, H, L, D] num_groups times."""
    return tensor.repeat_interleave(num_groups, 1)


@uses("attention")
def attention_sink_ref(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sinks: torch.Tensor,
    sm_scale: float = 0.125,
    sliding_window: int | None = None,
    start_q: int | torch.Tensor = 0,
) -> torch.Tensor:
    """attention_sink in float32, then bfloat16."""
    q, k, v, s = (x.float() for x in (query, key, value, sinks))
    out: torch.Tensor = attention_sink(q, k, v, s, sm_scale, sliding_window, start_q)
    return out.bfloat16()


@uses("matmul", "softmax", "dropout")
def gemma3_eager_attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    softcap: float | None = None,
    **_more: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention [B, S, H, D] and its weights [B, H, S, L], of which dropout makes some zero."""
    width: int = module.head_dim  # type: ignore[assignment]
    scale = float(width**-0.5 if scaling is None else scaling)
    groups: int = module.num_key_value_groups  # type: ignore[assignment]
    keys, values = (repeat_kv(x, groups).flatten(0, 1) for x in (key, value))
    scores = tensor(ops.matmul(query.flatten(0, 1), keys.mT, scale)).view(*query.shape[:3], -1)
    if softcap is not None:
        scores = tensor(ops.tanh(scores / softcap)) * softcap
    if attention_mask is not None:
        scores = scores + attention_mask[..., : key.shape[2]]
    weights = tensor(ops.softmax(scores.float())).to(query.dtype)
    weights = torch.nn.functional.dropout(weights, dropout, module.training)
    out = tensor(ops.matmul(weights.flatten(0, 1), values)).view(*query.shape[:3], -1)
    return out.transpose(1, 2).contiguous(), weights


@uses("moe_align")
def moe_align_block_size_torch(
    topk_ids: torch.Tensor, block_size: int, num_experts: int
) -> Alignment:
    """As moe_align_block_size, of as many blocks as there are."""
    order, blocks, count, begins, most = moe_align_block_size(topk_ids, block_size, num_experts)
    total = int(count)
    return order[:total], blocks[: total // block_size], count[0], begins, most[0]


@uses("moe_align", "embedding", "grouped_matmul", "mul")
def fused_moe_torch(
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor | None,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    mul_routed_weight: bool,
) -> torch.Tensor:
    """Each token's row of A times its experts' matrices B [E, N, K]: [M, top-k, N]; C stays."""
    made = A.new_empty(*topk_ids.shape, B.shape[1])
    _product(A, B, made, None, None, topk_weights, topk_ids, mul_routed_weight, topk_ids.shape[1])
    return made


def _product(
    a: torch.Tensor,
    b: torch.Tensor,
    made: torch.Tensor,
    a_scale: torch.Tensor | None,
    b_scale: torch.Tensor | None,
    weights: torch.Tensor,
    ids: torch.Tensor,
    is_weighted: bool,
    top_k: int,
    *,
    fp8: bool = False,
    int8: bool = False,
) -> None:
    block = None
    if fp8 and b_scale is not None:
        block = [size // n for size, n in zip(b.shape[1:], b_scale.shape[1:], strict=True)]
    invoke_fused_moe_kernel(
        a, b, made, a_scale, b_scale, weights, ids, ids, ids, ids, is_weighted, top_k, None, None,
        fp8, int8, block,
    )  # fmt: skip


@uses("fused_experts", "moe_align", "grouped_matmul", "scaled_grouped_matmul", "silu_and_mul")
def fused_experts_impl(
    hidden_states: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    inplace: bool = False,
    use_fp8_w8a8: bool = False,
    use_int8_w8a16: bool = False,
    w1_scale: torch.Tensor | None = None,
    w2_scale: torch.Tensor | None = None,
    a1_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """As fused_moe; in place, or of 8-bit weights with scales.

    8-bit floats between the two products have scales of 1.
    """
    if use_fp8_w8a8 or use_int8_w8a16:
        made = _of_8_bits(
            hidden_states, w1, w2, topk_weights, topk_ids, w1_scale, w2_scale, a1_scale,
            use_fp8_w8a8,
        )  # fmt: skip
    else:
        made = fused_moe(hidden_states, w1, w2, topk_weights, topk_ids)
    return hidden_states.copy_(made) if inplace else made


def _of_8_bits(
    x: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    weights: torch.Tensor,
    ids: torch.Tensor,
    w1_scale: torch.Tensor | None,
    w2_scale: torch.Tensor | None,
    a_scale: torch.Tensor | None,
    fp8: bool,
) -> torch.Tensor:
    kind = torch.bfloat16 if x.dtype == torch.bfloat16 else torch.float16
    which = {"fp8": fp8, "int8": not fp8}
    inner = x.new_empty(*ids.shape, w1.shape[1], dtype=kind)
    _product(x, w1, inner, a_scale, w1_scale, weights, ids, False, ids.shape[1], **which)
    gated: torch.Tensor = silu_and_mul(inner.flatten(0, 1))
    ones = None
    if fp8 and w2_scale is not None:
        gated = gated.to(x.dtype)
        ones = torch.ones(len(gated), w2_scale.shape[2], device=x.device)
    each = x.new_empty(*ids.shape, w2.shape[1], dtype=kind)
    _product(gated, w2, each, ones, w2_scale, weights, ids, True, 1, **which)
    return tensor(ops.sum(each.float(), 1)).to(kind)
