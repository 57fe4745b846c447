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
    x: Tensor, weight: Tensor, bias: Any = None, residual: Any = None, activation: str = "none"
) -> Any:
    """The layer, whose gradient wants the value before its activation."""
    if activation == "none":
        return None
    out = _ops.linear.default(x, weight, bias)
    if activation.startswith("gelu"):
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
    scale: float = 0.0,
    causal: bool = False,
) -> Any:
    """Attention whose heads are both parts, of which the latent one is the values; and its lse."""
    fits = q_nope.shape[:-1] == q_pe.shape[:-1] and ckv.shape[:-1] == kpe.shape[:-1]
    if not fits or len({x.dtype for x in (q_nope, q_pe, ckv, kpe)}) > 1:
        return None
    q, k = torch.cat((q_nope, q_pe), -1), torch.cat((ckv, kpe), -1)
    return _ops.attention.full(q, k, ckv, kv_lens, scale=scale, causal=causal)


def _latent_values(*given: Any) -> Any:
    made = _latent_attention(*given)
    return made and made[0]


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
    "linear": _linear,
    "mla": _latent_values,
    "mla.full": _latent_attention,
    "sinkhorn": _sinkhorn,
    "type_as": _type_as,
}
