"""Products of scaled 8-bit matrices on a GPU whose tiles are cut: sizes that the catalog's cases,
whose reference is float64 on a CPU, cannot have."""

from __future__ import annotations

import pytest
import tilewright.torch  # makes torch.ops.tilewright
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
OPS = torch.ops.tilewright
SIZES = [(1536, 2304, 1280), (1530, 2310, 1296), (4096, 4096, 4096), (2050, 2944, 7184)]


def operands(
    size: tuple[int, int, int], dtype: torch.dtype, block: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    m, n, k = size
    generator = torch.Generator(device="cuda").manual_seed(m)

    def drawn(*shape: int) -> torch.Tensor:
        x = torch.randn(*shape, generator=generator, device="cuda")
        return (x * 40).clamp(-127, 127).round().to(dtype) if dtype == torch.int8 else x.to(dtype)

    def scales(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator, device="cuda") + 0.5

    deep = -(-k // block)
    return drawn(m, k), drawn(1, n, k), scales(m, deep), scales(1, -(-n // block), deep)


def expected(a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor,
             block: int) -> torch.Tensor:  # fmt: skip
    wide = a_scale.double().repeat_interleave(block, 1)[:, : a.shape[1]]
    high = b_scale[0].double().repeat_interleave(block, 0)[: b.shape[1]]
    high = high.repeat_interleave(block, 1)[:, : a.shape[1]]
    return (a.double() * wide) @ (b[0].double() * high).mT


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.int8])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("block", [128, 8192])
def test_against_float64(size: tuple[int, int, int], dtype: torch.dtype, block: int) -> None:
    given = operands(size, dtype, block)
    want = expected(*given, block)
    with tilewright.explain() as e:
        out = OPS.scaled_grouped_matmul(*given, None, block, block)
    assert e.records[0].isa == "sm_90a" or torch.cuda.get_device_capability() != (9, 0)
    error = float((out.double() - want).norm() / want.norm())
    # The tensor cores keep some 14 bits of a sum of e4m3 products, and all of int8's.
    assert error < (1e-3 if dtype == torch.float8_e4m3fn else 1e-6)
    assert torch.equal(out, OPS.scaled_grouped_matmul(*given, None, block, block))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.int8])
def test_replays_of_a_graph(dtype: torch.dtype) -> None:
    given = operands(SIZES[0], dtype, 128)
    once = OPS.scaled_grouped_matmul(*given, None, 128, 128)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = OPS.scaled_grouped_matmul(*given, None, 128, 128)
    for _ in range(20):
        out.zero_()
        graph.replay()
        assert torch.equal(out, once)


def test_two_streams_at_once() -> None:
    given = operands(SIZES[0], torch.float8_e4m3fn, 128)
    once = OPS.scaled_grouped_matmul(*given, None, 128, 128)
    streams = [torch.cuda.Stream() for _ in range(3)]
    torch.cuda.synchronize()
    outs = []
    for _ in range(10):
        for stream in streams:
            with torch.cuda.stream(stream):
                outs.append(OPS.scaled_grouped_matmul(*given, None, 128, 128))
    torch.cuda.synchronize()
    assert all(torch.equal(out, once) for out in outs)
