"""The memory that kernels need meanwhile on a GPU comes from PyTorch's allocator."""

from __future__ import annotations

import pytest
import tilewright.torch  # noqa: F401 - makes torch.ops.tilewright
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
OPS = torch.ops.tilewright


def normal(*shape: int, seed: int) -> torch.Tensor:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(*shape, generator=generator, device="cuda", dtype=torch.bfloat16)


@pytest.fixture
def experts() -> tuple[torch.Tensor, ...]:
    """Of fused_experts, which needs memory for what is between its products."""
    chosen = torch.arange(66, device="cuda", dtype=torch.int32).view(33, 2) % 4
    weights = torch.ones(33, 2, device="cuda")
    return (normal(33, 64, seed=0), normal(4, 128, 64, seed=1), normal(4, 64, 64, seed=2),
            weights, chosen)  # fmt: skip


def count(name: str) -> int:
    return int(torch.cuda.memory_stats()[f"allocation.all.{name}"])


def test_a_call_allocates_more_than_its_result(experts: tuple[torch.Tensor, ...]) -> None:
    """And keeps nothing else."""
    OPS.fused_experts(*experts)
    before, alive = count("allocated"), count("current")
    out = OPS.fused_experts(*experts)
    assert count("allocated") - before > 1
    assert count("current") - alive == 1
    del out


def test_a_graph_has_workspaces_of_its_own_pool(experts: tuple[torch.Tensor, ...]) -> None:
    want = OPS.fused_experts(*experts)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = OPS.fused_experts(*experts)
    for _ in range(3):
        out.zero_()
        graph.replay()
        assert torch.equal(out, want)


def test_calls_on_two_streams_at_once_are_apart(experts: tuple[torch.Tensor, ...]) -> None:
    want = OPS.fused_experts(*experts)
    streams = [torch.cuda.Stream() for _ in range(2)]
    outs = []
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())
    for _ in range(20):
        for stream in streams:
            with torch.cuda.stream(stream):
                outs.append(OPS.fused_experts(*experts))
    torch.cuda.synchronize()
    assert all(torch.equal(out, want) for out in outs)
