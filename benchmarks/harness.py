"""Timing several implementations of the same work beside each other, and what the times mean."""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

SHORTEST_SAMPLE = 20e-6  # calls are repeated within a sample until the clock's steps do not matter
FEWEST_SAMPLES = 7
MOST_SAMPLES_KEPT = 200
RESAMPLES = 1000

Call = Callable[..., Any]


def keep_memory() -> None:
    """Has the C library keep all memory that is given back, and hand it out again."""
    trim_threshold, mmap_max = -1, -4  # of malloc.h
    libc = ctypes.CDLL(None)
    if not (libc.mallopt(mmap_max, 0) and libc.mallopt(trim_threshold, 2**31 - 1)):
        raise OSError("mallopt failed: is this glibc?")


def _sample(call: Call, operands: Sequence[Sequence[Any]], first: int, repeats: int) -> float:
    """Seconds for one call, each on the next operands."""
    count = len(operands)
    begin = time.perf_counter_ns()
    for i in range(first, first + repeats):
        call(*operands[i % count])
    return (time.perf_counter_ns() - begin) * 1e-9 / repeats


def sample_on_gpu(call: Call, operands: Sequence[Sequence[Any]], first: int, repeats: int) -> float:
    """The same of calls in PyTorch's current stream, by the GPU's clock."""
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    count = len(operands)
    begin.record()
    for i in range(first, first + repeats):
        call(*operands[i % count])
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / repeats


def interleaved(
    calls: Mapping[str, Call],
    operands: Sequence[Sequence[Any]],
    seconds: float,
    sample: Callable[..., float] | None = None,
) -> dict[str, list[float]]:
    """Seconds per call of each implementation; round by round, so that all see the same machine.

    Args:
        calls: what is measured, by name.
        operands: arguments for any of them; more than one where one would stay in the caches.
        seconds: about how long each is measured.
        sample: sample_on_gpu for calls on a GPU.
    """
    sample = sample or _sample
    repeats = {}
    for name, call in calls.items():
        for given in operands:  # what a call makes of operands once, as peers pack weights
            call(*given)
        one = min(sample(call, operands, i, 1) for i in range(3))
        repeats[name] = max(1, int(SHORTEST_SAMPLE / max(one, 1e-9)))
    times: dict[str, list[float]] = {name: [] for name in calls}
    names, turn, begin = list(calls), 0, time.perf_counter()
    # All go through the operands together, so that nobody finds what another has just read. A
    # round may leave one out, or some would meet the same ones in every round.
    at, random = 0, np.random.default_rng(1)
    enabled = gc.isenabled()
    gc.disable()
    try:
        while (
            time.perf_counter() - begin < seconds * len(calls)
            or len(times[names[0]]) < FEWEST_SAMPLES
        ):
            for i in range(len(names)):  # nobody always goes first
                name = names[(turn + i) % len(names)]
                times[name].append(sample(calls[name], operands, at, repeats[name]))
                at += repeats[name]
            turn, at = turn + 1, at + int(random.integers(2))
    finally:
        if enabled:
            gc.enable()
    return times


def summary(times: Sequence[float]) -> dict[str, Any]:
    """Percentiles in microseconds, and the samples, thinned."""
    us = 1e6 * np.asarray(times)
    p10, p50, p90 = np.percentile(us, [10, 50, 90])
    step = -(-len(us) // MOST_SAMPLES_KEPT)
    kept = [round(float(value), 3) for value in us[::step]]
    return {"us": p50, "us_p10": p10, "us_p90": p90, "runs": len(us), "us_samples": kept}


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> dict[str, float]:
    """Their time over ours, with a 95 % interval: rounds are drawn in pairs, as they were run."""
    a, b = np.asarray(theirs), np.asarray(ours)
    random = np.random.default_rng(1)
    drawn = random.integers(0, len(a), (RESAMPLES, len(a)))
    ratios = np.median(a[drawn], 1) / np.median(b[drawn], 1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return {"ratio": float(np.median(a) / np.median(b)), "low": float(low), "high": float(high)}
