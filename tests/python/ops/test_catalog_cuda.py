"""The whole catalog on a GPU: as on the CPU, the same bits again, and those in graphs."""

from __future__ import annotations

import functools
import threading

import pytest
import tilewright.torch  # noqa: F401 - registers the operators
import torch
from cases import Case, as_bits, assert_close, bits, every_case, has_cpu_kernels, overload, results

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

OPS = torch.ops.tilewright
CASES = [case for case in every_case() if case.is_on_cuda]


EIGHT_BITS = 0.13  # between neighbours of e4m3
SMALL = 1 << 20  # PyTorch keeps allocations of up to so many bytes apart from larger ones
LEAST = [64 << 20, *[SMALL] * 8]  # what calls may take even if nothing was given back before


def take(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def unused_memory() -> list[torch.Tensor]:
    """Everything that PyTorch's allocator would give out in this stream before it asks for more."""
    taken, sizes = [take(size) for size in LEAST], []
    stream = torch.cuda.current_stream().cuda_stream
    for segment in torch.cuda.memory_snapshot():
        place = (segment["device"], segment["stream"], tuple(segment["segment_pool_id"]))
        if place != (torch.cuda.current_device(), stream, (0, 0)):
            continue  # another GPU's or stream's, or a graph's
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                continue
            whole = SMALL if segment["segment_type"] == "small" else block["size"]
            count, rest = divmod(block["size"], whole)
            sizes += [*[whole] * count, *[rest] * (rest > 0)]
    reserved = torch.cuda.memory_reserved()
    # Each gets the smallest block that suffices: from the largest on, one of just its size.
    taken += [take(size) for size in sorted(sizes, reverse=True)]
    assert torch.cuda.memory_reserved() == reserved, "some of it was left out"
    return taken


def fill_unused_memory(byte: int) -> None:
    """What operators take next, workspaces and outputs, holds this: 0xFF makes NaN of floats."""
    for block in unused_memory():
        block.fill_(byte)


def test_memory_that_is_taken_next_is_filled() -> None:
    """So that a kernel that reads its workspace before it has written there is found out."""
    alive = [take(size) for size in (3, 5 << 20, 700_000, 20 << 20, 9000)]  # gaps between blocks
    del alive[::2]
    fill_unused_memory(0)
    fill_unused_memory(0xFF)
    reserved = torch.cuda.memory_reserved()
    sizes = (1, 512, 5000, SMALL - 1, SMALL, SMALL + 1, 3 << 20, 11 << 20, 30 << 20)
    taken = [take(size) for size in sizes]
    assert torch.cuda.memory_reserved() == reserved
    for block in taken:
        assert int(block.min()) == 0xFF


def on_cpu(x: torch.Tensor) -> torch.Tensor:
    """Of 8-bit floats the numbers: how they are rounded may differ by one."""
    return x.cpu().float() if x.is_floating_point() and x.dtype.itemsize == 1 else x.cpu()


@pytest.mark.skipif(not has_cpu_kernels(), reason="needs kernels for the CPU")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_agrees_with_the_cpu(case: Case) -> None:
    """As far as both may differ from the definition; whole numbers are the same."""
    want, got = (results(overload(case)(*case.arguments(device=d))) for d in ("cpu", "cuda"))
    for g, w in zip(got, want, strict=True):
        allowed = sum(case.tolerance(w.dtype, device) for device in ("cpu", "cuda"))
        assert_close(on_cpu(g), on_cpu(w), allowed or EIGHT_BITS)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_same_bits_again(case: Case) -> None:
    arguments = case.arguments(device="cuda")
    fill_unused_memory(0)
    want = bits(case, arguments)
    for _ in range(2):
        fill_unused_memory(0xFF)
        reserved = torch.cuda.memory_reserved()
        got = bits(case, arguments)
        assert torch.cuda.memory_reserved() == reserved, "memory that was not filled was taken"
        for g, w in zip(got, want, strict=True):
            assert torch.equal(g, w)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_same_bits_in_a_graph(case: Case) -> None:
    arguments = case.arguments(device="cuda")
    want = bits(case, arguments)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = results(overload(case)(*arguments))
    for _ in range(2):
        for g in got:
            g.view(torch.uint8).fill_(0xFF) if g.dim() else None
        graph.replay()
        for g, w in zip(got, want, strict=True):
            assert torch.equal(as_bits(g), w)


@pytest.mark.parametrize("case", [case for case in CASES if case.is_last], ids=str)
def test_a_graph_reads_its_arguments_as_it_is_replayed(case: Case) -> None:
    """Nothing of their values, lengths and indices among them, is settled as it is captured."""
    held = case.arguments(device="cuda")
    calls = [[a.clone() if isinstance(a, torch.Tensor) else a for a in held]]
    other = case.arguments(seed=2, device="cuda")
    calls.append(
        [b if isinstance(a, torch.Tensor) else a for a, b in zip(held, other, strict=True)]
    )
    want = [bits(case, arguments) for arguments in calls]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = results(overload(case)(*held))
    for at in (1, 0):
        for place, value in zip(held, calls[at], strict=True):
            if isinstance(place, torch.Tensor):
                place.copy_(value)
        for g in got:
            g.view(torch.uint8).fill_(0xFF) if g.dim() else None
        graph.replay()
        for g, w in zip(got, want[at], strict=True):
            assert torch.equal(as_bits(g), w)


@pytest.mark.parametrize("case", [case for case in CASES if case.is_last], ids=str)
def test_waits_for_what_is_before_it_in_its_stream(case: Case) -> None:
    """Arguments arrive late in a stream of its own, and are gone right behind the call."""
    arguments = case.arguments(device="cuda")
    want = bits(case, arguments)
    late = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
    given = [torch.zeros_like(a) if isinstance(a, torch.Tensor) else a for a in arguments]
    floats = [
        i
        for i, a in enumerate(arguments)
        if isinstance(a, torch.Tensor) and a.is_floating_point() and a.dtype.itemsize > 1
    ]
    for i, a in enumerate(late):  # indices and lengths are right from the start
        if isinstance(a, torch.Tensor) and i not in floats:
            given[i].copy_(a)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        for i in floats:
            given[i].copy_(late[i])
        got = results(overload(case)(*given))
        for i in floats:
            given[i].fill_(float("nan"))
    stream.synchronize()
    for g, w in zip(got, want, strict=True):
        assert torch.equal(as_bits(g), w)


def test_threads_and_streams_at_a_time() -> None:
    """Each of several threads works through the catalog in a stream of its own."""
    cases = [case for case in CASES if case.is_last and case.combo == 0]
    given = [case.arguments(device="cuda") for case in cases]
    want = [bits(case, arguments) for case, arguments in zip(cases, given, strict=True)]
    torch.cuda.synchronize()
    wrong: list[str] = []

    def work(first: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for i in range(len(cases)):
                at = (first + i) % len(cases)
                got = bits(cases[at], given[at])
                torch.cuda.current_stream().synchronize()
                if not all(torch.equal(g, w) for g, w in zip(got, want[at], strict=True)):
                    wrong.append(str(cases[at]))

    threads = [threading.Thread(target=work, args=(17 * i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("columns", [(1 << 20) - 1, 1 << 20, (1 << 22) + 3])
def test_wide_rows(columns: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = (4 * torch.randn(3, columns, device="cuda")).to(dtype)
    rtol = 1e-5 if dtype == torch.float32 else 2**-7
    wide = x.double()
    close = functools.partial(torch.testing.assert_close, rtol=rtol, atol=1e-9)
    close(OPS.softmax(x).double(), wide.softmax(-1))
    close(OPS.log_softmax(x).double(), wide.log_softmax(-1))
    assert torch.equal(OPS.argmax(x), x.argmax(-1))
    target = torch.tensor([0, columns - 1, columns // 2], device="cuda")
    loss = torch.nn.functional.cross_entropy(wide, target)
    close(OPS.cross_entropy(x, target).double(), loss)
