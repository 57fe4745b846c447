"""What implementations of one's own return is checked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import tilewright
from tilewright import ops

X = torch.randn(2, 3)


@contextlib.contextmanager
def registered(
    op: str, forward: Callable[..., Any], backward: Callable[..., Any] | None = None
) -> Iterator[None]:
    tilewright.register_impl(op, "torch", forward, backward)
    try:
        yield
    finally:
        tilewright.unregister_impl(op, "torch")


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda x: x[0], r"returned out as float32\(3,\)@cpu, but expected is float32\(2, 3\)@cpu"),
        (lambda x: x.double(), r"out as float64\(2, 3\)@cpu, but expected is float32"),
        (lambda x: x.to("meta"), r"out as float32\(2, 3\)@meta, but"),
        (lambda x: x.numpy(), r"out as float32\(2, 3\)@cpu \(ndarray\), but .* of PyTorch"),
        (lambda x: (x, x), "returned 2 results, but expected is 1: out"),
        (lambda x: None, "out as None"),
    ],
)
def test_results(made: Callable[..., Any], told: str) -> None:
    with (
        registered("exp", made),
        pytest.raises(ValueError, match="exp: what is registered for backend torch") as caught,
    ):
        ops.exp(X, backend="torch")
    caught.match(told)


def test_results_of_several_kinds() -> None:
    wide = registered("exp", lambda x: np.exp(x).astype(np.float64))
    with wide, pytest.raises(ValueError, match="float64"):
        ops.exp(X.numpy(), backend="torch")
    with (
        registered("topk", lambda x, k, *_: tuple(torch.topk(x, k))),
        pytest.raises(ValueError, match="indices as int64"),
    ):
        ops.topk(X, 2, backend="torch")
    with registered("topk", lambda x, k, *_: [t[:, :k] for t in (x.sort().values, x.int())]):
        made = ops.topk(X, 2, backend="torch")
    assert isinstance(made, tuple)
    assert torch.equal(made[0], X.sort().values[:, :2])
    with registered("exp", torch.exp):  # of a dtype that the library lacks
        assert ops.exp(X.to(torch.complex64), backend="torch").dtype == torch.complex64


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda ctx, g: (g, g[0]), r"the gradient of other as float32\(3,\)@cpu, but"),
        (lambda ctx, g: (g.double(), g), "the gradient of x as float64"),
        (lambda ctx, g: (g, None), "the gradient of other as None, but expected is float32"),
        (lambda ctx, g: g, "the gradient of other as None"),
        (lambda ctx, g: (g, g, g), "a gradient of alpha, but expected is None, for it is no"),
        (lambda ctx, g: (g,) * 4, "4 gradients, but expected is one of each of x, other, alpha"),
    ],
)
def test_gradients(made: Callable[..., Any], told: str) -> None:
    x, other = (X.clone().requires_grad_() for _ in range(2))
    with registered("add", lambda x, other, alpha: x + alpha * other, made):
        out = ops.add(x, other, backend="torch")
    with pytest.raises(ValueError, match="add: what is registered for backend torch") as caught:
        out.sum().backward()
    caught.match(told)


def test_gradients_that_nothing_needs_may_be_none() -> None:
    x = X.clone().requires_grad_()
    with registered("add", lambda x, other, alpha: x + alpha * other, lambda ctx, g: (g, None)):
        ops.add(x, X, backend="torch").sum().backward()
    assert torch.equal(x.grad, torch.ones(2, 3))


def test_what_is_registered_is_listed() -> None:
    assert tilewright.registered_impls() == {}
    with registered("exp", torch.exp), registered("softmax", torch.softmax):
        listed = tilewright.registered_impls()
        assert set(listed) == {("exp", "torch"), ("softmax", "torch")}
        assert listed["exp", "torch"].forward is torch.exp
        listed.clear()  # a copy
        assert len(tilewright.registered_impls()) == 2
    assert tilewright.registered_impls() == {}
    with pytest.raises(ValueError, match="nothing is registered for exp on torch"):
        tilewright.unregister_impl("exp", "torch")
