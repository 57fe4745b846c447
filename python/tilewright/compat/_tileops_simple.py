"""TileOPs' elementwise operators, reductions, normalizations and matrix multiplications."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import torch

from tilewright import _torch, ops
from tilewright.compat._coverage import uses

Dims = int | Sequence[int] | None


def _tensor(x: Any) -> torch.Tensor:
    """The result of one operator."""
    out: torch.Tensor = x
    return out


def _activation(name: str, input: torch.Tensor, inplace: bool) -> torch.Tensor:
    if not inplace:
        return _tensor(getattr(ops, name)(input))
    _torch.load()
    getattr(torch.ops.tilewright, name).out(input, out=input)
    return input


@uses("add")
def add(input: torch.Tensor, other: torch.Tensor, *, alpha: float = 1) -> torch.Tensor:
    """Input + alpha * other."""
    return _tensor(ops.add(input, other, alpha))


@uses("add")
def sub(input: torch.Tensor, other: torch.Tensor, *, alpha: float = 1) -> torch.Tensor:
    """Input - alpha * other."""
    return _tensor(ops.add(input, other, -alpha))


@uses("mul")
def mul(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Input * other."""
    return _tensor(ops.mul(input, other))


@uses("mul")
def neg(input: torch.Tensor) -> torch.Tensor:
    """-input."""
    return _tensor(ops.mul(input, input.new_full((1,) * input.dim(), -1)))


@uses("exp")
def exp(input: torch.Tensor) -> torch.Tensor:
    """The exponential."""
    return _tensor(ops.exp(input))


@uses("log")
def log(input: torch.Tensor) -> torch.Tensor:
    """The natural logarithm."""
    return _tensor(ops.log(input))


@uses("erf")
def erf(input: torch.Tensor) -> torch.Tensor:
    """The error function."""
    return _tensor(ops.erf(input))


@uses("tanh")
def tanh(input: torch.Tensor) -> torch.Tensor:
    """The hyperbolic tangent."""
    return _tensor(ops.tanh(input))


@uses("sigmoid")
def sigmoid(input: torch.Tensor) -> torch.Tensor:
    """1 / (1 + exp(-x))."""
    return _tensor(ops.sigmoid(input))


@uses("relu")
def relu(input: torch.Tensor, *, inplace: bool = False) -> torch.Tensor:
    """max(x, 0)."""
    return _activation("relu", input, inplace)


@uses("silu")
def silu(input: torch.Tensor, *, inplace: bool = False) -> torch.Tensor:
    """X * sigmoid(x)."""
    return _activation("silu", input, inplace)


@uses("gelu")
def gelu(input: torch.Tensor, *, approximate: Literal["none", "tanh"] = "none") -> torch.Tensor:
    """GELU, exact or by tanh."""
    return _tensor(ops.gelu(input, approximate))


@uses("silu_and_mul")
def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """silu(first half) * second half of the last dimension."""
    return _tensor(ops.silu_and_mul(x))


@uses("gelu_tanh_and_mul")
def gelu_tanh_and_mul(x: torch.Tensor) -> torch.Tensor:
    """gelu(first half) * second half of the last dimension, by tanh."""
    return _tensor(ops.gelu_tanh_and_mul(x))


@uses("sum")
def sum(x: torch.Tensor, *, dim: Dims = None, keepdim: bool = False) -> torch.Tensor:
    """The sums along some dimensions, or of everything."""
    every = range(x.dim()) if dim is None else (dim,) if isinstance(dim, int) else dim
    dims = sorted({d % x.dim() for d in every})
    out = _tensor(ops.sum(x.movedim(dims, list(range(-len(dims), 0))).flatten(-len(dims))))
    for d in dims if keepdim else ():
        out = out.unsqueeze(d)
    return out


@uses("argmax")
def argmax(x: torch.Tensor, *, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
    """Where the largest value along a dimension, or of everything, is."""
    if dim is None:
        out = _tensor(ops.argmax(x.flatten()))
        return out.reshape([1] * x.dim()) if keepdim else out
    out = _tensor(ops.argmax(x, dim))
    return out.unsqueeze(dim) if keepdim else out


@uses("softmax")
def softmax(x: torch.Tensor, *, dim: int | None = None) -> torch.Tensor:
    """The softmax along a dimension; without one, along that which PyTorch then takes."""
    if dim is None:
        dim = 0 if x.dim() in (0, 1, 3) else 1
        warnings.warn(f"Implicit dimension choice for softmax: {dim}", stacklevel=2)
    return _tensor(ops.softmax(x, dim))


@uses("rms_norm")
def rms_norm(
    x: torch.Tensor, weight: torch.Tensor, *, normalized_shape: Sequence[int], eps: float = 1e-6
) -> torch.Tensor:
    """RMS normalization over the last dimensions."""
    kept = x.dim() - len(normalized_shape)
    flat = _tensor(ops.rms_norm(x.flatten(kept), weight.flatten(), eps))
    return flat.reshape(x.shape)


@uses("fused_add_rms_norm")
def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """X + residual normalized, and x + residual."""
    output, residual_out = ops.fused_add_rms_norm(x, residual, weight, eps)
    return output, residual_out


@uses("matmul")
def gemm(
    a: torch.Tensor, b: torch.Tensor, *, trans_a: bool = False, trans_b: bool = True
) -> torch.Tensor:
    """The product of two matrices; b is [N, K] unless trans_b is False."""
    return bmm((a.mT if trans_a else a)[None], (b.mT if trans_b else b)[None])[0]


@uses("matmul")
def bmm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The products of matrices [B, M, K] and [B, K, N]."""
    return _tensor(ops.matmul(a, b))


@uses("linear", "silu_and_mul")
def moe_shared_expert_mlp(
    x: torch.Tensor, w_gate_up: torch.Tensor, w_down: torch.Tensor
) -> torch.Tensor:
    """The gated layer with weights [2F, H], gate rows first, and [H, F]."""
    return _tensor(ops.linear(ops.silu_and_mul(ops.linear(x, w_gate_up)), w_down))
