"""What run.py prints."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any


def show(row: dict[str, Any]) -> None:
    """A row as a line."""
    name = f"{row['op']} {row['workload']} {row['dtype']} x{row['threads']}"
    if row["status"] == "unchecked":
        print(f"{name:52} UNCHECKED, not timed: too large for the definition, and no peer")
        return
    if row["status"] != "ok":
        print(f"{name:52} MISMATCH, not timed: {row['mismatch']}")
        return
    share = row.get("fraction_of_limit")
    parts = [f"{name:52} {row['us']:10.1f} us [{row['us_p10']:.1f}, {row['us_p90']:.1f}]"]
    if "gflops" in row:
        parts.append(f"{row['gflops']:8.1f} GF/s {row['gbs']:6.1f} GB/s")
        parts.append("   -" if share is None else f"{100 * share:3.0f}%")
    parts += [f"{peer} {r['ratio']:.2f}x" for peer, r in row["peers"].items()]
    parts += [f"{peer} MISMATCH" for peer in row["mismatched_peers"]]
    print("  ".join(parts), flush=True)


def show_means(rows: list[dict[str, Any]], threads_of: Sequence[int], peers: Sequence[str]) -> None:
    """A line for each peer and number of threads."""
    for threads in threads_of:
        for peer in peers:
            ratios = [
                row["peers"][peer]["ratio"]
                for row in rows
                if row["threads"] == threads and peer in row.get("peers", {})
            ]
            if ratios:
                mean = statistics.geometric_mean(ratios)
                print(
                    f"geometric mean against {peer}, threads {threads}: "
                    f"{mean:.2f}x over {len(ratios)} workloads"
                )
