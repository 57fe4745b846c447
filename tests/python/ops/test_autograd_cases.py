"""Gradients in circumstances of their own: transforms, steps, infinities."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import tilewright.torch  # noqa: F401 - registers the operators
import torch
import torch.nn.functional as F
from cases import assert_close

OPS = torch.ops.tilewright
Tensor = torch.Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


def test_an_infinite_gradient_of_cross_entropy_is_infinite() -> None:
    x = torch.randn(2, 5, requires_grad=True)
    loss = OPS.cross_entropy(x, torch.tensor([3, 0]), reduction="none")
    loss.backward(torch.tensor([math.inf, -2.0]))
    assert torch.equal(x.grad[0], torch.tensor([1, 1, 1, -1, 1]) * math.inf)
    assert bool(x.grad[1].isfinite().all())


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_linear_layers_with_activations(activation) -> None:
    shapes = ((2, 3, 8), (5, 8), (5,), (2, 3, 5))
    given = [torch.randn(shape, requires_grad=True) for shape in shapes]
    x, weight, bias, residual = given
    got = OPS.linear(*given, activation)
    want = ACTIVATIONS[activation](F.linear(x, weight, bias)) + residual
    grad = torch.randn(2, 3, 5)
    for g, w in zip(
        torch.autograd.grad(got, given, grad), torch.autograd.grad(want, given, grad), strict=True
    ):
        assert_close(g, w, 1e-5)
    assert_close(got.detach(), OPS.linear(*(t.detach() for t in given), activation), 1e-5)


def test_transforms_of_torch_func() -> None:
    x, w = torch.randn(3, 8), torch.randn(8)

    def ours(x: Tensor, w: Tensor) -> Tensor:
        return OPS.rms_norm(x, w).square().sum()

    def theirs(x: Tensor, w: Tensor) -> Tensor:
        return F.rms_norm(x, (8,), w, 1e-6).square().sum()

    for g, t in zip(
        torch.func.grad(ours, (0, 1))(x, w), torch.func.grad(theirs, (0, 1))(x, w), strict=True
    ):
        assert_close(g, t, 1e-5)
    loss, pull = torch.func.vjp(ours, x, w)
    assert_close(pull(torch.ones(()))[0], torch.func.grad(theirs)(x, w), 1e-5)
    assert_close(loss, theirs(x, w), 1e-5)

    def twice(f: Callable[[Tensor], Tensor]) -> Tensor:
        return torch.func.grad(lambda x: torch.func.grad(lambda y: f(y).sum())(x).sum())(x)

    assert_close(twice(OPS.exp), twice(torch.exp), 1e-5)
    with pytest.warns(UserWarning, match="batching rule"):
        each = torch.func.vmap(torch.func.grad(ours), (0, None))(x, w)
    assert_close(each, torch.func.grad(theirs)(x, w), 1e-5)
    q, k = torch.randn(2, 5, 4, 8), torch.randn(2, 5, 2, 8)
    options = (None,) * 4  # the lse that the gradient needs is no result of the call
    got = torch.func.grad(lambda q: OPS.attention(q, k, k, *options).square().sum())(q)
    wide = q.clone().requires_grad_()
    OPS.attention(wide, k, k, *options).square().sum().backward()
    assert_close(got, wide.grad, 1e-5)
