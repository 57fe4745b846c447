"""Tensors on several GPUs: each call runs where its tensors are, whichever device is current."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import tilewright.torch  # noqa: F401 - registers the operators
import torch
from cases import Case, bits, every_case

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")

OPS = torch.ops.tilewright
CASES = [case for case in every_case() if case.is_on_cuda and case.is_last]


def normal(*shape: int, device: str, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(device, torch.bfloat16)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_on_another_gpu(case: Case) -> None:
    """While the first one is the current device, and stays so."""
    want = bits(case, case.arguments(device="cuda:0"))
    got = bits(case, case.arguments(device="cuda:1"))
    assert torch.cuda.current_device() == 0
    for g, w in zip(got, want, strict=True):
        assert g.device.index == 1
        assert torch.equal(g.cpu(), w.cpu())


@pytest.mark.parametrize("is_current", [False, True])
def test_threads_each_with_a_gpu(is_current: bool) -> None:
    """Both work through the catalog at once; a new thread's current device is the first one."""
    cases = [case for case in CASES if case.combo == 0]
    want = [[w.cpu() for w in bits(case, case.arguments(device="cuda:0"))] for case in cases]
    begin = threading.Barrier(2)

    def wrong(index: int) -> list[str]:
        given = [case.arguments(device=f"cuda:{index}") for case in cases]
        begin.wait(timeout=60)
        out = []
        with torch.cuda.device(index) if is_current else contextlib.nullcontext():
            for _ in range(3):
                got = [bits(*call) for call in zip(cases, given, strict=True)]
                for case, g, w in zip(cases, got, want, strict=True):
                    if not all(torch.equal(x.cpu(), y) for x, y in zip(g, w, strict=True)):
                        out.append(str(case))
        return out

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(wrong, range(2))) == [[], []]


def test_goes_into_the_stream_of_its_gpu() -> None:
    """Which is that of no other, nor the default one."""
    stream = torch.cuda.Stream(device=1)
    x = torch.zeros(1 << 24, device="cuda:1")
    torch.cuda.synchronize(1)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)  # what follows in this stream comes much later
        x.fill_(-1)
        with torch.cuda.device(0):
            out = OPS.relu(x)
        x.fill_(2)
    stream.synchronize()
    assert (out == 0).all()


def test_workspaces_lie_on_its_gpu() -> None:
    chosen = torch.arange(66, device="cuda:1", dtype=torch.int32).view(33, 2) % 4
    experts = [normal(*shape, device="cuda:1") for shape in ((33, 64), (4, 128, 64), (4, 64, 64))]
    weights = torch.ones(33, 2, device="cuda:1")
    before = torch.cuda.memory_stats(0).get("allocation.all.allocated", 0)
    on_its_own = torch.cuda.memory_stats(1)["allocation.all.allocated"]
    OPS.fused_experts(*experts, weights, chosen)
    assert torch.cuda.memory_stats(0).get("allocation.all.allocated", 0) == before
    assert torch.cuda.memory_stats(1)["allocation.all.allocated"] - on_its_own > 1


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("current", [0, 1])
def test_refuses_tensors_of_two_gpus(first: int, current: int) -> None:
    x, weight = normal(2, 8, device=f"cuda:{first}"), normal(8, device=f"cuda:{1 - first}")
    told = rf"weight is bf16\[8\]@cuda:{1 - first}, but x is bf16\[2, 8\]@cuda:{first}"
    with torch.cuda.device(current), pytest.raises(ValueError, match=told):
        OPS.rms_norm(x, weight)
    with pytest.raises(ValueError, match="all must be on one device"):
        OPS.rms_norm.out(x, weight.to(x.device), out=torch.empty_like(x, device=weight.device))
