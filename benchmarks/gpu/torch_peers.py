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

import tilewright.torch
import torch
import torch.nn.functional as F
from card import Timings, measured

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
    timings: Timings = field(default_factory=Timings)


def _normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def _rotate_half(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.float().chunk(2, -1)
    c, s = cos[None, :, None], sin[None, :, None]
    return torch.cat((a * c - b * s, b * c + a * s), -1).to(x.dtype)


def _add_norm(x: Any, r: Any, w: Any) -> Any:
    added = x + r
    return F.rms_norm(added, (x.shape[-1],), w, 1e-6), added


def _row_ops(rows: int, cols: int) -> list[Row]:
    n = rows * cols * 2
    one, shape = (lambda: (_normal(rows, cols),)), (rows, cols)
    weighted = lambda: (_normal(rows, cols), _normal(cols))  # noqa: E731
    norm = lambda x, w: F.rms_norm(x, (cols,), w, 1e-6)  # noqa: E731
    out = [
        Row("rms_norm", shape, weighted, OPS.rms_norm, norm, 2 * n),
        Row(
            "fused_add_rms_norm",
            shape,
            lambda: (_normal(rows, cols), _normal(rows, cols), _normal(cols)),
            OPS.fused_add_rms_norm,
            _add_norm,
            4 * n,
        ),
        Row("softmax", shape, one, OPS.softmax, lambda x: F.softmax(x, -1), 2 * n),
        Row(
            "silu_and_mul",
            shape,
            lambda: (_normal(rows, 2 * cols),),
            OPS.silu_and_mul,
            lambda x: F.silu(x[:, :cols]) * x[:, cols:],
            3 * n,
        ),
        Row("gelu", shape, one, OPS.gelu, F.gelu, 2 * n),
        Row("gelu_tanh", shape, one, lambda x: OPS.gelu(x, "tanh"),
            lambda x: F.gelu(x, approximate="tanh"), 2 * n),
        Row("add", shape, lambda: (_normal(rows, cols), _normal(rows, cols)), OPS.add, torch.add,
            3 * n),
        Row("copy", shape, one, OPS.copy, torch.clone, 2 * n),
        Row("transpose", shape, one, lambda x: OPS.transpose(x, 0, 1),
            lambda x: x.t().contiguous(), 2 * n),
        Row("sum", shape, one, lambda x: OPS.sum(x, -1), lambda x: x.sum(-1), n),
        Row("sum dim 0", shape, one, lambda x: OPS.sum(x, 0), lambda x: x.sum(0), n, 5e-2),
        Row("argmax", shape, one, lambda x: OPS.argmax(x, -1), lambda x: x.argmax(-1), n),
    ]  # fmt: skip
    return out


def _rms_norm_backward(g: Any, x: Any, w: Any) -> Any:
    wide, grad = x.float(), g.float()
    rstd = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    scaled = grad * w.float()
    slope = (scaled * wide).mean(-1, keepdim=True) * rstd * rstd
    return ((scaled - wide * slope) * rstd).to(x.dtype), (grad * wide * rstd).sum(0).to(x.dtype)


def _layer_norm_operands(rows: int, cols: int) -> tuple[Any, ...]:
    x = _normal(rows, cols)
    moments = torch.native_layer_norm(x, [cols], None, None, 1e-5)[1:]
    return (_normal(rows, cols), x, _normal(cols), _normal(cols), *moments)


def _swiglu_backward(grad: Any, gate: Any, up: Any) -> Any:
    g, s = gate.float(), torch.sigmoid(gate.float())
    by_gate = grad.float() * up.float() * s * (1 + g * (1 - s))
    return by_gate.to(gate.dtype), (grad.float() * g * s).to(gate.dtype)


def _cross_entropy_backward(grad: Any, x: Any, target: Any, lse: Any) -> Any:
    weights = torch.exp(x.float() - lse[:, None])
    weights.scatter_add_(1, target[:, None], weights.new_full((x.shape[0], 1), -1.0))
    return (weights * (grad.float() / x.shape[0])).to(x.dtype)


def _training_ops(rows: int, cols: int) -> list[Row]:
    n, shape = rows * cols * 2, (rows, cols)
    aten = torch.ops.aten
    two = lambda: (_normal(rows, cols), _normal(rows, cols))  # noqa: E731
    three = lambda: (*two(), _normal(rows, cols))  # noqa: E731
    return [
        Row("layer_norm", shape, lambda: (_normal(rows, cols), _normal(cols), _normal(cols)),
            OPS.layer_norm, lambda x, w, b: F.layer_norm(x, (cols,), w, b), 2 * n),
        Row("rms_norm_backward", shape, lambda: (*two(), _normal(cols)),
            OPS.rms_norm_backward.full, _rms_norm_backward, 3 * n, 5e-2),
        Row("layer_norm_backward", shape, lambda: _layer_norm_operands(rows, cols),
            lambda g, x, w, b, m, r: OPS.layer_norm_backward.full(g, x, w),
            lambda g, x, w, b, m, r: aten.native_layer_norm_backward(
                g, x, [cols], m, r, w, b, [True, True, True]), 3 * n, 5e-2),
        Row("log_softmax", shape, lambda: (_normal(rows, cols),), OPS.log_softmax,
            lambda x: F.log_softmax(x, -1), 2 * n),
        Row("softmax_backward", shape,
            lambda: (_normal(rows, cols), torch.softmax(_normal(rows, cols), -1)),
            OPS.softmax_backward,
            lambda g, y: aten._softmax_backward_data(g, y, -1, torch.bfloat16), 3 * n),
        Row("swiglu", shape, two, OPS.swiglu, lambda g, u: F.silu(g) * u, 3 * n),
        Row("swiglu_backward", shape, three, OPS.swiglu_backward, _swiglu_backward, 5 * n),
        Row("dropout", shape, lambda: (_normal(rows, cols),),
            lambda x: OPS.dropout(x, 0.1, 7), lambda x: F.dropout(x, 0.1), 2 * n),
    ]  # fmt: skip


def _loss_ops(rows: int, classes: int) -> list[Row]:
    n, shape = rows * classes * 2, (rows, classes)
    labels = torch.randint(0, classes, (rows,), device="cuda")

    def backward() -> tuple[Any, ...]:
        x = _normal(rows, classes)
        return _normal(1)[0].abs(), x, labels, torch.logsumexp(x.float(), -1)

    return [
        Row("cross_entropy", shape, lambda: (_normal(rows, classes), labels),
            OPS.cross_entropy, F.cross_entropy, n),
        Row("cross_entropy_backward", shape, backward, OPS.cross_entropy_backward,
            _cross_entropy_backward, 2 * n),
    ]  # fmt: skip


def _other_ops() -> list[Row]:
    b, s, h, d = 4, 4096, 32, 128
    n = b * s * h * d * 2
    table = torch.randn(s, d // 2, device="cuda")
    return [
        Row("rope", (b, s, h, d), lambda: (_normal(b, s, h, d), table.cos(), table.sin()),
            OPS.rope, _rotate_half, 2 * n),
        Row("permute", (b, s, h, d), lambda: (_normal(b, s, h, d),),
            lambda x: OPS.permute(x, [0, 2, 1, 3]), lambda x: x.permute(0, 2, 1, 3).contiguous(),
            2 * n),
        Row("embedding", (128256, 4096), lambda: (_normal(128256, 4096),
            torch.randint(0, 128256, (16384,), device="cuda")),
            OPS.embedding, lambda w, i: F.embedding(i, w), 2 * 16384 * 4096 * 2),
    ]  # fmt: skip


def _graph_of(call: Callable[..., Any], operands: list[tuple[Any, ...]], repeats: int) -> Any:
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


def _seconds(graph: Any, calls: int) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / calls


def _check(row: Row, operands: tuple[Any, ...]) -> None:
    got, want = row.ours(*operands), row.peer(*operands)
    for ours, theirs in zip(
        got if isinstance(got, (tuple, list)) else [got],
        want if isinstance(want, (tuple, list)) else [want],
        strict=True,
    ):
        if row.name == "argmax":
            assert torch.equal(ours, theirs), row.name
            continue
        if row.name == "dropout":  # the masks differ; tests compare ours with its definition
            ours, theirs = (x.count_nonzero() for x in (ours, theirs))
        want32 = theirs.float()
        allowed = want32.abs() + want32.pow(2).mean().sqrt()
        error = ((ours.float() - want32).abs() / allowed).max()
        assert error < row.tolerance, (row.name, row.shape, float(error))


def _copy_rate() -> float:
    """Bytes per second, read and written, of copies as large as the largest rows here."""
    sources = [_normal(32768, 4096) for _ in range(2)]
    graph = _graph_of(torch.clone, [(x,) for x in sources], 4)
    times = [_seconds(graph, 8) for _ in range(ROUNDS)]
    return 2 * sources[0].nbytes / statistics.median(times)


def _measure(row: Row, compile_too: bool) -> None:
    copies = max(1, min(8, int(300e6 // row.bytes) + 1)) if row.bytes > 1e6 else 1
    operands = [row.make() for _ in range(copies)]
    _check(row, operands[0])
    calls: dict[str, Callable[..., Any]] = {"ours": row.ours, "torch": row.peer}
    if compile_too:
        calls["torch.compile"] = torch.compile(row.peer, dynamic=False)
        calls["torch.compile"](*operands[0])
    repeats = max(1, min(50, int(2e-3 / (row.bytes / 2e12 + 2e-6) / copies)))
    graphs = {name: _graph_of(call, operands, repeats) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            times[name].append(_seconds(graph, repeats * copies))
    seconds = {name: statistics.median(values) for name, values in times.items()}
    row.timings = measured(seconds, graphs["ours"].replay, seconds["ours"] * repeats * copies)


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("filters", nargs="*")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()
    copy = _copy_rate()
    properties = torch.cuda.get_device_properties(0)
    print(f"{properties.name}, torch {torch.__version__}, copy {copy * 1e-9:.0f} GB/s")
    results = []
    rows = [row for shape in SHAPES for row in _row_ops(*shape)] + _other_ops()
    rows += [row for shape in SHAPES for row in _training_ops(*shape)] + _loss_ops(8192, 131072)
    rows += [row for shape in SMALL for row in _row_ops(*shape)]
    for row in rows:
        if options.filters and not any(f in row.name for f in options.filters):
            continue
        try:
            _measure(row, not options.no_compile)
        except Exception as error:
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
        print(f"{row.name:20} {row.shape!s:20} {100 * row.bytes / ours / copy:5.1f} %  {text}"
              f"{row.timings.shown()}")  # fmt: skip
        sys.stdout.flush()
        results.append(
            {
                "op": row.name,
                "shape": list(row.shape),
                "dtype": "bf16",
                "bytes": row.bytes,
                "seconds": row.timings,
                "fraction_of_copy": row.bytes / ours / copy,
                **row.timings.card,
            }
        )
    if options.out:
        machine = {"gpu": properties.name, "torch": torch.__version__, "copy_gbs": copy * 1e-9,
                   "tilewright": tilewright.__version__}  # fmt: skip
        options.out.write_text(json.dumps({"machine": machine, "results": results}, indent=1))


if __name__ == "__main__":
    main()
