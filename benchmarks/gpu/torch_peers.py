"""The memory-bound operators beside PyTorch's on a GPU: eager and torch.compile, interleaved.

    python benchmarks/gpu/torch_peers.py [--out FILE] [FILTER ...]

Every row checks both results against each other, then times ours and the peers in turn on the same
random data, each by replaying a CUDA graph of calls on rotating operands. Bytes are what must be
moved: inputs once, outputs once. Fractions are of a device-to-device copy measured beside them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import tilewright.torch

OPS = torch.ops.tilewright
SHAPES = [(32768, 4096), (16384, 8192), (4096, 32768)]
SMALL = [(1, 4096), (16, 4096), (64, 4096)]
ROUNDS = 7


@dataclass
class Row:
    """One operator on one shape: a call of ours, the peer's, and what must be moved."""

    name: str
    shape: tuple[int, ...]
    make: Callable[[], tuple[Any, ...]]
    ours: Callable[..., Any]
    peer: Callable[..., Any]
    bytes: int
    tolerance: float = 2e-2
    timings: dict[str, float] = field(default_factory=dict)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def rotate_half(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.float().chunk(2, -1)
    c, s = cos[None, :, None], sin[None, :, None]
    return torch.cat((a * c - b * s, b * c + a * s), -1).to(x.dtype)


def add_norm(x: Any, r: Any, w: Any) -> Any:
    added = x + r
    return F.rms_norm(added, (x.shape[-1],), w, 1e-6), added


def row_ops(rows: int, cols: int) -> list[Row]:
    n = rows * cols * 2
    one, shape = (lambda: (normal(rows, cols),)), (rows, cols)
    weighted = lambda: (normal(rows, cols), normal(cols))  # noqa: E731
    norm = lambda x, w: F.rms_norm(x, (cols,), w, 1e-6)  # noqa: E731
    out = [
        Row("rms_norm", shape, weighted, OPS.rms_norm, norm, 2 * n),
        Row(
            "fused_add_rms_norm",
            shape,
            lambda: (normal(rows, cols), normal(rows, cols), normal(cols)),
            OPS.fused_add_rms_norm,
            add_norm,
            4 * n,
        ),
        Row("softmax", shape, one, OPS.softmax, lambda x: F.softmax(x, -1), 2 * n),
        Row(
            "silu_and_mul",
            shape,
            lambda: (normal(rows, 2 * cols),),
            OPS.silu_and_mul,
            lambda x: F.silu(x[:, :cols]) * x[:, cols:],
            3 * n,
        ),
        Row("gelu", shape, one, OPS.gelu, F.gelu, 2 * n),
        Row("gelu_tanh", shape, one, lambda x: OPS.gelu(x, "tanh"),
            lambda x: F.gelu(x, approximate="tanh"), 2 * n),
        Row("add", shape, lambda: (normal(rows, cols), normal(rows, cols)), OPS.add, torch.add,
            3 * n),
        Row("copy", shape, one, OPS.copy, torch.clone, 2 * n),
        Row("transpose", shape, one, lambda x: OPS.transpose(x, 0, 1),
            lambda x: x.t().contiguous(), 2 * n),
        Row("sum", shape, one, lambda x: OPS.sum(x, -1), lambda x: x.sum(-1), n),
        Row("sum dim 0", shape, one, lambda x: OPS.sum(x, 0), lambda x: x.sum(0), n, 5e-2),
        Row("argmax", shape, one, lambda x: OPS.argmax(x, -1), lambda x: x.argmax(-1), n),
    ]  # fmt: skip
    return out


def other_ops() -> list[Row]:
    b, s, h, d = 4, 4096, 32, 128
    n = b * s * h * d * 2
    table = torch.randn(s, d // 2, device="cuda")
    return [
        Row("rope", (b, s, h, d), lambda: (normal(b, s, h, d), table.cos(), table.sin()),
            OPS.rope, rotate_half, 2 * n),
        Row("permute", (b, s, h, d), lambda: (normal(b, s, h, d),),
            lambda x: OPS.permute(x, [0, 2, 1, 3]), lambda x: x.permute(0, 2, 1, 3).contiguous(),
            2 * n),
        Row("embedding", (128256, 4096), lambda: (normal(128256, 4096),
            torch.randint(0, 128256, (16384,), device="cuda")),
            OPS.embedding, lambda w, i: F.embedding(i, w), 2 * 16384 * 4096 * 2),
    ]  # fmt: skip


def graph_of(call: Callable[..., Any], operands: list[tuple[Any, ...]], repeats: int) -> Any:
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
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / calls


def check(row: Row, operands: tuple[Any, ...]) -> None:
    got, want = row.ours(*operands), row.peer(*operands)
    for ours, theirs in zip(
        got if isinstance(got, (tuple, list)) else [got],
        want if isinstance(want, (tuple, list)) else [want],
        strict=True,
    ):
        if row.name == "argmax":
            assert torch.equal(ours, theirs), row.name
            continue
        scale = theirs.float().pow(2).mean().sqrt()
        error = (ours.float() - theirs.float()).abs().max() / scale
        assert error < 10 * row.tolerance, (row.name, row.shape, float(error))


def copy_rate() -> float:
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    graph = graph_of(target.copy_, [(source,)], 4)
    times = [seconds(graph, 4) for _ in range(ROUNDS)]
    return 2 * source.numel() / statistics.median(times)


def measure(row: Row, compile_too: bool) -> None:
    copies = max(1, min(8, int(300e6 // row.bytes) + 1)) if row.bytes > 1e6 else 1
    operands = [row.make() for _ in range(copies)]
    check(row, operands[0])
    calls: dict[str, Callable[..., Any]] = {"ours": row.ours, "torch": row.peer}
    if compile_too:
        calls["torch.compile"] = torch.compile(row.peer, dynamic=False)
        calls["torch.compile"](*operands[0])
    repeats = max(1, min(50, int(2e-3 / (row.bytes / 2e12 + 2e-6) / copies)))
    graphs = {name: graph_of(call, operands, repeats) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            times[name].append(seconds(graph, repeats * copies))
    row.timings = {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("filters", nargs="*")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()
    copy = copy_rate()
    properties = torch.cuda.get_device_properties(0)
    print(f"{properties.name}, torch {torch.__version__}, copy {copy * 1e-9:.0f} GB/s")
    results = []
    rows = [row for shape in SHAPES for row in row_ops(*shape)] + other_ops()
    rows += [row for shape in SMALL for row in row_ops(*shape)]
    for row in rows:
        if options.filters and not any(f in row.name for f in options.filters):
            continue
        try:
            measure(row, not options.no_compile)
        except Exception as error:  # noqa: BLE001 - the other rows are still wanted
            print(f"{row.name:20} {row.shape!s:20} FAILED {error!s:.300}")
            continue
        finally:
            torch._dynamo.reset()
            torch.cuda.empty_cache()
        ours = row.timings["ours"]
        text = "  ".join(
            f"{name} {row.bytes / t * 1e-9:6.0f} GB/s {t * 1e6:8.1f} us"
            for name, t in row.timings.items()
        )
        print(f"{row.name:20} {row.shape!s:20} {100 * row.bytes / ours / copy:5.1f} %  {text}")
        sys.stdout.flush()
        results.append(
            {
                "op": row.name,
                "shape": list(row.shape),
                "dtype": "bf16",
                "bytes": row.bytes,
                "seconds": row.timings,
                "fraction_of_copy": row.bytes / ours / copy,
            }
        )
    if options.out:
        machine = {"gpu": properties.name, "torch": torch.__version__, "copy_gbs": copy * 1e-9,
                   "tilewright": tilewright.__version__}  # fmt: skip
        options.out.write_text(json.dumps({"machine": machine, "results": results}, indent=1))


if __name__ == "__main__":
    main()
