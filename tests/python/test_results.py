"""What the README's tables show was checked before it was timed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Of workloads: what benchmarks/run.py and `tilewright bench` measure.

    They say of each row how it was checked. The programs in benchmarks/gpu end at the first output
    that does not match.
    """
    rows = json.loads(path.read_text()).get("results", [])
    return rows if rows and "workload" in rows[0] else []


FILES = {path.name: rows for path in sorted(RESULTS.glob("*.json")) if (rows := rows_of(path))}


def test_files_are_there() -> None:
    assert {"operators.json", "peers.json", "peers_doors.json"} <= FILES.keys()


@pytest.mark.parametrize("name", FILES)
def test_every_row_was_checked(name: str) -> None:
    unchecked = [
        f"{row['op']} {row['workload']} {row['dtype']} x{row['threads']}"
        for row in FILES[name]
        if row.get("checked") in (None, False, "not") or row.get("status", "ok") != "ok"
    ]
    assert unchecked == []
