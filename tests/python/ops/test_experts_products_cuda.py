"""Products of experts on a GPU: rows gathered, gated and un-permuted, in sizes that the catalog's
cases, whose reference is float64 on a CPU, cannot have."""

from __future__ import annotations

import functools

import pytest
import tilewright.torch  # makes torch.ops.tilewright
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
OPS = torch.ops.tilewright
IS_HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
# Experts, rows, n, k. Fewer than 64, fewer than 128 and more rows for an expert.
SIZES = [(16, 700, 256, 1024), (8, 800, 320, 1040), (8, 4000, 512, 1536)]
sized = pytest.mark.parametrize("size", SIZES)
# What the tensor cores add up of e4m3 has some 14 bits, bf16 has 8.
MOST = {torch.float32: 1e-3, torch.bfloat16: 4e-3, torch.float16: 5e-4}


class Experts:
    """Rows of a, chosen at random, for random groups with gaps, and their matrices."""

    def __init__(self, size: tuple[int, int, int, int], matrices: int, dtype: torch.dtype) -> None:
        experts, count, n, k = size
        self.draw = torch.Generator(device="cuda").manual_seed(count)
        self.a = self.normal(count // 2, k).to(dtype)
        self.b = self.normal(experts, matrices * n, k).to(dtype)
        deep, high = -(-k // 128), -(-matrices * n // 128)
        self.a_scale = self.scales(count // 2, deep)
        self.b_scale = self.scales(experts, high, deep)
        self.rows = self.below(count // 2, count)
        ends = self.below(count, experts).sort().values
        gaps = self.below(3, experts)
        before = torch.nn.functional.pad(ends, (1, 0))[:-1]
        self.ends, self.starts = ends, torch.minimum(before + gaps, ends).int()
        self.order = torch.randperm(count, generator=self.draw, device="cuda").int()
        self.weights = self.scales(count)

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.draw, device="cuda")

    def scales(self, *shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=self.draw, device="cuda") + 0.5

    def below(self, most: int, count: int) -> torch.Tensor:
        drawn = torch.randint(0, most, (count,), generator=self.draw, device="cuda")
        return drawn.to(torch.int32)

    @functools.cached_property
    def gathered(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The chosen rows and their scales, in memory."""
        numbers = self.rows.long()
        a = self.a.view(torch.uint8)[numbers].view(self.a.dtype)
        return a, self.a_scale[numbers].contiguous()

    def want(self, scaled: bool) -> torch.Tensor:
        """The products, in float64."""
        numbers, k = self.rows.long(), self.a.shape[1]
        a = self.a.double()[numbers]
        if scaled:
            a = a * self.a_scale[numbers].double().repeat_interleave(128, 1)[:, :k]
        out = a.new_zeros(len(numbers), self.b.shape[1])
        for group, (begin, end) in enumerate(
            zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        ):
            b = self.b[group].double()
            if scaled:
                scale = self.b_scale[group].double().repeat_interleave(128, 0)[: len(b)]
                b = b * scale.repeat_interleave(128, 1)[:, :k]
            out[begin:end] = a[begin:end] @ b.mT
        return out


def agrees(out: torch.Tensor, want: torch.Tensor) -> None:
    error = float((out.double() - want).norm() / want.norm())
    assert error < MOST[out.dtype]
    assert (out[(want == 0).all(-1)] == 0).all()


def answered(e: tilewright.explain) -> None:
    assert e.records[-1].isa == "sm_90a" or not IS_HOPPER


@sized
def test_gathered(size: tuple[int, int, int, int]) -> None:
    given = Experts(size, 1, torch.float8_e4m3fn)
    scales = (given.a_scale, given.b_scale)
    with tilewright.explain() as e:
        out = OPS.scaled_grouped_matmul(
            given.a, given.b, *scales, given.ends, 128, 128, given.starts, given.rows
        )
    answered(e)
    agrees(out, given.want(True))
    a, a_scale = given.gathered
    before = OPS.scaled_grouped_matmul(
        a, given.b, a_scale, given.b_scale, given.ends, 128, 128, given.starts
    )
    agrees(before, given.want(True))


@pytest.mark.parametrize("gathers", [False, True])
@sized
def test_gated(size: tuple[int, int, int, int], gathers: bool) -> None:
    given = Experts(size, 2, torch.float8_e4m3fn)
    gate, up = given.want(True).chunk(2, -1)
    a, a_scale = (given.a, given.a_scale) if gathers else given.gathered
    rows = given.rows if gathers else None
    with tilewright.explain() as e:
        out = OPS.scaled_grouped_gated_matmul(
            a, given.b, a_scale, given.b_scale, given.ends, given.starts, rows
        )
    answered(e)
    agrees(out, torch.nn.functional.silu(gate) * up)
    again = OPS.scaled_grouped_gated_matmul(
        a, given.b, a_scale, given.b_scale, given.ends, given.starts, rows
    )
    assert torch.equal(out, again)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.bfloat16, torch.float16])
@sized
def test_unpermuted(size: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    given = Experts(size, 1, dtype)
    scaled = dtype == torch.float8_e4m3fn
    a, a_scale = given.gathered

    def product(*unpermuting: torch.Tensor | int | None) -> torch.Tensor:
        if scaled:
            return OPS.scaled_grouped_matmul_unpermute(
                a, given.b, a_scale, given.b_scale, given.ends, given.starts, *unpermuting
            )
        return OPS.grouped_matmul_unpermute(a, given.b.mT, given.ends, given.starts, *unpermuting)

    order = given.order.long()
    with tilewright.explain() as e:
        weighted = product(given.order, given.weights)
    answered(e)
    want = torch.empty_like(given.want(scaled))
    want[order] = given.want(scaled)
    agrees(weighted, want * given.weights.double()[:, None])

    moved, plain = product(given.order), product()
    assert torch.equal(moved[order], plain)
    if not scaled:
        assert torch.equal(plain, OPS.grouped_matmul(a, given.b.mT, given.ends, given.starts))
    kept = len(order) // 2
    assert torch.equal(product(given.order, None, kept), moved[:kept])


def test_groups_change_between_replays() -> None:
    given = Experts(SIZES[0], 2, torch.float8_e4m3fn)

    def both() -> tuple[torch.Tensor, torch.Tensor]:
        made = OPS.scaled_grouped_gated_matmul(
            given.a, given.b, given.a_scale, given.b_scale, given.ends, None, given.rows
        )
        a, a_scale = given.gathered
        out = OPS.scaled_grouped_matmul_unpermute(
            a, given.b, a_scale, given.b_scale, given.ends, None, given.order, given.weights
        )
        return made, out

    both()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made, out = both()
    for shift in (0, 5, 300):
        given.ends.copy_((given.ends - shift).clamp(min=0))
        given.order.copy_(given.order.roll(shift))
        graph.replay()
        for got, want in zip((made, out), both(), strict=True):
            assert torch.equal(got, want)
