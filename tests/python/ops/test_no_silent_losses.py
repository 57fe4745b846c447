"""What PyTorch keeps account of, and a call could lose without a word."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright.torch  # makes torch.ops.tilewright
import torch

import tilewright
from tilewright import ops

OPS = torch.ops.tilewright


@pytest.mark.parametrize("name", ["exp", "sigmoid", "softmax"])
def test_hessians_in_forward_mode_are_refused(name: str) -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = getattr(OPS, name)(x).square().sum()
        return out

    x = torch.tensor([0.3, 0.7])
    with pytest.raises(NotImplementedError, match="no derivative in forward mode"):
        torch.func.hessian(loss)(x)
    with pytest.raises(NotImplementedError, match="no derivative in forward mode"):
        torch.func.jvp(torch.func.grad(loss), (x,), (torch.ones(2),))
    backwards = torch.func.jacrev(torch.func.jacrev(loss))(x)
    expected = torch.autograd.functional.hessian(loss, x)
    torch.testing.assert_close(backwards, expected)
    assert float(expected.abs().max()) > 0


def test_a_result_written_over_what_a_gradient_needs_is_noticed() -> None:
    w = torch.tensor([2.0, 3.0], requires_grad=True)
    y = w * 1
    z = y * y
    with torch.no_grad():
        OPS.exp.out(torch.zeros(2), out=y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(z.sum(), w)


def test_negative_views_are_read_as_what_they_are() -> None:
    negative = torch._neg_view(torch.ones(2))
    want = torch.full((2,), float(np.exp(-1)))
    torch.testing.assert_close(ops.exp(negative), want)
    torch.testing.assert_close(ops.exp(negative, backend="reference"), want)
    assert (ops.add(np.ones(2, np.float32), negative) == 0).all()


def test_composites_refuse_what_kernels_refuse() -> None:
    ones = torch.ones(2, 4)
    for call, kind, text in (
        (lambda: ops.exp(ones.int(), backend="torch"), NotImplementedError, "int32"),
        (lambda: ops.add(ones, ones.double(), backend="torch"), ValueError, "other is f64"),
        (lambda: ops.rms_norm(ones, torch.ones(1), backend="torch"), ValueError, "C = 4"),
    ):
        with pytest.raises(kind, match=text):
            call()


def test_an_implementation_must_be_callable() -> None:
    with pytest.raises(TypeError, match="must be callable"):
        tilewright.register_impl("exp", "cpu", 3)  # type: ignore[arg-type]


def test_losses_under_autocast_are_float32() -> None:
    x = torch.randn(4, 9).bfloat16().requires_grad_()
    target = torch.tensor([1, 2, 3, 4])
    with torch.autocast("cpu", torch.bfloat16):
        ours = OPS.cross_entropy(x, target)
        theirs = torch.nn.functional.cross_entropy(x, target)
    assert ours.dtype == theirs.dtype == torch.float32
    torch.testing.assert_close(ours, theirs)


class Lender:
    """All that DLPack asks for."""

    def __init__(self, array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
        self.array = array

    def __dlpack__(self, **named: object) -> object:
        return self.array.__dlpack__(**named)  # type: ignore[arg-type]

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_what_lends_its_memory_needs_nothing_else() -> None:
    with tilewright.explain() as e:
        out = ops.exp(Lender(np.zeros(3, np.float32)))
    assert (out == 1).all()
    assert e.records[0].kernel == "exp/cpu"
