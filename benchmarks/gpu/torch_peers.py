"""The memory-bound operators beside PyTorch's and Liger Kernel's on a GPU, interleaved.

    python benchmarks/gpu/torch_peers.py [--few] [--compile-for S] [--out FILE] [FILTER ...]
    python benchmarks/gpu/torch_peers.py --shape 16384x4095 --shape 4096x50257

Every row compares all results with the definition, then times ours and the peers in turn on the
same random data, each by replaying a CUDA graph of calls on rotating operands. Peers are eager
PyTorch, of gradients the kernels that its autograd calls; torch.compile, which tries block sizes;
and Liger Kernel where it is installed. A peer that fails or differs is left out, and said so.
Bytes are what must be moved: inputs once, outputs once. Fractions are of a device-to-device copy
measured beside them. `--few` measures 1 to 64 rows, whose operands the cache may hold; `--shape`
any others.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import liger_peers
import tilewright.torch
import torch
from memory_gradients import gradient_rows, loss_rows
from memory_rows import Row, embedding_row, forward_rows
from replay import ROUNDS, Call, graph_of, normal, replayed, seconds

SHAPES = [(32768, 4096), (16384, 8192), (4096, 32768)]
FEW = [(1, 4096), (16, 4096), (64, 4096)]
CLASSES = 131072
LOSSES = {False: [8192], True: [rows for rows, _ in FEW]}
OWN = ("ours", "torch")  # a row without one of these says nothing


def _shape(text: str) -> tuple[int, int]:
    rows, cols = text.split("x")
    return int(rows), int(cols)


def _rows(few: bool, shapes: list[tuple[int, int]]) -> Iterator[Row]:
    for rows, cols in shapes or (FEW if few else SHAPES):
        yield from forward_rows(rows, cols)
        yield from gradient_rows(rows, cols)
    if not few and not shapes:
        yield embedding_row()
    for rows, classes in shapes or [(rows, CLASSES) for rows in LOSSES[few]]:
        yield from loss_rows(rows, classes)


def _check(row: Row, got: Any, want: Any) -> None:
    for ours, theirs in zip(
        got if isinstance(got, (tuple, list)) else [got],
        want if isinstance(want, (tuple, list)) else [want],
        strict=True,
    ):
        if row.name == "argmax":
            assert torch.equal(ours, theirs), row.name
            continue
        if row.name.startswith("dropout"):  # masks differ; tests compare ours with its definition
            ours, theirs = (x.count_nonzero() for x in (ours, theirs))
        assert ours.dtype == theirs.dtype, (ours.dtype, theirs.dtype)
        want32 = theirs.float()
        allowed = want32.abs() + want32.pow(2).mean().sqrt()
        error = float(((ours.float() - want32).abs() / allowed).max())
        assert error < row.tolerance, f"differs by {error:.3g}"


def copy_rate() -> float:
    """Bytes per second, read and written, of copies as large as the largest rows here."""
    sources = [normal(32768, 4096) for _ in range(2)]
    graph = graph_of(torch.clone, [(x,) for x in sources], 4)
    times = [seconds(graph, 8) for _ in range(ROUNDS)]
    return 2 * sources[0].nbytes / statistics.median(times)


def _compiled(row: Row) -> Call:
    call, options = row.definition(), {"max_autotune_pointwise": True}
    # Some are PyTorch's own functions, which it compiles only within another.
    return torch.compile(lambda *given: call(*given), dynamic=False, options=options)


def _measure(row: Row, compile_too: bool, liger: Call | None) -> None:
    copies = max(1, min(8, int(300e6 // row.bytes) + 1)) if row.bytes > 1e6 else 1
    operands = [row.make() for _ in range(copies)]
    calls: dict[str, Call] = {"ours": row.ours, "torch": row.peer}
    if compile_too:
        calls["torch.compile"] = _compiled(row)
    if liger:
        calls["liger"] = liger
    want = row.definition()(*operands[0])
    for name, call in list(calls.items()):
        try:
            _check(row, call(*operands[0]), want)
        except Exception as error:
            if name in OWN:
                raise
            print(f"{row.name} {row.shape}: without {name}, {error!s:.300}", flush=True)
            del calls[name]
    del want
    repeats = max(1, min(50, int(2e-3 / (row.bytes / 2e12 + 2e-6) / copies)))
    row.timings = replayed(calls, operands, repeats)


def _print(row: Row, copy: float) -> None:
    text = "  ".join(
        f"{name} {row.bytes / t * 1e-9:6.0f} GB/s {t * 1e6:8.1f} us"
        for name, t in row.timings.items()
    )
    print(f"{row.name:20} {row.shape!s:20} {100 * row.bytes / row.timings['ours'] / copy:5.1f} %  "
          f"{text}{row.timings.shown()}", flush=True)  # fmt: skip


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("filters", nargs="*")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--few", action="store_true", help="1 to 64 rows instead of the large ones")
    parser.add_argument("--shape", type=_shape, action="append", default=[], metavar="ROWSxCOLS",
                        help="instead of the large ones; may be given again")  # fmt: skip
    parser.add_argument("--compile-for", type=float, default=float("inf"), metavar="S",
                        help="rows that begin later go without torch.compile")  # fmt: skip
    options = parser.parse_args()
    begin, copy, liger = time.perf_counter(), copy_rate(), liger_peers.calls()
    properties = torch.cuda.get_device_properties(0)
    machine = {"gpu": properties.name, "torch": torch.__version__, "copy_gbs": copy * 1e-9,
               "tilewright": tilewright.__version__, "liger": liger_peers.version()}  # fmt: skip
    print(machine)
    results, failed = [], 0
    for row in _rows(options.few, options.shape):
        if options.filters and not any(f in row.name for f in options.filters):
            continue
        try:
            _measure(row, time.perf_counter() - begin < options.compile_for, liger.get(row.name))
        except Exception as error:
            print(f"{row.name:20} {row.shape!s:20} FAILED {error!s:.300}", file=sys.stderr)
            failed += 1
            continue
        finally:
            torch._dynamo.reset()
            torch.cuda.empty_cache()
        _print(row, copy)
        results.append({"op": row.name, "shape": list(row.shape), "dtype": "bf16",
                        "bytes": row.bytes, "seconds": row.timings,
                        "fraction_of_copy": row.bytes / row.timings["ours"] / copy,
                        **row.timings.card})  # fmt: skip
        if options.out:  # after every row, for runs that are cut short
            options.out.write_text(json.dumps({"machine": machine, "results": results}, indent=1))
    if failed:
        sys.exit(f"torch_peers: {failed} FAILED")


if __name__ == "__main__":
    main()
