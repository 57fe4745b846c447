"""Reductions and softmax over a dimension in the middle on a GPU: every way of dealing out columns,
by shapes that each of them takes (kernels/column_parts.h, column_sums.h)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tilewright.torch  # noqa: F401  makes torch.ops.tilewright
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
OPS = torch.ops.tilewright

SHAPES = {
    "a thread for each column": (16, 1024, 16, 64),
    "lanes that share rows": (4096, 33, 64),
    "as many lanes as there are": (64, 300, 1032),
    "a warp for each part": (300, 65, 33),
    "parts of two strides": (8, 40, 16, 256),
    "blocks of rows": (3, 5000, 72),
    "a program for each row": (4096, 7, 33),
    "one part": (9, 524288),
    "nothing": (0, 16, 64),
}
Function = Callable[[torch.Tensor, int], torch.Tensor]


def softmax_gradient(grad: torch.Tensor, output: torch.Tensor, dim: int) -> torch.Tensor:
    return output * (grad - (grad * output).sum(dim, keepdim=True))


def log_softmax_gradient(grad: torch.Tensor, output: torch.Tensor, dim: int) -> torch.Tensor:
    return grad - output.exp() * grad.sum(dim, keepdim=True)


FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "sum": (OPS.sum, torch.sum),
    "mean": (OPS.mean, torch.mean),
    "amax": (OPS.amax, torch.amax),
    "argmax": (OPS.argmax, torch.argmax),
    "count_nonzero": (OPS.count_nonzero, torch.count_nonzero),
    "variance": (lambda x, d: OPS.var_mean(x, d)[0], torch.var),
    "mean of var_mean": (lambda x, d: OPS.var_mean(x, d)[1], torch.mean),
    "amin": (lambda x, d: OPS.reduce(x, "amin", d), torch.amin),
    "norm1": (lambda x, d: OPS.reduce(x, "norm1", d), lambda x, d: x.abs().sum(d)),
    "norm2": (lambda x, d: OPS.reduce(x, "norm2", d), lambda x, d: x.square().sum(d).sqrt()),
    "logsumexp": (lambda x, d: OPS.reduce(x, "logsumexp", d), torch.logsumexp),
    "softmax": (OPS.softmax, torch.softmax),
    "log_softmax": (OPS.log_softmax, torch.log_softmax),
    "softmax_backward": (
        lambda x, d: OPS.softmax_backward(x.roll(1), x, d),
        lambda x, d: softmax_gradient(x.roll(1), x, d),
    ),
    "log_softmax_backward": (
        lambda x, d: OPS.log_softmax_backward(x.roll(1), x, d),
        lambda x, d: log_softmax_gradient(x.roll(1), x, d),
    ),
}
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 8e-3, torch.float16: 1e-3}


def drawn(name: str, dtype: torch.dtype) -> tuple[torch.Tensor, int]:
    """Few different numbers, of which none is alone the largest of many; and the dimension."""
    generator = torch.Generator(device="cuda").manual_seed(1)
    shape = SHAPES[name]
    x = torch.randint(-40, 41, shape, generator=generator, device="cuda").to(dtype) / 16
    dim = max(0, len(shape) - 2)
    if name == "parts of two strides":  # the leading dimensions are not one
        x = x.transpose(0, 1).contiguous().transpose(0, 1)[:, ::2]
    return x, dim


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_against_float64(function: str, name: str, dtype: torch.dtype) -> None:
    x, dim = drawn(name, dtype)
    ours, definition = FUNCTIONS[function]
    got, want = ours(x, dim), definition(x.double(), dim)
    assert got.shape == want.shape
    if function in ("argmax", "count_nonzero"):
        # Of equals PyTorch's argmax on a GPU may name any; ours names the first.
        want = want if function == "count_nonzero" else first_largest(x, dim)
        assert torch.equal(got, want)
    else:
        torch.testing.assert_close(got.double(), want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    assert torch.equal(got, ours(x, dim))


def first_largest(x: torch.Tensor, dim: int) -> torch.Tensor:
    places = torch.arange(x.shape[dim], device=x.device).view(-1, *[1] * (x.dim() - dim - 1))
    return torch.where(x == x.amax(dim, keepdim=True), places, x.shape[dim]).amin(dim)


@pytest.mark.parametrize("name", ["a thread for each column", "lanes that share rows"])
@pytest.mark.parametrize("function", ["sum", "amax", "argmax", "variance", "logsumexp", "softmax"])
def test_nan_is_told(function: str, name: str) -> None:
    x, dim = drawn(name, torch.float32)
    x.select(dim, x.shape[dim] - 1)[..., ::7] = torch.nan
    ours, definition = FUNCTIONS[function]
    got, want = ours(x, dim), definition(x.double(), dim)
    if function == "argmax":
        assert torch.equal(got[..., ::7], torch.full_like(got[..., ::7], x.shape[dim] - 1))
    else:
        assert torch.equal(got.isnan(), want.isnan())


@pytest.mark.parametrize("function", ["sum", "amax", "argmax", "norm2"])
def test_results_that_lie_apart(function: str) -> None:
    x, dim = drawn("a thread for each column", torch.bfloat16)
    want = FUNCTIONS[function][0](x, dim)
    out = torch.empty(*want.shape[:-1], 2 * want.shape[-1], device="cuda", dtype=want.dtype)[
        ..., ::2
    ]
    more = ["norm2"] if function == "norm2" else []
    getattr(OPS, "reduce" if more else function).out(x, *more, dim, out=out)
    assert torch.equal(out, want)


@pytest.mark.parametrize("function", ["softmax", "log_softmax"])
def test_rows_that_are_written_apart(function: str) -> None:
    x, dim = drawn("a thread for each column", torch.bfloat16)
    out = torch.full((2 * x.numel(),), 7, device="cuda", dtype=x.dtype)
    every_other = out[::2].view(x.shape)
    getattr(OPS, function).out(x, dim, out=every_other)
    want = FUNCTIONS[function][1](x.double(), dim)
    torch.testing.assert_close(every_other.double(), want, rtol=8e-3, atol=8e-3)
    assert (out[1::2] == 7).all()
