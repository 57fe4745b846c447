"""What ran, and why: one record per call of an operator.

The library tells of every call that reaches a kernel or a definition, whoever made it. Calls of
`tilewright.ops` add what only they know: the backend that was asked for, and the reason.
"""

from __future__ import annotations

import contextvars
import dataclasses
import json
import threading
import time
from types import TracebackType
from typing import Any

from tilewright import _arrays, _library, _schema

_active: contextvars.ContextVar[explain | None] = contextvars.ContextVar(
    "tilewright_explain", default=None
)


@dataclasses.dataclass
class Record:
    """One call."""

    op: str
    shapes: list[tuple[int, ...]]
    dtypes: list[str]
    device: str
    backend: str
    kernel: str
    isa: str
    reason: str
    fallback: bool
    seconds: float | None = None


class explain:
    """Collects a record of each call within its block, in this thread or task; blocks may nest.

    Calls of `tilewright.ops`, of `torch.ops.tilewright`, of modules, of patched models and of what
    torch.compile has made, gradients included. Not recorded are PyTorch's own operators, and the
    replays of a CUDA graph, which call nothing: its calls are as it is captured.

    `isa` is the build that ran: an instruction set, `sm_90a` for kernels that are Hopper's own
    (`sm_90a_tf32` where they multiply float32 as tf32), `cuda` for the portable ones, `reference`
    for the definition, which is also what answers float64 where there is no kernel for it; empty
    for what the library has not run itself.

    Example:
        >>> import numpy as np
        >>> import tilewright
        >>> with tilewright.explain() as e:
        ...     _ = tilewright.ops.exp(np.zeros(3, np.float32))
        >>> e.records[0].op, e.records[0].backend, e.fallbacks
        ('exp', 'cpu', 0)
    """

    def __init__(self, *, time: bool = False) -> None:
        """Starts without records.

        Args:
            time: whether to measure each call; on a GPU that is until it is queued. Calls of
                torch.ops within torch.inference_mode and of compiled graphs have no time.
        """
        self.records: list[Record] = []
        self._time = time
        self._token: contextvars.Token[explain | None] | None = None
        self._outer: explain | None = None
        self._under_way: list[list[Record]] = []  # of calls of tilewright.ops: what they ran

    @property
    def fallbacks(self) -> int:
        """How many calls did not run where they were meant to."""
        return sum(record.fallback for record in self.records)

    def chain(self) -> list[explain]:
        """This block and those around it."""
        return [self, *(self._outer.chain() if self._outer else ())]

    def begin(self) -> float:
        """A call of tilewright.ops begins; at what time."""
        for block in self.chain():
            block._under_way.append([])
        return time.perf_counter()

    def end(self, record: Record | None, started: float) -> None:
        """It has ended; without a record, by an error."""
        seconds = time.perf_counter() - started
        for block in self.chain():
            ran = block._under_way.pop()
            if record is not None:
                block.records += block._as_kept(record, ran, seconds)

    def _as_kept(self, record: Record, ran: list[Record], seconds: float) -> list[Record]:
        """Records of a call and of what it called, from what the library said that it ran."""
        record = dataclasses.replace(record, seconds=seconds if self._time else None)
        if ran and ran[0].op == record.op:
            said, *ran = ran
            record.isa = said.isa
            if said.backend != record.backend and said.isa == "reference":
                record.backend, record.kernel = said.backend, said.kernel
                record.reason += ": answered by the definition"
        return [record, *(dataclasses.replace(r, reason=f"within {record.op}") for r in ran)]

    def observe(self, ran: Record) -> None:
        """The library has run something."""
        for block in self.chain():
            kept = dataclasses.replace(ran, seconds=ran.seconds if block._time else None)
            (block._under_way[-1] if block._under_way else block.records).append(kept)

    def to_json(self) -> str:
        """All records as a JSON array."""
        return json.dumps([dataclasses.asdict(record) for record in self.records], indent=2)

    def __str__(self) -> str:
        """A table, one line per call."""
        head = ("op", "shapes", "dtypes", "device", "backend", "kernel", "isa", "reason", "us")
        rows = [head]
        for r in self.records:
            us = "" if r.seconds is None else f"{1e6 * r.seconds:.1f}"
            shapes = " ".join("x".join(map(str, shape)) or "()" for shape in r.shapes)
            why = f"FALLBACK: {r.reason}" if r.fallback else r.reason
            dtypes = "/".join(r.dtypes)
            rows.append((r.op, shapes, dtypes, r.device, r.backend, r.kernel, r.isa, why, us))
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join(lines)

    def __enter__(self) -> explain:
        """Starts collecting."""
        global timed, listening
        self._outer = _active.get()
        self._token = _active.set(self)
        with _lock:
            _open.append(self)
            listening = True
            timed += self._time
            _library.load().tw_observe(_OBSERVER)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops collecting; the records stay."""
        global timed, listening
        if self._token is not None:
            _active.reset(self._token)
        with _lock:
            _open.remove(self)
            listening = bool(_open)
            timed -= self._time
            if not listening:
                _library.load().tw_observe(_NO_OBSERVER)


_lock = threading.Lock()
_open: list[explain] = []  # in all threads
listening = False  # whether there are any: torch.compile traces again when this has changed
timed = 0  # how many of them want times
_begun = threading.local()  # `at`: which call of torch.ops began last, and when


def mark(op: str) -> None:
    """A call of torch.ops begins."""
    _begun.at = op, time.perf_counter()


def _seconds(op: str) -> float | None:
    """Since mark() of the same operator; once."""
    name, began = _begun.__dict__.pop("at", ("", 0.0))
    return time.perf_counter() - began if name == op else None


def _listener() -> explain | None:
    """Who collects here.

    PyTorch's own threads, in which gradients of GPUs run, have no context: what they do belongs to
    the block that is open, if there is but one with those around it.
    """
    block = _active.get()
    if block is not None or not _open or len(_open) != len(_open[-1].chain()):
        return block
    return _open[-1] if isinstance(threading.current_thread(), threading._DummyThread) else None


def _observed(answer: Any) -> None:
    block = _listener()
    if block is None:
        return
    said = answer.contents
    op = _schema.find(_library.load().tw_operator_name(said.op).decode())
    seconds = _seconds(op.name)
    views = [
        value.payload.tensor.contents
        for arg, value in zip(op.inputs, said.arguments[: said.count], strict=False)
        if value.kind == _library.TENSOR and not arg.is_int_list
    ]
    on_gpu = next((v.device for v in views if v.device.type == _arrays.CUDA), None)
    build = said.build.decode()
    backend = "reference" if build == "reference" else "cuda" if on_gpu else "cpu"
    block.observe(
        Record(
            op=op.name,
            shapes=[tuple(v.shape[: v.rank]) for v in views],
            dtypes=[_arrays.NAMES[v.dtype.code, v.dtype.bits] for v in views],
            device=f"cuda:{on_gpu.index}" if on_gpu else "cpu",
            backend=backend,
            kernel=f"{op.name}/{backend}",
            isa=build,
            reason="called through torch.ops",
            fallback=False,
            seconds=seconds,
        )
    )


def observed_in_graph(op: str, backend: str, kernel: str, tensors: list[Any]) -> None:
    """A graph of torch.compile has run PyTorch's nodes for a call of an operator."""
    if (block := _listener()) is None:
        return
    described = [describe(tensor) for tensor in tensors]
    block.observe(
        Record(
            op=op,
            shapes=[shape for shape, _, _ in described],
            dtypes=[dtype for _, dtype, _ in described],
            device=described[0][2],
            backend=backend,
            kernel=kernel,
            isa="",
            reason="within a compiled graph",
            fallback=False,
        )
    )


_OBSERVER, _NO_OBSERVER = _library.Observer(_observed), _library.Observer()


def active() -> explain | None:
    """The innermost block that collects, if any."""
    return _active.get()


def describe(value: Any) -> tuple[tuple[int, ...], str, str]:
    """Shape, dtype and device of an array, for a record."""
    dtype = str(getattr(value, "dtype", "")).removeprefix("torch.")
    return tuple(map(int, getattr(value, "shape", ()))), dtype, str(getattr(value, "device", "cpu"))
