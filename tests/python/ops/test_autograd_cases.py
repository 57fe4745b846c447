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


def gradients_alike(ours: Callable[..., Tensor], theirs: Callable[..., Tensor], *given: Tensor):
    """Values and gradients for all that asks for them; the other's in float64."""
    wide = [x.detach().double().requires_grad_(x.requires_grad) for x in given]
    got, want = ours(*given), theirs(*wide)
    tolerance = 1.6e-2 if got.dtype == torch.bfloat16 else 1e-5
    assert_close(got, want.to(got.dtype), tolerance)
    grad = torch.randn(got.shape).bfloat16()
    leaves, wide_leaves = ([x for x in xs if x.requires_grad] for xs in (given, wide))
    for g, w in zip(
        torch.autograd.grad(got, leaves, grad.to(got.dtype)),
        torch.autograd.grad(want, wide_leaves, grad.double()),
        strict=True,
    ):
        assert_close(g, w.to(g.dtype), 4 * tolerance)


@pytest.mark.parametrize("rotated", [4, 0])
def test_latent_attention(rotated) -> None:
    """Its cache included; lse is what the operator gives, which records nothing."""
    sizes = ((2, 3, 6, 8), (2, 3, 6, rotated), (2, 5, 2, 8), (2, 5, 2, rotated))
    q, q_pe, kv, k_pe = (torch.randn(size, requires_grad=True) for size in sizes)

    def theirs(q: Tensor, q_pe: Tensor, kv: Tensor, k_pe: Tensor) -> Tensor:
        queries, keys = torch.cat((q, q_pe), -1), torch.cat((kv, k_pe), -1)
        heads = [x.repeat_interleave(3, 2).transpose(1, 2) for x in (keys, kv)]
        sees = torch.ones(3, 5, dtype=torch.bool).tril(2)
        attended = F.scaled_dot_product_attention(queries.transpose(1, 2), *heads, sees)
        return attended.transpose(1, 2)

    gradients_alike(lambda *x: OPS.mla(*x, causal=True), theirs, q, q_pe, kv, k_pe)
    made = OPS.mla.full(q, q_pe, kv, k_pe, causal=True)
    with torch.no_grad():
        for g, w in zip(made, OPS.mla.full(q, q_pe, kv, k_pe, causal=True), strict=True):
            assert_close(g.detach(), w, 1e-5)
    with pytest.raises(ValueError, match="mla: "):
        OPS.mla(q, q_pe.bfloat16(), kv, k_pe)


@pytest.mark.parametrize(("iterations", "eps"), [(20, 0.0), (3, 0.02), (0, 0.0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sinkhorn(dtype, iterations, eps) -> None:
    def theirs(x: Tensor) -> Tensor:
        out = (x - x.max(-1, keepdim=True).values).exp()
        for _ in range(iterations):
            for dim in (2, 1):
                out = out / (out.sum(dim, keepdim=True) + eps)
        return out

    x = torch.randn(3, 4, 5).to(dtype).requires_grad_()
    gradients_alike(lambda x: OPS.sinkhorn(x, iterations, eps), theirs, x)
    with pytest.raises(ValueError, match="iterations = -1 must be at least 0"):
        OPS.sinkhorn(x, -1)


def test_type_as() -> None:
    x = torch.randn(3, 5, requires_grad=True)
    gradients_alike(lambda x: OPS.type_as(x, torch.ones(1).bfloat16()), lambda x: x, x)
    with pytest.raises(RuntimeError, match="type_as: no kernel takes x: f32"):
        OPS.type_as(x, torch.ones(1, dtype=torch.int32))
