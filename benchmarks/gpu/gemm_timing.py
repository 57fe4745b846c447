"""What the programs that measure matrix products share: choosing, comparing, timing, reporting."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping
from typing import Any

import torch
from card import Timings, measured
from replay import Call, replayed

HOST_CYCLES = 400_000
GRAPH_FLOPS = 1e11  # below, launches are too short to be timed one by one
GRAPH_REPEATS = 8


def is_wanted(label: str, options: argparse.Namespace) -> bool:
    """Whether the command line asks for it."""
    return not options.filters or label.startswith(tuple(options.filters))


def check(ours: torch.Tensor, peer: torch.Tensor, k: int) -> None:
    """That two products over k are the same but for rounding."""
    error = (ours.float() - peer.float()).norm() / peer.float().norm()
    assert error < 1e-2, (tuple(ours.shape), k, float(error))


def in_turns(calls: Mapping[str, Call], operands: tuple[Any, ...], count: int) -> Timings:
    """Median seconds of launches one by one."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call(*operands)
    for _ in range(count):
        for name, call in calls.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(HOST_CYCLES)  # meanwhile the host issues what follows
            begin.record()
            call(*operands)
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end) * 1e-3)
    seconds = {name: statistics.median(values) for name, values in times.items()}
    return measured(seconds, lambda: calls["ours"](*operands), seconds["ours"])


def timed(calls: Mapping[str, Call], operands: list[tuple[Any, ...]], count: int) -> Timings:
    """One by one of the only operands, or as graphs over several, so that no weight is cached."""
    if len(operands) > 1:
        return replayed(calls, operands, GRAPH_REPEATS)
    return in_turns(calls, operands[0], count)


def report(label: str, flops: float, seconds: Timings, weight_bytes: int) -> dict[str, Any]:
    """Prints a product beside its peer, the first; what its JSON says."""
    ratio = seconds[next(name for name in seconds if name != "ours")] / seconds["ours"]
    times = "  ".join(f"{name} {s * 1e6:8.2f} us {flops / s * 1e-12:6.0f} TFLOPS"
                      for name, s in seconds.items())  # fmt: skip
    rate = weight_bytes / seconds["ours"] * 1e-12
    print(
        f"{label:44} {times}  weights {rate:4.2f} TB/s  {ratio:5.3f}{seconds.shown()}", flush=True
    )
    dtype = {"fp8": "f8_e4m3fn", "int8": "i8", "int32": "i8"}.get(label.split()[0], "bf16")
    return {"case": label, "dtype": dtype, "flops": flops, "seconds": seconds,
            "ratio": ratio, "weight_bytes": weight_bytes, **seconds.card}  # fmt: skip
