"""TileOPs' elementwise operators."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._tensors import (
    call,
    check_representable,
    constant,
    dtype_of,
    tensor,
    widened,
)

_compare: Callable[..., torch.Tensor] = ops.compare
_Unary = Callable[[torch.Tensor], torch.Tensor]
_Binary = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _operator(name: str, meaning: str) -> _Unary:
    """An operator of the catalog that takes one tensor."""

    @uses(name)
    def function(input: torch.Tensor) -> torch.Tensor:
        return tensor(getattr(ops, name)(input))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning
    return function


def _gated(name: str, meaning: str) -> _Unary:
    """As _operator, of a tensor that TileOPs calls x."""

    @uses(name)
    def function(x: torch.Tensor) -> torch.Tensor:
        return tensor(getattr(ops, name)(x))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning
    return function


def _copied(x: torch.Tensor) -> torch.Tensor:
    """X in memory of its own, contiguous."""
    return x.clone(memory_format=torch.contiguous_format)


def _unary(name: str, meaning: str, of_integers: _Unary | None = None) -> _Unary:
    """One of the functions of `unary`; integers have one of their own, if any."""

    @uses("unary")
    def function(input: torch.Tensor) -> torch.Tensor:
        if of_integers is not None and not input.is_floating_point():
            return of_integers(input)
        return call("unary", input, name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning
    return function


def _binary(name: str, operator: str, function_name: str, meaning: str) -> _Binary:
    """One of the functions of an operator that takes two tensors."""

    @uses(operator)
    def function(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return call(operator, input, other, function_name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning
    return function


def _relation(name: str, relation: str, meaning: str) -> _Binary:
    @uses("compare")
    def function(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return tensor(_compare(widened(input), widened(other), relation))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning
    return function


exp = _operator("exp", "The exponential.")
log = _operator("log", "The natural logarithm.")
erf = _operator("erf", "The error function.")
tanh = _operator("tanh", "The hyperbolic tangent.")
sigmoid = _operator("sigmoid", "1 / (1 + exp(-x)).")
silu_and_mul = _gated("silu_and_mul", "silu(first half) * second half.")
gelu_and_mul = _gated("gelu_and_mul", "gelu(first half) * second half, by erf.")
gelu_tanh_and_mul = _gated("gelu_tanh_and_mul", "gelu(first half) * second half, by tanh.")

sqrt = _unary("sqrt", "The square root.")
rsqrt = _unary("rsqrt", "1 / sqrt(x).")
sin = _unary("sin", "The sine.")
cos = _unary("cos", "The cosine.")
log1p = _unary("log1p", "ln(1 + x).")
expm1 = _unary("expm1", "exp(x) - 1.")
floor = _unary("floor", "The largest whole number not above x.", _copied)
ceil = _unary("ceil", "The smallest whole number not below x.", _copied)
trunc = _unary("trunc", "The whole number next to x on the way to zero.", _copied)
neg = _unary("neg", "-x.", lambda x: _negated(widened(x)).to(x.dtype))
reciprocal = _unary("reciprocal", "1 / x.", lambda x: tensor(ops.unary(x.float(), "reciprocal")))
abs = _unary("abs", "The magnitude.", lambda x: call("extremum", x, _negated(x), "maximum"))


def _negated(x: torch.Tensor) -> torch.Tensor:
    """-x of integers, in a dtype that has negative numbers."""
    x = widened(x)
    return tensor(ops.mul(x, constant(x, -1)))


def _least(x: torch.Tensor) -> torch.Tensor:
    """-1, or 0 where there are no negative numbers."""
    return constant(x, 0 if x.dtype == torch.uint8 else -1)


@uses("unary", "activation")
def round(input: torch.Tensor, *, decimals: int = 0) -> torch.Tensor:
    """The nearest number with so many decimals, ties to even."""
    if not input.is_floating_point():
        if decimals:
            raise ValueError(f"round: {input.dtype} has no decimals, but decimals = {decimals}")
        return _copied(input)
    if decimals == 0:
        return tensor(ops.unary(input, "round"))
    return tensor(ops.activation(input, "round", decimals))


@uses("bitwise")
def bitwise_not(input: torch.Tensor) -> torch.Tensor:
    """The other bits."""
    if input.dtype == torch.bool:
        return logical_not(input)
    return call("bitwise", input, constant(widened(input), -1), "xor")


def _check_alpha(name: str, alpha: float, dtype: torch.dtype) -> None:
    if isinstance(alpha, float) and not dtype.is_floating_point:
        raise ValueError(f"{name}: alpha = {alpha} is a fraction, but input is {dtype}")
    check_representable(name, alpha, dtype)


@uses("add")
def add(input: torch.Tensor, other: torch.Tensor, *, alpha: float = 1) -> torch.Tensor:
    """Input + alpha * other."""
    _check_alpha("add", alpha, input.dtype)
    return call("add", input, other, alpha)


@uses("add")
def sub(input: torch.Tensor, other: torch.Tensor, *, alpha: float = 1) -> torch.Tensor:
    """Input - alpha * other."""
    if input.dtype == torch.bool:
        raise ValueError("sub: torch.bool, input's dtype is outside of numbers")
    _check_alpha("sub", alpha, input.dtype)
    return call("add", input, other, -alpha)


@uses("mul")
def mul(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Input * other."""
    return call("mul", input, other)


_ROUNDED = {None: "div", "trunc": "trunc_divide", "floor": "floor_divide"}


@uses("binary")
def div(
    input: torch.Tensor, other: torch.Tensor, *, rounding_mode: str | None = None
) -> torch.Tensor:
    """Input / other; to a whole number towards zero (trunc) or down (floor)."""
    if rounding_mode not in _ROUNDED:
        raise ValueError(f"div: rounding_mode must be None, trunc or floor, not {rounding_mode!r}")
    return call("binary", input, other, _ROUNDED[rounding_mode])


remainder = _binary("remainder", "binary", "remainder", "The rest, with the sign of other.")
floor_divide = _binary("floor_divide", "binary", "floor_divide", "The quotient, rounded down.")
maximum = _binary("maximum", "extremum", "maximum", "The larger, NaN if one is.")
minimum = _binary("minimum", "extremum", "minimum", "The smaller, NaN if one is.")
sign = _unary("sign", "-1, 0 or 1.", lambda x: minimum(maximum(x, _least(x)), constant(x, 1)))
bitwise_and = _binary("bitwise_and", "bitwise", "and", "The bits of both.")
bitwise_or = _binary("bitwise_or", "bitwise", "or", "The bits of either.")
bitwise_xor = _binary("bitwise_xor", "bitwise", "xor", "The bits of one alone.")
eq = _relation("eq", "eq", "Whether they are equal.")
ne = _relation("ne", "ne", "Whether they differ.")
lt = _relation("lt", "lt", "Whether input is less.")
le = _relation("le", "le", "Whether input is at most other.")
gt = _relation("gt", "gt", "Whether input is greater.")
ge = _relation("ge", "ge", "Whether input is at least other.")
logical_and = _relation("logical_and", "and", "Whether neither is 0.")
logical_or = _relation("logical_or", "or", "Whether one is not 0.")


@uses("compare")
def logical_not(input: torch.Tensor) -> torch.Tensor:
    """Whether it is 0."""
    x = widened(input)
    return tensor(ops.compare(x, constant(x, 0), "eq"))


@uses("compare")
def isnan(input: torch.Tensor) -> torch.Tensor:
    """Whether it is no number."""
    x = widened(input)
    return tensor(ops.compare(x, x, "ne"))


def _magnitude_compared(input: torch.Tensor, relation: str, of_integers: bool) -> torch.Tensor:
    if not input.is_floating_point():
        return input.new_full(input.shape, of_integers, dtype=torch.bool)
    return tensor(_compare(abs(input), constant(input, math.inf), relation))


@uses("unary", "compare")
def isinf(input: torch.Tensor) -> torch.Tensor:
    """Whether it is infinite."""
    return _magnitude_compared(input, "eq", False)


@uses("unary", "compare")
def isfinite(input: torch.Tensor) -> torch.Tensor:
    """Whether it is neither infinite nor NaN."""
    return _magnitude_compared(input, "lt", True)


@uses("binary")
def pow(input: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """Input to the power of exponent."""
    return tensor(ops.binary(input, exponent, "pow"))


@uses("binary")
def prelu(input: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """X above 0, x * weight below; a weight for all, or one for each channel of dimension 1."""
    channels = input.shape[1] if input.dim() > 1 else 1
    if weight.dim() > 1 or weight.numel() not in (1, channels):
        raise ValueError(f"prelu: weight {tuple(weight.shape)} does not fit {tuple(input.shape)}")
    shape = [1] * input.dim()
    if input.dim() > 1:
        shape[1] = -1
    return tensor(ops.binary(input, weight.reshape(shape), "prelu"))


@uses("where")
def where(condition: torch.Tensor, input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Input where the condition holds, else other."""
    return tensor(ops.where(condition, widened(input), widened(other))).to(input.dtype)


@uses("where")
def masked_fill(input: torch.Tensor, mask: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """`value`, a tensor without dimensions, where the mask holds, else input."""
    if value.dim() > 0:
        raise ValueError(f"masked_fill: value must have no dimensions, not {tuple(value.shape)}")
    return where(mask, value.to(input.dtype).reshape((1,) * input.dim()), input)


@uses("where")
def masked_fill_scalar(
    input: torch.Tensor, mask: torch.Tensor, *, value: float = 0.0
) -> torch.Tensor:
    """`value` where the mask holds, else input."""
    check_representable("masked_fill", value, input.dtype)
    return where(mask, constant(input, value), input)


@uses("lerp")
def lerp(input: torch.Tensor, end: torch.Tensor, *, weight: float = 0.5) -> torch.Tensor:
    """Input + weight * (end - input)."""
    return tensor(ops.lerp(input, end, None, weight))


@uses("lerp")
def lerp_tensor(input: torch.Tensor, end: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Input + weight * (end - input)."""
    return tensor(ops.lerp(input, end, weight))


@uses("extremum")
def clamp(
    input: torch.Tensor, min: torch.Tensor | None = None, max: torch.Tensor | None = None
) -> torch.Tensor:
    """Input, but at least min and at most max."""
    if min is None and max is None:
        raise ValueError("clamp: one of min and max must be given")
    out = input if min is None else maximum(input, min)
    return out if max is None else minimum(out, max)


@uses("dropout")
def dropout(
    input: torch.Tensor, *, p: float = 0.5, seed: int = 0, training: bool = True
) -> torch.Tensor:
    """Zeros with probability p, which ones by the seed; the rest divided by 1 - p."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p = {p} is no probability")
    return tensor(ops.dropout(input, p if training else 0.0, seed))


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@uses("unary", "mul")
def alibi(*, seq_len: int, num_heads: int, dtype: torch.dtype | str) -> torch.Tensor:
    """-slope * |i - j| [H, S, S], the slope of head h 2^(-8 (h + 1) / H)."""
    at = torch.arange(seq_len, dtype=torch.float32, device=_device())
    heads = torch.arange(1, num_heads + 1, dtype=torch.float32, device=at.device)
    slopes = -torch.exp2(heads * (-8.0 / num_heads))
    distance = abs(sub(at[:, None], at[None]))
    return tensor(ops.mul(slopes[:, None, None], distance[None])).to(dtype_of(dtype))


@uses("unary", "binary")
def sinusoidal(*, seq_len: int, d_model: int, dtype: torch.dtype | str) -> torch.Tensor:
    """Sines and cosines in turn of the positions [S, D], divided by 10000^(2 i / D)."""
    if d_model % 2:
        raise ValueError(f"sinusoidal: d_model must be even, not {d_model}")
    at = torch.arange(seq_len, dtype=torch.float32, device=_device())
    pairs = torch.arange(0, d_model, 2, dtype=torch.float32, device=at.device)
    angles = div(at[:, None], torch.pow(10000.0, pairs / d_model)[None])
    return torch.stack([sin(angles), cos(angles)], -1).flatten(-2).to(dtype_of(dtype))


__all__ = list(provided(vars()))
