"""TileOPs' activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._tensors import check_representable, in_place, tensor


def _activation(
    name: str, meaning: str, function_name: str = "", *parameters: float
) -> Callable[..., torch.Tensor]:
    """An activation that may overwrite its argument."""
    operator = "activation" if function_name else name
    arguments: tuple[float | str, ...] = (function_name, *parameters) if function_name else ()

    @uses(operator)
    def function(input: torch.Tensor, *, inplace: bool = False) -> torch.Tensor:
        return _activate(operator, input, inplace, *arguments)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning
    return function


def _activate(
    operator: str, input: torch.Tensor, inplace: bool, *arguments: float | str
) -> torch.Tensor:
    if inplace:
        return in_place(operator, input, *arguments)
    return tensor(getattr(ops, operator)(input, *arguments))


@uses("activation")
def clamp_scalar(
    input: torch.Tensor, *, min: float | None = None, max: float | None = None
) -> torch.Tensor:
    """Input, but at least min and at most max."""
    if min is None and max is None:
        raise ValueError("clamp: one of min and max must be given")
    for bound in (min, max):
        if bound is not None:
            check_representable("clamp", bound, input.dtype)
    low, high = -math.inf if min is None else min, math.inf if max is None else max
    return tensor(ops.activation(input, "clamp", low, high))


relu = _activation("relu", "max(x, 0).")
silu = _activation("silu", "X * sigmoid(x).")
hardswish = _activation("hardswish", "X * hardsigmoid(x).", "hardswish")
hardsigmoid = _activation("hardsigmoid", "(x + 3) / 6 between 0 and 1.", "hardsigmoid")
mish = _activation("mish", "X * tanh(softplus(x)).", "mish")
selu = _activation(
    "selu", "The self-normalizing elu.", "elu", 1.6732632423543772, 1.0507009873554805
)


@uses("gelu")
def gelu(input: torch.Tensor, *, approximate: Literal["none", "tanh"] = "none") -> torch.Tensor:
    """GELU, exact or by tanh."""
    return tensor(ops.gelu(input, approximate))


@uses("activation")
def leaky_relu(
    input: torch.Tensor, *, negative_slope: float = 0.01, inplace: bool = False
) -> torch.Tensor:
    """X above 0, x * negative_slope below."""
    return _activate("activation", input, inplace, "leaky_relu", negative_slope)


@uses("activation")
def elu(input: torch.Tensor, *, alpha: float = 1.0, inplace: bool = False) -> torch.Tensor:
    """X above 0, alpha * (exp(x) - 1) below."""
    return _activate("activation", input, inplace, "elu", alpha, 1.0)


@uses("activation")
def hardtanh(
    input: torch.Tensor, *, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> torch.Tensor:
    """X between min_val and max_val."""
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val {min_val} is above max_val {max_val}")
    for bound in (min_val, max_val):
        check_representable("hardtanh", bound, input.dtype)
    return _activate("activation", input, inplace, "clamp", min_val, max_val)


@uses("activation")
def softplus(input: torch.Tensor, *, beta: float = 1.0, threshold: float = 20.0) -> torch.Tensor:
    """ln(1 + exp(beta * x)) / beta; x where beta * x is above the threshold."""
    return tensor(ops.activation(input, "softplus", beta, threshold))


@uses("activation")
def nan_to_num(
    input: torch.Tensor,
    *,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> torch.Tensor:
    """Numbers for NaN and the infinities: for these, the ends of the dtype's range if not given."""
    info = torch.finfo(input.dtype)
    high, low = info.max if posinf is None else posinf, info.min if neginf is None else neginf
    return tensor(ops.activation(input, "nan_to_num", nan, high, low))


__all__ = list(provided(vars()))
