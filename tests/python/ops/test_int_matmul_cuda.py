"""Products of 8-bit integers on a GPU: sizes of several tiles, extremes, and operands that are
copied before they are multiplied."""

from __future__ import annotations

import pytest
import tilewright.torch  # makes torch.ops.tilewright
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
OPS = torch.ops.tilewright
# The tiles that kernels/gemm_int8_policy_sm90.h chooses: each of its builds, whole and not.
SIZES = [(1, 16, 4096, 4096), (1, 130, 4100, 4099), (3, 65, 200, 144), (1, 4096, 4096, 4096),
         (1, 8200, 8192, 1040), (2, 1000, 1010, 130), (1, 1, 1, 1), (4, 7, 5, 33)]  # fmt: skip


def drawn(*shape: int, extreme: bool = False) -> torch.Tensor:
    generator = torch.Generator(device="cuda").manual_seed(sum(shape))
    x = torch.randint(-128, 128, shape, generator=generator, device="cuda", dtype=torch.int8)
    return torch.where(x < 100, -128, 127).to(torch.int8) if extreme else x


def expected(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Float64 has all digits of these sums; those beyond 32 bits wrap around."""
    sums = (a.double() @ b.double()).to(torch.int64)
    return ((sums + 2**31) % 2**32 - 2**31).to(torch.int32)


def answered(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, str]:
    with tilewright.explain() as e:
        out = OPS.int_matmul(a, b)
    return out, e.records[-1].isa


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
def test_against_float64(size: tuple[int, int, int, int], extreme: bool, layout: str) -> None:
    batch, m, n, k = size
    a = drawn(batch, m, k, extreme=extreme)
    b = drawn(batch, n, k, extreme=extreme).mT
    a = a.mT.contiguous().mT if layout[0] == "t" else a
    b = b.contiguous() if layout[1] == "n" else b
    out, isa = answered(a, b)
    assert isa == "sm_90a" or torch.cuda.get_device_capability() != (9, 0)
    assert torch.equal(out, expected(a, b))


def test_views() -> None:
    """Rows at odd addresses, every other column, out by columns, one matrix for a whole batch."""
    a, b = drawn(3, 100, 301), drawn(3, 301, 140)
    for left, right in [(a[:, 1:, 1:], b[:, 1:]), (a[:, :, ::2], b[:, ::2, ::3]),
                        (a, b[:1].expand(3, -1, -1)), (a[1:2].expand(3, -1, -1), b)]:  # fmt: skip
        assert torch.equal(OPS.int_matmul(left, right), expected(left, right))
    turned = torch.empty(3, 140, 100, device="cuda", dtype=torch.int32).mT
    OPS.int_matmul.out(a, b, out=turned)
    assert torch.equal(turned, expected(a, b))


def test_nothing() -> None:
    assert OPS.int_matmul(drawn(2, 3, 0), drawn(2, 0, 5)).eq(0).all()
    assert OPS.int_matmul(drawn(2, 0, 4), drawn(2, 4, 5)).shape == (2, 0, 5)


def test_sums_wrap_around() -> None:
    a = torch.full((1, 20, 131088), -128, device="cuda", dtype=torch.int8)
    assert torch.equal(OPS.int_matmul(a, a.mT), expected(a, a.mT))


def test_against_pytorch() -> None:
    a, b = drawn(1, 512, 1024), drawn(1, 768, 1024).mT
    assert torch.equal(OPS.int_matmul(a, b)[0], torch._int_mm(a[0], b[0]))


def test_replays_of_a_graph() -> None:
    """By rows, which are copied into the stream's memory first."""
    a, b = drawn(1, 300, 1001), drawn(1, 1001, 500)
    once = OPS.int_matmul(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = OPS.int_matmul(a, b)
    for _ in range(5):
        out.zero_()
        graph.replay()
        assert torch.equal(out, once)
