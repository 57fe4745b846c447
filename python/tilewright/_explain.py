"""What ran, and why: one record per call of a function in tilewright.ops."""

from __future__ import annotations

import contextvars
import dataclasses
import json
import time
from types import TracebackType
from typing import Any

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
    """Collects a record of each call within its block, in this thread or task.

    Calls of `tilewright.ops`, of modules and of patched models; what torch.compile has made calls
    kernels without passing by here.

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
            time: whether to measure each call.
        """
        self.records: list[Record] = []
        self._time = time
        self._token: contextvars.Token[explain | None] | None = None

    @property
    def fallbacks(self) -> int:
        """How many calls did not run where they were meant to."""
        return sum(record.fallback for record in self.records)

    def clock(self) -> float:
        """Seconds, or 0 if nobody asked for times."""
        return time.perf_counter() if self._time else 0.0

    def add(self, record: Record, started: float) -> None:
        """Appends a record of a call that began at clock() `started`."""
        if self._time:
            record.seconds = time.perf_counter() - started
        self.records.append(record)

    def to_json(self) -> str:
        """All records as a JSON array."""
        return json.dumps([dataclasses.asdict(record) for record in self.records], indent=2)

    def __str__(self) -> str:
        """A table, one line per call."""
        head = ("op", "shapes", "dtypes", "backend", "kernel", "reason", "us")
        rows = [head]
        for r in self.records:
            us = "" if r.seconds is None else f"{1e6 * r.seconds:.1f}"
            shapes = " ".join("x".join(map(str, shape)) or "()" for shape in r.shapes)
            rows.append((r.op, shapes, "/".join(r.dtypes), r.backend, r.kernel, r.reason, us))
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join(lines)

    def __enter__(self) -> explain:
        """Starts collecting."""
        self._token = _active.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops collecting; the records stay."""
        if self._token is not None:
            _active.reset(self._token)


def active() -> explain | None:
    """The innermost block that collects, if any."""
    return _active.get()


def describe(value: Any) -> tuple[tuple[int, ...], str, str]:
    """Shape, dtype and device of an array, for a record."""
    dtype = str(getattr(value, "dtype", "")).removeprefix("torch.")
    return tuple(map(int, getattr(value, "shape", ()))), dtype, str(getattr(value, "device", "cpu"))
