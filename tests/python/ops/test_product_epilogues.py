"""What products do to their sums before they are rounded, against PyTorch in float64."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright.torch  # noqa: F401 - makes torch.ops.tilewright
import torch

from tilewright import ops

Tensor = torch.Tensor
TOLERANCE = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 1.6e-2}
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_cuda)]


def normal(*shape: int, device: str, dtype: torch.dtype, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(device, dtype)


def near(got: Tensor, want: Tensor, depth: int) -> None:
    """A sum of `depth` products of normal numbers is of the size of its root."""
    bound = TOLERANCE[got.dtype]
    assert got.shape == want.shape
    error = (got.double() - want).abs() / (want.abs() + depth**0.5)
    assert float(error.max()) <= bound


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "shape",  # of each of the builds for Hopper, and what they do not take
    [
        (2, 3, 5, 4),
        (1, 1, 512, 300),
        (1, 16, 512, 300),
        (1, 64, 1000, 264),
        (1, 300, 512, 1000),
        (1, 640, 72, 2048),
        (3, 515, 65, 777),
        (2, 700, 0, 40),
    ],
)
def test_addends_as_torch_baddbmm(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> None:
    batch, m, k, n = shape
    a = normal(batch, m, k, device=device, dtype=dtype)
    b = normal(batch, k, n, device=device, dtype=dtype, seed=1)
    whole = normal(batch, m, n, device=device, dtype=dtype, seed=2)
    turned = normal(batch, n, m, device=device, dtype=dtype, seed=3).mT
    spaced = normal(batch, m, 2 * n, device=device, dtype=dtype, seed=4)[..., ::2]
    row = normal(n, device=device, dtype=dtype, seed=5).expand(batch, m, n)
    column = normal(batch, m, 1, device=device, dtype=dtype, seed=6).expand(batch, m, n)
    for left in (a, a.mT.contiguous().mT):
        for right in (b, b.mT.contiguous().mT):
            for addend in (whole, turned, spaced, row, column):
                got = ops.matmul(left, right, 0.5, addend, -1.5)
                near(got, 0.5 * a.double() @ b.double() - 1.5 * addend.double(), max(k, 1))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_beta_of_zero_ignores_the_addend(dtype: torch.dtype, device: str) -> None:
    for m in (1, 200):
        a = normal(2, m, 64, device=device, dtype=dtype)
        b = normal(2, 64, 264, device=device, dtype=dtype, seed=1)
        nan = torch.full((2, m, 264), float("nan"), device=device, dtype=dtype)
        assert torch.equal(ops.matmul(a, b, 1, nan, 0), ops.matmul(a, b))
        assert bool(ops.matmul(a, b, 1, nan).isnan().all())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_addend_may_be_the_output(dtype: torch.dtype, device: str) -> None:
    for m in (1, 40, 600):
        a = normal(2, m, 72, device=device, dtype=dtype)
        b = normal(2, 72, 520, device=device, dtype=dtype, seed=1)
        addend = normal(2, m, 520, device=device, dtype=dtype, seed=2)
        want = ops.matmul(a, b, addend=addend)
        torch.ops.tilewright.matmul.out(a, b, 1, addend, 1, out=addend)
        assert torch.equal(addend, want)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_as_torch_baddbmm(device: str) -> None:
    shapes = ((2, 3, 5), (2, 5, 4), (3, 1))
    given = [
        normal(*shape, device=device, dtype=torch.float32, seed=i).requires_grad_()
        for i, shape in enumerate(shapes)
    ]
    a, b, addend = given
    got = ops.matmul(a, b, 0.5, addend, -3)
    want = torch.baddbmm(addend, a, b, alpha=0.5, beta=-3)
    torch.testing.assert_close(got, want)
    grad = normal(2, 3, 4, device=device, dtype=torch.float32, seed=9)
    torch.testing.assert_close(
        torch.autograd.grad(got, given, grad), torch.autograd.grad(want, given, grad)
    )


@pytest.mark.parametrize(
    ("left", "right", "added"),
    [
        ((3, 5), (5, 4), (4,)),
        ((3, 5), (5, 4), (3, 1)),
        ((5,), (5, 4), (1,)),
        ((5,), (5,), ()),
        ((2, 3, 5), (5,), (2, 1)),
        ((2, 1, 3, 5), (7, 5, 4), (7, 3, 4)),
        ((2, 3, 5), (2, 5, 4), (3, 4)),
        ((2, 3, 5), (5, 4), (2, 1, 4)),
    ],
)
def test_addends_broadcast_to_products_of_any_rank(
    left: tuple[int, ...], right: tuple[int, ...], added: tuple[int, ...]
) -> None:
    a, b, addend = torch.randn(left), torch.randn(right), torch.randn(added)
    want = 2 * (a @ b) + 3 * addend
    torch.testing.assert_close(ops.matmul(a, b, 2, addend, 3), want)
    numbers = [x.numpy() for x in (a, b, addend)]
    got = ops.matmul(*numbers[:2], 2, addend=numbers[2], beta=3)
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match=r"matmul: addend \(9,.*does not broadcast"):
        ops.matmul(a, b, addend=torch.zeros(9, *want.shape))


GATES = {
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
}


def gated(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    gate, up = torch.nn.functional.linear(x, weight, bias).chunk(2, -1)
    return GATES[activation](gate) * up


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 512, 264), (3, 65, 37), (50, 512, 200), (700, 72, 136), (200, 0, 24)]
)
def test_gated_layers(m: int, k: int, n: int, dtype: torch.dtype, device: str) -> None:
    x = normal(m, k, device=device, dtype=dtype)
    weight = normal(2 * n, k, device=device, dtype=dtype, seed=1) * max(k, 1) ** -0.5
    bias = normal(2 * n, device=device, dtype=dtype, seed=2)
    spaced = normal(m, 2 * k, device=device, dtype=dtype, seed=3)[:, ::2]
    for activation in GATES:
        for left in (x, spaced):
            for right in (weight, weight.T.contiguous().T):
                for shift in (None, bias, bias[:1].expand(2 * n)):
                    got = ops.gated_linear(left, right, shift, activation)
                    wide = [None if t is None else t.double() for t in (left, right, shift)]
                    near(got, gated(*wide, activation), 4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("activation", GATES)
def test_gradients_of_gated_layers(activation: str, device: str) -> None:
    shapes = ((2, 3, 8), (10, 8), (10,))
    given = [
        normal(*shape, device=device, dtype=torch.float32, seed=i).requires_grad_()
        for i, shape in enumerate(shapes)
    ]
    got, want = ops.gated_linear(*given, activation), gated(*given, activation)
    grad = normal(2, 3, 5, device=device, dtype=torch.float32, seed=9)
    torch.testing.assert_close(
        torch.autograd.grad(got, given, grad), torch.autograd.grad(want, given, grad)
    )
    exact = [t.detach() for t in given]
    torch.testing.assert_close(ops.gated_linear(*exact, activation), got.detach())


def scaled(x: Tensor, weight: Tensor, bias: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    return torch.nn.functional.silu((x @ weight.T) * rows[..., None] * columns + bias)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 512, 264), (3, 65, 37), (64, 512, 1000), (640, 72, 2048), (200, 0, 24)]
)
def test_scales_of_layers(m: int, k: int, n: int, dtype: torch.dtype, device: str) -> None:
    x = normal(m, k, device=device, dtype=dtype)
    weight = normal(n, k, device=device, dtype=dtype, seed=1) * max(k, 1) ** -0.5
    bias = normal(n, device=device, dtype=dtype, seed=2)
    rows = normal(2 * m, device=device, dtype=torch.float32, seed=3)[::2]
    columns = normal(n, device=device, dtype=torch.float32, seed=4)
    one = torch.ones((), device=device)
    for left in (x, x.T.contiguous().T):
        wide = [t.double() for t in (left, weight, bias)]
        for row, column in ((rows, columns), (rows, None), (None, columns), (one.expand(m), None)):
            got = ops.linear(left, weight, bias, None, "silu", row, column)
            factors = [one if t is None else t for t in (row, column)]
            factors[0] = factors[0].expand(m)
            near(got, scaled(*wide, *(t.double() for t in factors)), 4)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_scaled_layers(device: str) -> None:
    shapes = ((2, 3, 8), (5, 8), (5,), (2, 3), (5,))
    given = [
        normal(*shape, device=device, dtype=torch.float32, seed=i).requires_grad_()
        for i, shape in enumerate(shapes)
    ]
    x, weight, bias, rows, columns = given
    got, want = ops.linear(x, weight, bias, None, "silu", rows, columns), scaled(*given)
    grad = normal(2, 3, 5, device=device, dtype=torch.float32, seed=9)
    torch.testing.assert_close(
        torch.autograd.grad(got, given, grad), torch.autograd.grad(want, given, grad)
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("k", [1, 32])
def test_few_products_for_much_that_is_written(k: int, dtype: torch.dtype) -> None:
    """More than caches keep; exactly, of whole numbers, wherever rows begin and in place."""
    m, n = 4200, 4101
    generator = torch.Generator().manual_seed(0)
    a, b = (
        torch.randint(-4, 5, shape, generator=generator).to(dtype) for shape in ((m, k), (k, n))
    )
    exact = a.float() @ b.float()
    want = exact.to(dtype)
    for pitch in (n, 4160):
        memory = torch.full((m, pitch), torch.nan, dtype=dtype)
        out = memory[:, :n]
        torch.ops.tilewright.matmul.out(a[None], b[None], out=out[None])
        assert torch.equal(out, want)
        torch.ops.tilewright.matmul.out(a[None], b[None], 1, out[None], 1, out=out[None])
        assert torch.equal(out, (exact + want.float()).to(dtype))
        assert bool(memory[:, n:].isnan().all())
