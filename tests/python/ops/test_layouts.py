"""Operands that are permuted, have gaps or are broadcast, against PyTorch."""

from __future__ import annotations

import pytest
import tilewright.torch  # noqa: F401 - makes torch.ops.tilewright
import torch

Tensor = torch.Tensor
OPS = torch.ops.tilewright
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_cuda)]
DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int8]


def numbers(*shape: int, device: str, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-100, 100, shape, generator=generator).to(device, dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((3, 16, 200, 64), (0, 2, 3, 1)),
        ((2, 3, 61, 67), (0, 2, 3, 1)),
        ((2, 61, 67, 3), (0, 3, 1, 2)),
        ((3, 2, 197, 197), (0, 1, 3, 2)),
        ((8, 16, 8, 16, 32), (4, 3, 2, 1, 0)),
        ((3, 5, 7, 2, 9), (4, 3, 2, 1, 0)),
        ((2, 3, 2, 3, 2, 3, 2, 3), (7, 5, 3, 1, 6, 4, 2, 0)),
        ((10007, 7), (1, 0)),
        ((7, 10007), (1, 0)),
        ((40000, 2), (1, 0)),
        *(((3, 700, n), (0, 2, 1)) for n in (4, 5, 6, 8)),
        *(((2, n, 4100), (0, 2, 1)) for n in (2, 4, 5, 6, 8)),
        ((4096, 32), (1, 0)),
        ((320, 448), (1, 0)),
        ((40, 50, 3), (1, 0, 2)),
    ],
)
def test_permuted(
    shape: tuple[int, ...], dims: tuple[int, ...], dtype: torch.dtype, device: str
) -> None:
    x = numbers(*shape, device=device, dtype=dtype)
    want = x.permute(dims).contiguous()
    assert torch.equal(OPS.copy(x.permute(dims)), want)
    rows = x.numel() // shape[-1] - 1
    part = x.flatten()[1 : 1 + rows * shape[-1]].view(rows, shape[-1])  # not aligned
    assert torch.equal(OPS.copy(part.t()), part.t().contiguous())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("step", [2, 3, 5, 40])
def test_with_gaps(step: int, dtype: torch.dtype, device: str) -> None:
    x = numbers(130, 1500, device=device, dtype=dtype)
    for part in (
        x[:, ::step],
        x[:, 1::step],
        x[::step],
        x[:, 1:1300:step].t(),
        x.flatten()[::step],
    ):
        assert torch.equal(OPS.copy(part), part.contiguous())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(130, 1500), (64, 4096), (700, 72), (3, 128, 200), (1, 4100)])
def test_sums_of_operands_that_lie_differently(
    shape: tuple[int, ...], dtype: torch.dtype, device: str
) -> None:
    x, turned, wide = (
        numbers(*size, device=device, dtype=dtype, seed=i)
        for i, size in enumerate(
            (shape, (*shape[:-2], shape[-1], shape[-2]), (*shape[:-1], 2 * shape[-1]))
        )
    )
    others = (turned.mT, wide[..., ::2], wide[..., 1::2], x[..., :1], x[..., :1, :])
    for other in others:
        assert torch.equal(OPS.add(x, other), x + other)
        assert torch.equal(OPS.add(other, x), other + x)
        assert torch.equal(OPS.relu(other), torch.relu(other))
    assert torch.equal(OPS.add(turned.mT, others[1]), turned.mT + others[1])
    into = x.clone()
    OPS.add.out(into, turned.mT, out=into)
    assert torch.equal(into, x + turned.mT)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("columns", [49, 136, 4096])
def test_conditions_that_are_broadcast(columns: int, dtype: torch.dtype, device: str) -> None:
    x, other = (numbers(6, 4, 33, columns, device=device, dtype=dtype, seed=i) for i in range(2))
    holds = other > 0
    one = torch.full((1,), 7, device=device, dtype=dtype)
    for condition in (holds, holds[..., :1], holds[:, :1], holds[0, 0, :1]):
        for left, right in ((x, other[:1, :1, :1]), (x, one), (one, other), (x[..., :1], other)):
            want = torch.where(condition, left, right).expand(x.shape)
            got = OPS.where(condition, left, right).expand(x.shape)
            assert torch.equal(got, want)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("dim", "pairs"), [(80, 20), (64, 32), (128, 32), (66, 33), (64, 22)])
def test_rope(dim: int, pairs: int, interleaved: bool, dtype: torch.dtype, device: str) -> None:
    x = (numbers(2, 9, 6, dim + 4, device=device, dtype=dtype) / 100)[..., 2:-2]
    angle = torch.randn(9, pairs, generator=torch.Generator().manual_seed(1)).to(device)
    cos, sin = angle.cos(), angle.sin()
    for part in (x, x.contiguous(), x.contiguous()[:, :, 1:]):
        wide = part.double()
        turned = wide[..., : 2 * pairs]
        pair = turned.unflatten(-1, (pairs, 2) if interleaved else (2, pairs))
        a, b = pair.unbind(-1 if interleaved else -2)
        c, s = (table.double()[:, None] for table in (cos, sin))
        both = torch.stack((a * c - b * s, b * c + a * s), -1 if interleaved else -2).flatten(-2)
        want = torch.cat((both, wide[..., 2 * pairs :]), -1)
        got = OPS.rope(part, cos, sin, None, interleaved)
        bound = 1e-5 if dtype == torch.float32 else 1e-2
        torch.testing.assert_close(got.double(), want, rtol=bound, atol=bound)
