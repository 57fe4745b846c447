"""Gradients where functions have corners, poles, ties and NaN: there, too, they are PyTorch's."""

from __future__ import annotations

import math

import pytest
import tilewright.torch  # noqa: F401 - registers the operators
import torch
import torch.nn.functional as F

OPS = torch.ops.tilewright
Tensor = torch.Tensor

inf, nan = math.inf, math.nan
POINTS = [-inf, -4.0, -3.0, -1.0, -0.0, 0.0, 0.5, 3.0, 4.0, inf, nan]
DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])


def compare(ours, theirs, *given: Tensor, bound: float = 1e-12) -> None:
    """The gradients of both, for a gradient of 2."""
    found = []
    for function in (ours, theirs):
        leaves = [g.clone().requires_grad_() for g in given]
        out = function(*leaves)
        out = out if isinstance(out, tuple) else (out,)
        found.append(torch.autograd.grad(out, leaves, [torch.full_like(o, 2) for o in out]))
    bound = {torch.float32: 1e-5, torch.bfloat16: 1.6e-2}.get(given[0].dtype, bound)
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, rtol=bound, atol=bound, equal_nan=True)


UNARY = "abs neg sign reciprocal sqrt rsqrt floor ceil trunc round sin cos expm1 log1p"


@DTYPES
@pytest.mark.parametrize("function", UNARY.split())
def test_unary(function: str, dtype: torch.dtype) -> None:
    points = torch.tensor(POINTS, dtype=dtype)
    compare(lambda x: OPS.unary(x, function), getattr(torch, function), points)


ACTIVATIONS = {
    "clamp": ((-3.0, 3.0, 0.0), lambda x: x.clamp(-3, 3)),
    "hardsigmoid": ((0.0, 0.0, 0.0), F.hardsigmoid),
    "hardswish": ((0.0, 0.0, 0.0), F.hardswish),
    "leaky_relu": ((0.25, 0.0, 0.0), lambda x: F.leaky_relu(x, 0.25)),
    "elu": ((1.5, 1.0, 0.0), lambda x: F.elu(x, 1.5)),
    "softplus": ((2.0, 8.0, 0.0), lambda x: F.softplus(x, 2, 8)),
    "nan_to_num": ((1.0, 2.0, 3.0), lambda x: torch.nan_to_num(x, 1, 2, 3)),
    "round": ((1.0, 0.0, 0.0), lambda x: x.round(decimals=1)),
}


@DTYPES
@pytest.mark.parametrize("function", ACTIVATIONS)
def test_activation(function: str, dtype: torch.dtype) -> None:
    given, theirs = ACTIVATIONS[function]
    # Of NaN PyTorch makes one thing or the other, by its place in a vector.
    points = POINTS[:-1] if function in ("hardswish", "elu") else POINTS
    points = torch.tensor(points, dtype=dtype)
    compare(lambda x: OPS.activation(x, function, *given), theirs, points, bound=1e-7)


BINARY = {
    "div": torch.div,
    "trunc_divide": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "floor_divide": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "remainder": torch.remainder,
    "pow": torch.pow,
}


@DTYPES
@pytest.mark.parametrize("function", [*BINARY, "maximum", "minimum"])
def test_binary(function: str, dtype: torch.dtype) -> None:
    x, other = torch.tensor([(a, b) for a in POINTS for b in POINTS], dtype=dtype).T.contiguous()
    if function in BINARY:
        compare(lambda a, b: OPS.binary(a, b, function), BINARY[function], x, other)
    else:
        compare(lambda a, b: OPS.extremum(a, b, function), getattr(torch, function), x, other)


ROWS = [
    [1.0, -3.0, 3.0, 2.0],
    [1.0, 1.0, 1.0, 1.0],
    [0.0, 0.0, 0.0, 0.0],
    [0.0, 2.0, 3.0, -4.0],
    [0.0, 2.0, 0.0, -4.0],
]
BROKEN = [[nan, 1.0, 2.0, 3.0], [-inf, -inf, -inf, -inf], [inf, 1.0, 2.0, 3.0]]
REDUCTIONS = {
    "amin": lambda x: x.amin(-1),
    "norm1": lambda x: torch.linalg.vector_norm(x, 1, -1),
    "norm2": lambda x: torch.linalg.vector_norm(x, 2, -1),
    "norm_inf": lambda x: torch.linalg.vector_norm(x, inf, -1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "prod": lambda x: x.prod(-1),
}


@DTYPES
@pytest.mark.parametrize("function", REDUCTIONS)
def test_reduce(function: str, dtype: torch.dtype) -> None:
    rows = torch.tensor(ROWS if function == "prod" else ROWS + BROKEN, dtype=dtype)
    compare(lambda x: OPS.reduce(x, function), REDUCTIONS[function], rows)


@DTYPES
@pytest.mark.parametrize("correction", [0, 1, 4, 5])
@pytest.mark.parametrize("root", [False, True])
def test_var_mean(root: bool, correction: int, dtype: torch.dtype) -> None:
    function = torch.std_mean if root else torch.var_mean
    rows = torch.tensor(ROWS, dtype=dtype)
    compare(
        lambda x: OPS.var_mean(x, -1, correction, root),
        lambda x: function(x, -1, correction=correction),
        rows,
    )


def test_one_of_var_and_mean() -> None:
    x = torch.randn(3, 7, dtype=torch.float64)
    for which in (0, 1):
        compare(
            lambda x, at=which: OPS.var_mean(x)[at],
            lambda x, at=which: torch.var_mean(x, -1)[at],
            x,
        )


@DTYPES
def test_products_up_to_zeros(dtype: torch.dtype) -> None:
    rows = torch.tensor(ROWS, dtype=dtype)
    compare(lambda x: OPS.scan(x, "prod"), lambda x: x.cumprod(-1), rows)


def test_what_was_broadcast_is_summed() -> None:
    x, y = torch.randn(4, 1, 5, dtype=torch.float64), torch.randn(3, 1, dtype=torch.float64)
    condition = torch.randn(3, 5) > 0
    compare(
        lambda a, b: OPS.where(condition, a, b), lambda a, b: torch.where(condition, a, b), x, y
    )
    compare(lambda a, b: OPS.binary(a, b, "div"), torch.div, x, y)
    w = torch.rand(5, dtype=torch.float64)
    compare(lambda a, b, c: OPS.lerp(a, b, c), torch.lerp, x, y.expand(4, 3, 5), w.expand(4, 3, 5))
    compare(lambda a, b: OPS.lerp(a, b, None, 0.25), lambda a, b: torch.lerp(a, b, 0.25), x, y)


def test_where_passes_no_infinity_on() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    out = OPS.where(torch.tensor([True, False]), x, torch.zeros(2))
    out.backward(torch.tensor([3.0, inf]))
    assert x.grad.tolist() == [3.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_slopes_of_gelu_far_from_zero(approximate: str, dtype: torch.dtype) -> None:
    """Where x^3 is infinite in float32, too, and what is not a number stays so."""
    far = torch.tensor([12.0, 100.0, 1e5, 1e13, 1e20, 3e38], dtype=dtype)
    x = torch.cat([far, -far, far.new_tensor([math.nan])])
    got = OPS.gelu_backward(torch.full_like(x, 3), x, approximate)
    assert got[:6].tolist() == [3.0] * 6
    assert got[6:12].abs().max() < 1e-28
    assert got[12].isnan()
