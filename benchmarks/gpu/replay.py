"""Calls timed by replaying CUDA graphs of them, in turn with those of their peers."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

import tilewright.torch  # noqa: F401 (registers the operators)
import torch
from card import Timings, measured

OPS = torch.ops.tilewright
ROUNDS = 7

Call = Callable[..., Any]


def normal(*shape: int) -> torch.Tensor:
    """Random numbers in bf16."""
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def graph_of(call: Call, operands: list[tuple[Any, ...]], repeats: int) -> Any:
    """A graph of calls of all operands, so many times."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for args in operands:
            call(*args)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            for args in operands:
                call(*args)
    return graph


def seconds(graph: Any, calls: int) -> float:
    """Of one of the calls in a graph."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / calls


def replayed(calls: Mapping[str, Call], operands: list[tuple[Any, ...]], repeats: int) -> Timings:
    """Median seconds of a call of each, the first of which is ours; the card's state under it."""
    graphs = {name: graph_of(call, operands, repeats) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    count = repeats * len(operands)
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            times[name].append(seconds(graph, count))
    medians = {name: statistics.median(values) for name, values in times.items()}
    return measured(medians, graphs["ours"].replay, medians["ours"] * count)
