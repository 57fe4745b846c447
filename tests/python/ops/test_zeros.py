"""The sign of zero, and what infinities and NaN become, of functions of two numbers."""

from __future__ import annotations

import math

import pytest
import tilewright.torch  # noqa: F401 - registers the operators
import torch

OPS = torch.ops.tilewright
NARROW = [torch.float32, torch.float16, torch.bfloat16]
ON_CPU = [(dtype, "cpu") for dtype in (torch.float64, *NARROW)]
PLACES = ON_CPU + [(dtype, "cuda") for dtype in NARROW if torch.cuda.is_available()]
VALUES = [0.0, -0.0, 1.0, -1.0, 0.125, -2.5, 7.0, 3e4, math.inf, -math.inf, math.nan]


def pairs(dtype: torch.dtype, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """All of them with all, more than once, so that there are whole vectors and a rest."""
    grid = torch.tensor(VALUES, dtype=dtype, device=device)
    both = torch.cartesian_prod(grid, grid).repeat(3, 1)
    return both[:, 0].contiguous(), both[:, 1].contiguous()


def same(got: torch.Tensor, want: torch.Tensor) -> bool:
    """Equal, zeros by their signs, and NaN where NaN is wanted."""
    number = ~want.isnan()
    signs = torch.equal(torch.signbit(got[number]), torch.signbit(want[number]))
    return signs and torch.equal(got.nan_to_num(nan=-5.0), want.nan_to_num(nan=-5.0))


@pytest.mark.parametrize(("dtype", "device"), PLACES, ids=str)
@pytest.mark.parametrize(("function", "mode"), [("floor_divide", "floor"), ("remainder", "")])
def test_whole_quotients_and_rests(function: str, mode: str, dtype, device: str) -> None:
    x, y = pairs(dtype, device)
    wide = (x.double().cpu(), y.double().cpu())
    want = torch.div(*wide, rounding_mode="floor") if mode else torch.remainder(*wide)
    assert same(OPS.binary(x, y, function).cpu(), want.to(dtype))


@pytest.mark.parametrize(("dtype", "device"), PLACES, ids=str)
@pytest.mark.parametrize("function", ["maximum", "minimum"])
def test_the_larger_zero_is_positive(function: str, dtype, device: str) -> None:
    """IEEE 754-2019; PyTorch's own differ from one device to another."""
    x, y = pairs(dtype, device)
    want = getattr(torch, function)(x.cpu(), y.cpu())
    both = (x.cpu() == 0) & (y.cpu() == 0)
    negative = torch.signbit(x.cpu()), torch.signbit(y.cpu())
    sign = negative[0] & negative[1] if function == "maximum" else negative[0] | negative[1]
    want[both] = torch.where(sign, -0.0, 0.0).to(dtype)[both]
    assert same(OPS.extremum(x, y, function).cpu(), want)


@pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
def test_whole_numbers_at_their_ends(device: str) -> None:
    ends = torch.tensor([-(2**31), 2**31 - 1, 0, -1, 1], dtype=torch.int32, device=device)
    x, y = torch.cartesian_prod(ends, ends).T.contiguous()
    for function in ("maximum", "minimum"):
        assert torch.equal(OPS.extremum(x, y, function), getattr(torch, function)(x, y))
