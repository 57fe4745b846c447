"""The benchmarks, one operator a test: what run.py prints, and a failure where it refuses to time.

bench_NAME.py are links to this file, which measures the operator that it is called by.

Example:
    python benchmarks/bench_rms_norm.py --suite short
    python -m pytest benchmarks/bench_operators.py -s -k rms_norm --suite short --peers torch
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import run

NAME = Path(__file__).stem.removeprefix("bench_")  # of the link
ALL = sorted({case.op.name for case in run.every_workload()})
OPERATORS = ALL if NAME == "operators" else [NAME]


@pytest.mark.parametrize("op", OPERATORS)
def test_operator(op: str, run_options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator's workloads beside its peers."""
    monkeypatch.setattr("sys.argv", ["run.py", "--op", op, *run_options])
    assert run.main() == 0


if __name__ == "__main__":
    sys.argv[1:1] = [] if OPERATORS is ALL else ["--op", NAME]
    sys.exit(run.main())
