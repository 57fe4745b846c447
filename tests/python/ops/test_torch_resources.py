"""Whose threads and whose memory calls through PyTorch take: PyTorch's, on the CPU."""

from __future__ import annotations

import pytest
import tilewright.torch  # noqa: F401 - registers the operators
import torch
from package_path import run_python

OPS = torch.ops.tilewright

# Nanoseconds that each thread has run for, by what the kernel counts.
PROGRAM = """
import pathlib, sys, threading, torch, tilewright.torch

def others():
    main = str(threading.main_thread().native_id)
    tasks = [t for t in pathlib.Path("/proc/self/task").iterdir() if t.name != main]
    return sum(int((t / "schedstat").read_text().split()[0]) for t in tasks)

x = torch.ones(1, 4096).expand(512, 4096).contiguous()
torch.set_num_threads(int(sys.argv[1]))
torch.ops.tilewright.softmax(x)
before = others()
for _ in range(50):
    torch.ops.tilewright.softmax(x)
print(others() - before)
"""


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_as_many_threads_work_as_torch_uses(threads: int) -> None:
    # One thread: none beside it is there before it is asked for.
    told = run_python(PROGRAM, threads, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")
    assert told.returncode == 0, told.stderr
    assert (int(told.stdout) > 0) == (threads > 1)


@pytest.mark.parametrize("name", ["softmax", "topk"])
def test_results_come_from_the_allocator_of_torch(name: str) -> None:
    """Which tells its profiler of them."""
    x = torch.randn(300, 4096)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        made = OPS.softmax(x) if name == "softmax" else OPS.topk(x, 5)
    results = [made] if isinstance(made, torch.Tensor) else made
    events = [e for e in profile.events() if e.name == f"tilewright::{name}"]
    assert [e.cpu_memory_usage for e in events] == [sum(r.nbytes for r in results)]
