"""A table of the README, and that of what a CPU can do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def table(about: str, heads: list[str], rows: Iterable[list[str]]) -> str:
    """A line about the figures, then the figures."""
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, *rows)]
    return "\n".join([f"{about}\n", lines[0], f"|{'---|' * len(heads)}", *lines[1:]]) + "\n"


def limits(data: dict[str, Any]) -> str:
    """One row for each limit of the machine, as benchmarks/micro measures it."""
    about = f"{data['processor']}; tilewright {data['version']}, g++ {data['compiler']}."
    rows = []
    for name, row in data["limits"].items():
        cells = [f"{row[key]:.4g}" if key in row else "" for key in ("one_thread", "all_threads")]
        rows.append([name, *cells, row["unit"]])
    return table(about, ["limit", "1 thread", f"{data['threads']} threads", ""], rows)
