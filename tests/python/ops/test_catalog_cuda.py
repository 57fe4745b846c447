"""The whole catalog on a GPU: the same bits again, whatever memory held before, and in graphs."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Iterator

import pytest
import tilewright.torch  # noqa: F401 - registers the operators
import torch
from cases import Case, as_bits, bits, every_case, overload, results

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

OPS = torch.ops.tilewright
CASES = [case for case in every_case() if case.is_on_cuda]


def fill_workspaces(megabytes: int = 64) -> None:
    """What operators take as workspace next holds NaN: the pool gives that memory out again."""
    cuda, pointer = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    size = ctypes.c_size_t(megabytes << 20)
    assert cuda.cuMemAllocAsync(ctypes.byref(pointer), size, stream) == 0
    assert cuda.cuMemsetD8Async(pointer, ctypes.c_ubyte(0xFF), size, stream) == 0
    assert cuda.cuMemFreeAsync(pointer, stream) == 0


@pytest.fixture
def keeps_freed_memory() -> Iterator[None]:
    """The pool of workspaces keeps what is freed, NaN and all."""
    cuda, pool, before = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
    release_threshold, all_of_it = 4, ctypes.c_uint64(2**64 - 1)
    torch.zeros(1, device="cuda")
    assert cuda.cuDeviceGetDefaultMemPool(ctypes.byref(pool), torch.cuda.current_device()) == 0
    assert cuda.cuMemPoolGetAttribute(pool, release_threshold, ctypes.byref(before)) == 0
    assert cuda.cuMemPoolSetAttribute(pool, release_threshold, ctypes.byref(all_of_it)) == 0
    yield
    assert cuda.cuMemPoolSetAttribute(pool, release_threshold, ctypes.byref(before)) == 0


@pytest.mark.usefixtures("keeps_freed_memory")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_same_bits_again(case: Case) -> None:
    arguments = case.arguments(device="cuda")
    want = bits(case, arguments)
    for _ in range(2):
        fill_workspaces()
        for g, w in zip(bits(case, arguments), want, strict=True):
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
