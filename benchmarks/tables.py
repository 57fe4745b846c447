"""A table of the README, and those of what a machine can do."""

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


def gpu_limits(data: dict[str, Any]) -> str:
    """One row for each limit of the GPU, with the clock and the power under it; then occupancy."""
    gpu = data["gpu"]
    about = (
        f"{gpu['name']}, {gpu['multiprocessors']} multiprocessors; tilewright {data['version']}. "
        "Clock and power are those under the row's own load."
    )
    rows = []
    for name, row in gpu["limits"].items():
        clock = f"{row['clock_mhz']:.0f} MHz" if "clock_mhz" in row else ""
        power = f"{row['power_w']:.0f} W" if "power_w" in row else ""
        rows.append([name, f"{row['value']:.4g} {row['unit']}", clock, power])
    limits = table(about, ["limit", "", "clock", "power"], rows)
    if not gpu["resident"]:
        return limits
    resident = [
        [str(row["threads"]), str(row["registers"]), f"{row['shared_bytes'] >> 10} KiB",
         str(row["blocks"])]
        for row in gpu["resident"]
    ]  # fmt: skip
    heads = ["threads", "registers", "shared memory", "blocks"]
    return f"{limits}\n{table('Blocks that a multiprocessor has at once:', heads, resident)}"
