"""Operators in steps that have gradients each, where there is no rule for the operator itself.

A call that records nothing runs the operator. Imports PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Tensor = torch.Tensor

_ops = torch.ops.tilewright
_FLOATS = {torch.float32, torch.float16, torch.bfloat16}


def _linear(
    x: Tensor,
    weight: Tensor,
    bias: Any = None,
    residual: Any = None,
    activation: str = "none",
    row_scale: Any = None,
    column_scale: Any = None,
) -> Any:
    """The layer, whose gradient wants the value before its scales and its activation."""
    is_scaled = row_scale is not None or column_scale is not None
    if activation == "none" and not is_scaled:
        return None
    out = _ops.linear.default(x, weight, None if is_scaled else bias)
    if is_scaled:
        wide = out if out.dtype == torch.float64 else out.float()
        wide = wide if row_scale is None else wide * row_scale[..., None]
        wide = wide if column_scale is None else wide * column_scale
        out = (wide if bias is None else wide + bias).to(x.dtype)
    if activation == "none":
        pass
    elif activation.startswith("gelu"):
        out = _ops.gelu.default(out, "tanh" if activation == "gelu_tanh" else "none")
    else:
        out = getattr(_ops, activation).default(out)
    return out if residual is None else _ops.add.default(out, residual)


def _latent_attention(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv: Tensor,
    kpe: Tensor,
    kv_lens: Any = None,
    ckv_scale: Any = None,
    scale: float = 0.0,
    causal: bool = False,
) -> Any:
    """Attention whose heads are both parts, of which the latent one is the values; and its lse."""
    fits = q_nope.shape[:-1] == q_pe.shape[:-1] and ckv.shape[:-1] == kpe.shape[:-1]
    one_type = len({x.dtype for x in (q_nope, q_pe, ckv, kpe)}) == 1
    if not fits or not one_type or ckv_scale is not None:
        return None
    q, k = torch.cat((q_nope, q_pe), -1), torch.cat((ckv, kpe), -1)
    return _ops.attention.full(q, k, ckv, kv_lens, scale=scale, causal=causal)


def _latent_values(*given: Any) -> Any:
    made = _latent_attention(*given)
    return made and made[0]


_GATED = {"silu": "silu_and_mul", "gelu": "gelu_and_mul", "gelu_tanh": "gelu_tanh_and_mul"}


def _gated_product(
    a: Tensor,
    b: Tensor,
    offsets: Tensor,
    starts: Any = None,
    rows: Any = None,
    activation: str = "silu",
) -> Any:
    """Both products, whose values the gradient wants, then what is done to them."""
    if activation not in _GATED or a.dim() != 2:
        return None
    chosen = a if rows is None else a[rows.long()]
    both = _ops.grouped_matmul.default(chosen, b, offsets, starts)
    return getattr(_ops, _GATED[activation]).default(both)


def _gated_layer(x: Tensor, weight: Tensor, bias: Any = None, activation: str = "silu") -> Any:
    """Both products, whose values the gradient wants, then what is done to them."""
    if activation not in _GATED:
        return None
    return getattr(_ops, _GATED[activation]).default(_ops.linear.default(x, weight, bias))


def _experts(
    x: Tensor,
    gate_up_proj: Tensor,
    down_proj: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    activation: str = "silu",
    scale: float = 1.0,
) -> Any:
    """The rows of each expert in turn, through its matrices and back."""
    shapes = (x, gate_up_proj, down_proj, topk_weights, topk_ids)
    if [t.dim() for t in shapes] != [2, 3, 3, 2, 2] or 0 in topk_ids.shape:
        return None
    _, offsets, order, positions = _ops.moe_align.default(topk_ids, len(down_proj))
    tokens = (order // topk_ids.shape[1]).clamp(max=len(x) - 1)  # past the last end: any
    made = _gated_product(x, gate_up_proj.mT, offsets, None, tokens, activation)
    if made is None:
        return None
    out = _ops.grouped_matmul.default(made, down_proj.mT, offsets)
    return _ops.moe_combine.default(out, positions, topk_weights, scale)


def _sinkhorn(x: Tensor, iterations: int = 20, eps: float = 0.0) -> Any:
    """Division by sums in turn, in float32."""
    if iterations < 0 or x.dim() != 3 or x.dtype not in _FLOATS:
        return None
    wide = x.float()
    out = torch.exp(wide - wide.amax(-1, keepdim=True)) if x.numel() else wide
    for _ in range(iterations):
        for dim in (-1, -2):
            out = out / (out.sum(dim, keepdim=True) + eps)
    return out.to(x.dtype)


def _type_as(x: Tensor, other: Tensor) -> Any:
    if other.dim() != 1 or x.dtype == other.dtype or not {x.dtype, other.dtype} <= _FLOATS:
        return None
    return x.to(other.dtype)


# By operator and overload. None instead of a result: the operator itself is called.
IN_STEPS: dict[str, Callable[..., Any]] = {
    "fused_experts": _experts,
    "gated_linear": _gated_layer,
    "grouped_gated_matmul": _gated_product,
    "linear": _linear,
    "mla": _latent_values,
    "mla.full": _latent_attention,
    "sinkhorn": _sinkhorn,
    "type_as": _type_as,
}
