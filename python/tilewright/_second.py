"""Operators that compute gradients, in steps that can be differentiated again. Imports PyTorch.

Only a gradient that is itself recorded (create_graph=True) takes these; in half precision they are
computed in float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

Tensor = torch.Tensor


def _softmax(grad: Tensor, output: Tensor, dim: int = -1) -> Tensor:
    return output * (grad - (grad * output).sum(dim, keepdim=True))


def _log_softmax(grad: Tensor, output: Tensor, dim: int = -1) -> Tensor:
    return grad - output.exp() * grad.sum(dim, keepdim=True)


def _sum(grad: Tensor, x: Tensor, dim: int = -1) -> Tensor:
    return grad.unsqueeze(dim).expand(x.shape).contiguous()


def _mean(grad: Tensor, x: Tensor, dim: int = -1) -> Tensor:
    return _sum(grad / x.shape[dim], x, dim)


def _gelu(grad: Tensor, x: Tensor, approximate: str = "none") -> Tensor:
    if approximate == "none":
        density = torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        return grad * ((1 + torch.erf(x / math.sqrt(2))) / 2 + x * density)
    root, cube = math.sqrt(2 / math.pi), 0.044715
    t = torch.tanh(root * (x + cube * x**3))
    return grad * ((1 + t) + x * (1 - t * t) * root * (1 + 3 * cube * x * x)) / 2


def _silu(grad: Tensor, x: Tensor) -> Tensor:
    s = torch.sigmoid(x)
    return grad * s * (1 + x * (1 - s))


def _swiglu(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    return _silu(grad * up, gate), grad * gate * torch.sigmoid(gate)


def _silu_and_mul(grad: Tensor, x: Tensor) -> Tensor:
    return torch.cat(_swiglu(grad, *x.chunk(2, -1)), -1)


def _rows(x: Tensor) -> Tensor:
    """Summed over all but the last dimension."""
    return x.flatten(0, -2).sum(0) if x.dim() > 1 else x


def _rms_norm(
    grad: Tensor, x: Tensor, weight: Tensor, residual_grad: Any = None, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    normal, weighted = x * scale, grad * weight
    of_x = scale * (weighted - normal * (weighted * normal).mean(-1, keepdim=True))
    return of_x if residual_grad is None else of_x + residual_grad, _rows(grad * normal)


def _layer_norm(
    grad: Tensor, x: Tensor, weight: Any = None, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    centred = x - x.mean(-1, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    normal, weighted = centred * scale, grad if weight is None else grad * weight
    mean, projection = weighted.mean(-1, keepdim=True), (weighted * normal).mean(-1, keepdim=True)
    return scale * (weighted - mean - normal * projection), _rows(grad * normal), _rows(grad)


_ALL: dict[str, Callable[..., Any]] = {
    "erf": lambda grad, x: grad * torch.exp(-x * x) * (2 / math.sqrt(math.pi)),
    "gelu": _gelu,
    "layer_norm": _layer_norm,
    "log": lambda grad, x: grad / x,
    "log_softmax": _log_softmax,
    "mean": _mean,
    "relu": lambda grad, output: grad * (output > 0),
    "rms_norm": _rms_norm,
    "sigmoid": lambda grad, output: grad * output * (1 - output),
    "silu": _silu,
    "silu_and_mul": _silu_and_mul,
    "softmax": _softmax,
    "sum": _sum,
    "swiglu": _swiglu,
    "tanh": lambda grad, output: grad * (1 - output * output),
}
_OPTIONAL = {"layer_norm", "rms_norm"}  # of which the default overload has the first result alone


def _in_float(function: Callable[..., Any], first: bool, *given: Any) -> Any:
    dtype = given[0].dtype
    if dtype.itemsize == 2:
        given = tuple(x.float() if isinstance(x, Tensor) else x for x in given)
    made = function(*given)
    if first:
        return made[0].to(dtype)
    return tuple(x.to(dtype) for x in made) if isinstance(made, tuple) else made.to(dtype)


# By overload, as in `_in_steps`.
SECOND: dict[str, Callable[..., Any]] = {
    f"{name}_backward": functools.partial(_in_float, function, name in _OPTIONAL)
    for name, function in _ALL.items()
} | {f"{name}_backward.full": functools.partial(_in_float, _ALL[name], False) for name in _OPTIONAL}
