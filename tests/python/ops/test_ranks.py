"""ops.matmul of arrays of any rank against torch.matmul."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tilewright
from tilewright import ops

SHAPES = [
    ((5,), (5,)),
    ((3, 5), (5,)),
    ((5,), (5, 4)),
    ((3, 5), (5, 4)),
    ((2, 3, 5), (5,)),
    ((2, 3, 5), (5, 4)),
    ((5,), (2, 5, 4)),
    ((3, 5), (2, 5, 4)),
    ((2, 3, 5), (2, 5, 4)),
    ((1, 3, 5), (6, 5, 4)),
    ((2, 1, 3, 5), (7, 5, 4)),
    ((2, 7, 3, 5), (2, 7, 5, 4)),
    ((2, 1, 3, 5), (5, 4)),
    ((0, 3, 5), (5, 4)),
    ((3, 0), (0, 4)),
    ((2, 3, 0), (0,)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_as_torch_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = torch.randn(left, requires_grad=True), torch.randn(right, requires_grad=True)
    want, out = torch.matmul(a, b), ops.matmul(a, b, 0.5)
    torch.testing.assert_close(out, 0.5 * want, check_stride=want.dim() > 0)
    grad = torch.randn(want.shape)
    wants = torch.autograd.grad(want, (a, b), grad)
    torch.testing.assert_close(torch.autograd.grad(out, (a, b), 2 * grad), wants)
    x, y = a.detach().numpy(), b.detach().numpy()
    np.testing.assert_allclose(ops.matmul(b=y, a=x), np.matmul(x, y), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
def test_is_one_graph(dynamic: bool) -> None:
    compiled = torch.compile(ops.matmul, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for left, right in (((3, 5), (5, 4)), ((2, 1, 3, 5), (7, 5, 4)), ((6, 5), (5,))):
        a, b = torch.randn(left), torch.randn(right)
        torch.testing.assert_close(compiled(a, b), a @ b)


def test_backends_and_views() -> None:
    a, b = torch.randn(4, 3).T, torch.randn(5, 4).T
    for backend in ("cpu", "reference", "torch"):
        with tilewright.explain() as e:
            torch.testing.assert_close(ops.matmul(a, b, backend=backend), a @ b)
        assert [r.backend for r in e.records] == [backend]


def test_what_has_no_product() -> None:
    for left, right, told in (
        ((3, 5), (4, 5), r"a \(3, 5\) and b \(4, 5\) have no product"),
        ((), (4,), "have no product"),
        ((2, 3, 5), (4, 5, 6), "do not broadcast"),
    ):
        with pytest.raises(ValueError, match=told):
            ops.matmul(torch.zeros(left), torch.zeros(right))
    half = torch.zeros(4, 5, dtype=torch.float16)
    with pytest.raises(ValueError, match=r"b is f16\[4, 5\]@cpu, but a is f32"):
        ops.matmul(torch.zeros(2, 3, 4), half)
    for kind in (torch.Tensor, np.ndarray):
        a, b = torch.zeros(2, 3, 4).int(), torch.zeros(4, 5).int()
        a, b = (a, b) if kind is torch.Tensor else (a.numpy(), b.numpy())
        told = r"takes a: i32\[2, 3, 4\]@cpu, b: i32\[4, 5\]@cpu, out: i32\[2, 3, 5\]@cpu;"
        with pytest.raises(NotImplementedError, match=told):
            ops.matmul(a, b)
    with pytest.raises(TypeError, match="b is missing"):
        ops.matmul(torch.zeros(2, 2))
    with pytest.raises(TypeError, match="a is given twice"):
        ops.matmul(torch.zeros(2, 2), torch.zeros(2, 2), a=torch.zeros(2, 2))
    with pytest.raises(TypeError, match="b must be an array, not list"):
        ops.matmul(torch.zeros(2, 2), [[1.0, 2.0]])
