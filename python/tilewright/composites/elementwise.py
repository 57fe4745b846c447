"""Composites of elementwise operators, and of those that only move elements."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from tilewright.composites import COMPOSITES
from tilewright.composites._registry import composite, wide

Tensor = torch.Tensor


def _of_one(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: function(wide(x)).to(x.dtype)


COMPOSITES.update(
    {
        name: _of_one(function)
        for name, function in {
            "erf": torch.erf,
            "exp": torch.exp,
            "log": torch.log,
            "relu": torch.relu,
            "sigmoid": torch.sigmoid,
            "silu": F.silu,
            "tanh": torch.tanh,
        }.items()
    }
)


@composite
def unary(x: Tensor, function: str) -> Tensor:
    result: Tensor = getattr(torch, function)(wide(x))
    return result.to(x.dtype)


@composite
def gelu(x: Tensor, approximate: str) -> Tensor:
    return F.gelu(wide(x), approximate=approximate).to(x.dtype)


@composite
def activation(x: Tensor, function: str, a: float, b: float, c: float) -> Tensor:
    v = wide(x)
    if function == "clamp":
        out = v.clamp(a, b)
    elif function == "leaky_relu":
        out = F.leaky_relu(v, a)
    elif function == "elu":
        out = b * torch.where(v > 0, v, a * torch.expm1(v))
    elif function == "softplus":
        out = F.softplus(v, a, b)
    elif function == "nan_to_num":
        out = torch.nan_to_num(v, a, b, c)
    elif function == "round":
        out = torch.round(v, decimals=int(a))
    else:
        out = getattr(F, function)(v)
    return out.to(x.dtype)


@composite
def add(x: Tensor, other: Tensor, alpha: float) -> Tensor:
    if not x.is_floating_point():
        return torch.add(x, other, alpha=int(alpha))
    return torch.add(wide(x), wide(other), alpha=alpha).to(x.dtype)


@composite
def mul(x: Tensor, other: Tensor) -> Tensor:
    return (wide(x) * wide(other)).to(x.dtype)


@composite
def scale(x: Tensor, factor: float) -> Tensor:
    return (wide(x) * factor).to(x.dtype)


@composite
def binary(x: Tensor, other: Tensor, function: str) -> Tensor:
    u, v = wide(x), wide(other)
    if function in ("trunc_divide", "floor_divide"):
        out = torch.div(u, v, rounding_mode=function.removesuffix("_divide"))
    elif function == "prelu":
        out = torch.where(u > 0, u, u * v)
    else:
        out = getattr(torch, function)(u, v)
    return out.to(x.dtype)


@composite
def extremum(x: Tensor, other: Tensor, function: str) -> Tensor:
    result: Tensor = getattr(torch, function)(x, other)
    return result


@composite
def compare(x: Tensor, other: Tensor, relation: str) -> Tensor:
    name = f"logical_{relation}" if relation in ("and", "or") else relation
    result: Tensor = getattr(torch, name)(x, other)
    return result


@composite
def bitwise(x: Tensor, other: Tensor, function: str) -> Tensor:
    result: Tensor = getattr(torch, f"bitwise_{function}")(x, other)
    return result


@composite
def where(condition: Tensor, x: Tensor, other: Tensor) -> Tensor:
    return torch.where(condition, x, other)


@composite
def lerp(x: Tensor, end: Tensor, weight: Tensor | None, amount: float) -> Tensor:
    share = amount if weight is None else wide(weight)
    return (wide(x) + share * (wide(end) - wide(x))).to(x.dtype)


@composite
def type_as(x: Tensor, other: Tensor) -> Tensor:
    return x.to(other.dtype)


@composite
def copy(x: Tensor) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format)


@composite
def transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    return copy(x.transpose(dim0, dim1))


@composite
def permute(x: Tensor, dims: list[int]) -> Tensor:
    return copy(x.permute(dims))


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    gate, up = wide(x).chunk(2, -1)
    return gate, up


@composite
def silu_and_mul(x: Tensor) -> Tensor:
    gate, up = _halves(x)
    return (F.silu(gate) * up).to(x.dtype)


@composite
def gelu_and_mul(x: Tensor) -> Tensor:
    gate, up = _halves(x)
    return (F.gelu(gate) * up).to(x.dtype)


@composite
def gelu_tanh_and_mul(x: Tensor) -> Tensor:
    gate, up = _halves(x)
    return (F.gelu(gate, approximate="tanh") * up).to(x.dtype)


@composite
def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return (F.silu(wide(gate)) * wide(up)).to(gate.dtype)
