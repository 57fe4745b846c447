"""TileOPs' elementwise operators and reductions against PyTorch, dtype by dtype."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from oracles import close, generator
from tilewright.compat import tileops

FLOATS = [torch.float32, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
SHAPES = [(3, 45), (2, 3, 4, 5), (1,), (), (3, 0)]


def numbers(shape, dtype, low=-4, high=4) -> torch.Tensor:
    drawn_by = generator(sum(shape))
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=drawn_by).bool()
    if not dtype.is_floating_point:
        low = 0 if dtype == torch.uint8 else low
        return torch.randint(low, high, shape, generator=drawn_by).to(dtype)
    return (torch.rand(shape, generator=drawn_by) * (high - low) + low).to(dtype)


def same(got: torch.Tensor, want: torch.Tensor) -> None:
    """As `close`, exact for what is no float."""
    assert got.dtype == want.dtype
    close(got, want)


MATH = {
    "abs": torch.abs,
    "neg": torch.neg,
    "sign": torch.sign,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "round": torch.round,
    "sin": torch.sin,
    "cos": torch.cos,
    "expm1": torch.expm1,
    "exp": torch.exp,
    "erf": torch.erf,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "isfinite": torch.isfinite,
    "logical_not": torch.logical_not,
    "relu": F.relu,
    "silu": F.silu,
    "gelu": F.gelu,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "mish": F.mish,
    "selu": F.selu,
    "elu": F.elu,
    "leaky_relu": F.leaky_relu,
    "hardtanh": F.hardtanh,
    "softplus": F.softplus,
    "nan_to_num": torch.nan_to_num,
}
POSITIVE = {"log": torch.log, "log1p": torch.log1p, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
            "reciprocal": torch.reciprocal}  # fmt: skip


def exactly(function, *arguments, **options) -> torch.Tensor:
    """PyTorch's result in float64, rounded once."""
    dtype = arguments[0].dtype
    wide = [a.double() if torch.is_tensor(a) and a.is_floating_point() else a for a in arguments]
    out = function(*wide, **options)
    return out.to(dtype) if out.dtype == torch.float64 else out


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", MATH)
def test_functions_of_one_number(name, dtype, shape) -> None:
    x = numbers(shape, dtype)
    same(getattr(tileops, name)(x), exactly(MATH[name], x))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", POSITIVE)
def test_functions_of_positive_numbers(name, dtype) -> None:
    x = numbers((7, 45), dtype, 0.01, 9)
    same(getattr(tileops, name)(x), exactly(POSITIVE[name], x))


@pytest.mark.parametrize("name", [*MATH, *POSITIVE])
def test_special_numbers(name) -> None:
    x = torch.tensor(
        [0.0, -0.0, math.nan, math.inf, -math.inf, 1e-30, -1e-30, 1e30, -1e30, 0.5, -1]
    )
    got, function = getattr(tileops, name)(x), {**MATH, **POSITIVE}[name]
    # In float32 PyTorch's gelu of infinity is NaN on some machines.
    want = exactly(function, x) if name == "gelu" else function(x)
    torch.testing.assert_close(got, want, equal_nan=True, rtol=1e-5, atol=1e-5)


def test_far_angles_and_digits() -> None:
    x = torch.tensor([1e4, -2e4, 1e5, 3e6, -1e9, 32768.0, 32767.5])
    close(tileops.sin(x), x.double().sin().float())
    close(tileops.cos(x), x.double().cos().float())
    x = numbers((99,), torch.float32)
    close(tileops.round(x, decimals=2), x.round(decimals=2))
    close(tileops.round(x * 1000, decimals=-2), (x * 1000).round(decimals=-2))
    with pytest.raises(ValueError, match="has no decimals"):
        tileops.round(torch.arange(3), decimals=1)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["abs", "neg", "sign", "floor", "ceil", "trunc", "round", "isnan",
                                  "isinf", "isfinite", "logical_not", "bitwise_not",
                                  "reciprocal"])  # fmt: skip
def test_integers(name, dtype) -> None:
    x = numbers((3, 45), dtype)
    if name == "reciprocal":
        x = x.abs() + 1
    same(getattr(tileops, name)(x), getattr(torch, name)(x))


@pytest.mark.parametrize("name", ["logical_not", "bitwise_not", "isnan", "isinf", "isfinite"])
def test_truths(name) -> None:
    x = numbers((3, 45), torch.bool)
    same(getattr(tileops, name)(x), getattr(torch, name)(x))


PARAMETERS = {
    "leaky_relu": (F.leaky_relu, {"negative_slope": 0.3}),
    "elu": (F.elu, {"alpha": 0.7}),
    "hardtanh": (F.hardtanh, {"min_val": -0.5, "max_val": 2.0}),
    "softplus": (F.softplus, {"beta": 2.0, "threshold": 1.0}),
    "gelu": (F.gelu, {"approximate": "tanh"}),
    "nan_to_num": (torch.nan_to_num, {"nan": 3.0, "posinf": 1.0, "neginf": -2.0}),
    "clamp_scalar": (torch.clamp, {"min": -0.5}),
    "silu": (F.silu, {}),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters(name, dtype) -> None:
    function, options = PARAMETERS[name]
    x = numbers((5, 33), dtype)
    x.view(-1)[:3] = torch.tensor([math.nan, math.inf, -math.inf]).to(dtype)
    torch.testing.assert_close(
        getattr(tileops, name)(x, **options), function(x, **options), equal_nan=True, rtol=1.6e-2
        if dtype == torch.bfloat16 else 1e-3, atol=1e-3,
    )  # fmt: skip


def test_in_place() -> None:
    for name in ("relu", "silu", "hardswish", "hardsigmoid", "mish", "selu", "elu", "leaky_relu",
                 "hardtanh"):  # fmt: skip
        x = numbers((3, 45), torch.float32)
        want = MATH[name](x)
        assert getattr(tileops, name)(x, inplace=True) is x
        close(x, want)


BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
}
OF_FLOATS = {
    "div": torch.div,
    "remainder": torch.remainder,
    "floor_divide": torch.floor_divide,
}
PAIRS = [((3, 45), (3, 45)), ((2, 3, 9), (3, 1)), ((4, 1, 5), (3, 1)), ((3, 0), (1,)), ((), (4,))]


@pytest.mark.parametrize("shapes", PAIRS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*BINARY, *OF_FLOATS])
def test_functions_of_two_numbers(name, dtype, shapes) -> None:
    x, y = numbers(shapes[0], dtype), numbers(shapes[1], dtype, 0.5, 3)
    want = exactly({**BINARY, **OF_FLOATS}[name], x, y)
    same(getattr(tileops, name)(x, y), want)


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool])
@pytest.mark.parametrize("name", BINARY)
def test_two_integers(name, dtype) -> None:
    if dtype == torch.bool and name == "sub":
        pytest.skip("PyTorch subtracts no truths")
    x, y = numbers((3, 45), dtype), numbers((45,), dtype)
    same(getattr(tileops, name)(x, y), BINARY[name](x, y))


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool])
@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits(name, dtype) -> None:
    x, y = numbers((3, 45), dtype), numbers((45,), dtype)
    same(getattr(tileops, name)(x, y), getattr(torch, name)(x, y))


def test_quotients_are_those_of_python() -> None:
    x = torch.tensor([7.0, -7.0, 7.0, -7.0, 6.0, 0.3, 1.0, -1.0, 5.0, 1e8])
    y = torch.tensor([2.0, 2.0, -2.0, -2.0, 3.0, 0.1, 0.0, 0.0, math.inf, 0.1])
    for mode in ("floor", "trunc"):
        assert torch.equal(tileops.div(x, y, rounding_mode=mode), x.div(y, rounding_mode=mode))
    torch.testing.assert_close(tileops.remainder(x, y), x.remainder(y), equal_nan=True)
    assert torch.equal(tileops.pow(x.abs(), y.abs()), x.abs().pow(y.abs()))
    with pytest.raises(ValueError, match="rounding_mode"):
        tileops.div(x, y, rounding_mode="up")


def test_slopes_of_channels() -> None:
    x, w = numbers((2, 3, 7), torch.float32), numbers((3,), torch.float32)
    close(tileops.prelu(x, w), F.prelu(x, w))
    close(tileops.prelu(x, w[:1]), F.prelu(x, w[:1]))
    close(tileops.prelu(x[0, 0], w[:1]), F.prelu(x[0, 0], w[:1]))
    with pytest.raises(ValueError, match="prelu: weight"):
        tileops.prelu(x, torch.ones(7))


def test_choices() -> None:
    for dtype in [*FLOATS, *INTEGERS, torch.bool]:
        x, mask = numbers((3, 1), dtype), numbers((3, 45), torch.bool)
        value = torch.tensor(1).to(dtype)
        same(tileops.masked_fill(x, mask, value), x.masked_fill(mask, value))
        same(tileops.masked_fill_scalar(x, mask, value=1), x.masked_fill(mask, 1))
    x, y = numbers((3, 45), torch.float16), numbers((45,), torch.float16, 0, 1)
    same(tileops.where(mask, x, y), torch.where(mask, x, y))
    same(tileops.lerp(x, y, weight=0.3), exactly(torch.lerp, x, y, weight=0.3))
    same(tileops.lerp_tensor(x, y, y), exactly(torch.lerp, x, y, y))
    same(tileops.clamp(x, y - 1, y), x.clamp(y - 1, y))
    same(tileops.clamp(x, max=y), x.clamp(max=y))
    with pytest.raises(ValueError, match="not representable in"):
        tileops.masked_fill_scalar(torch.ones(2, dtype=torch.int8), torch.ones(2).bool(), value=300)
    with pytest.raises(ValueError, match="one of min and max"):
        tileops.clamp(x)
    with pytest.raises(ValueError, match="one of min and max"):
        tileops.clamp_scalar(x)
    with pytest.raises(ValueError, match="is a fraction"):
        tileops.add(torch.arange(3), torch.arange(3), alpha=0.5)


def test_tables() -> None:
    got = tileops.alibi(seq_len=9, num_heads=4, dtype=torch.float32)
    at = torch.arange(9)
    slopes = 2.0 ** (-8.0 * (torch.arange(4) + 1) / 4)
    close(got.cpu(), -slopes[:, None, None] * (at[:, None] - at).abs())
    got = tileops.sinusoidal(seq_len=50, d_model=16, dtype=torch.float16)
    angles = torch.arange(50)[:, None] / 10000.0 ** (torch.arange(0, 16, 2).double() / 16)
    close(got.cpu(), torch.stack([angles.sin(), angles.cos()], -1).flatten(1).half())
    for table in (
        tileops.alibi(seq_len=3, num_heads=2, dtype="bfloat16"),
        tileops.sinusoidal(seq_len=3, d_model=2, dtype="bfloat16"),
    ):
        assert table.dtype == torch.bfloat16


REDUCTIONS = {
    "sum": torch.sum,
    "mean": torch.mean,
    "amax": torch.amax,
    "amin": torch.amin,
    "var": torch.var,
    "std": torch.std,
    "l1_norm": lambda x, **o: torch.linalg.vector_norm(x, 1, **o),
    "l2_norm": lambda x, **o: torch.linalg.vector_norm(x, 2, **o),
    "inf_norm": lambda x, **o: torch.linalg.vector_norm(x, math.inf, **o),
}
DIMS = [None, 0, -1, (0, 2), [1, -1], (0, 1, 2)]


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", DIMS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, dtype, dim, keepdim) -> None:
    x = numbers((3, 5, 33), dtype)
    got = getattr(tileops, name)(x, dim=dim, keepdim=keepdim)
    if name in ("var", "std", "l1_norm", "l2_norm", "inf_norm") or dim is not None:
        want = REDUCTIONS[name](x.double(), dim=dim, keepdim=keepdim)
    else:
        want = REDUCTIONS[name](x.double(), dim=(0, 1, 2), keepdim=keepdim)
    close(got, want.to(dtype))


def test_other_reductions() -> None:
    x = numbers((3, 5, 33), torch.float32)
    close(tileops.prod(x, dim=0), x.prod(0))
    close(tileops.log_sum_exp(x, dim=[0, 2], keepdim=True), x.logsumexp([0, 2], True))
    var, mean = tileops.var_mean(x, dim=1, correction=0)
    close(var, x.var(1, correction=0))
    close(mean, x.mean(1))
    for dim in (None, 1):
        same(tileops.argmin(x, dim=dim, keepdim=True), x.argmin(dim, True))
        same(tileops.argmax(x, dim=dim), x.argmax(dim))
    close(tileops.cumsum(x, dim=1), x.cumsum(1))
    close(tileops.cumprod(x), x.cumprod(-1))
    one = torch.tensor(3.0)
    for name in ("sum", "amin", "l2_norm", "cumsum", "var_mean"):
        got = getattr(tileops, name)(one)
        assert (got[1] if isinstance(got, tuple) else got).shape == ()
    infinite = torch.tensor([[math.inf, 1.0], [-math.inf, -math.inf], [math.nan, 1.0]])
    torch.testing.assert_close(
        tileops.log_sum_exp(infinite), infinite.logsumexp(-1), equal_nan=True
    )
    with pytest.raises(IndexError, match="no dimension 3"):
        tileops.sum(x, dim=3)
    with pytest.raises(ValueError, match="stands twice"):
        tileops.sum(x, dim=(0, -3))
    with pytest.raises(ValueError, match="ord must be 2"):
        tileops.l2_norm(x, ord=1)


@pytest.mark.parametrize("dim", DIMS, ids=str)
@pytest.mark.parametrize("dtype", [*FLOATS, torch.bool, torch.int32, torch.int64, torch.complex64])
def test_truth_of_some_and_of_all(dtype, dim) -> None:
    x = torch.randint(0, 2, (2, 3, 4)).to(dtype)
    x[0] = 1
    same(tileops.any(x, dim=dim, keepdim=True), torch.any(x, dim=dim, keepdim=True))
    same(tileops.all(x, dim=dim), torch.all(x, dim=dim))
    same(tileops.count_nonzero(x, dim=dim), torch.count_nonzero(x, dim=dim))
    same(tileops.any(x, dim=()), torch.any(x, dim=()))
    empty = x[:, :, :0]
    same(tileops.all(empty, dim=-1), torch.all(empty, dim=-1))


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round", "isfinite", "isinf", "abs"])
def test_integers_with_strides_come_back_contiguous(name) -> None:
    x = torch.arange(-6, 6, dtype=torch.int32).view(3, 4).T
    out = getattr(tileops, name)(x)
    assert out.is_contiguous()
    assert torch.equal(out, getattr(torch, name)(x))
