"""Timing several implementations of the same work beside each other, and what the times mean."""

from __future__ import annotations

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


def _sample(call: Call, operands: Sequence[Sequence[Any]], first: int, repeats: int) -> float:
    """Seconds for one call, each on the next operands."""
    count = len(operands)
    begin = time.perf_counter_ns()
    for i in range(repeats):
        call(*operands[(first + i) % count])
    return (time.perf_counter_ns() - begin) * 1e-9 / repeats


def interleaved(
    calls: Mapping[str, Call], operands: Sequence[Sequence[Any]], seconds: float
) -> dict[str, list[float]]:
    """Seconds per call of each implementation; round by round, so that all see the same machine.

    Args:
        calls: what is measured, by name.
        operands: arguments for any of them; more than one where one would stay in the caches.
        seconds: about how long each is measured.
    """
    repeats = {}
    for name, call in calls.items():
        one = min(_sample(call, operands, i, 1) for i in range(3))  # warms up as well
        repeats[name] = max(1, int(SHORTEST_SAMPLE / max(one, 1e-9)))
    times: dict[str, list[float]] = {name: [] for name in calls}
    names, turn, begin = list(calls), 0, time.perf_counter()
    enabled = gc.isenabled()
    gc.disable()
    try:
        while (
            time.perf_counter() - begin < seconds * len(calls)
            or len(times[names[0]]) < FEWEST_SAMPLES
        ):
            for i in range(len(names)):  # nobody always goes first
                name = names[(turn + i) % len(names)]
                times[name].append(_sample(calls[name], operands, turn, repeats[name]))
            turn += 1
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
