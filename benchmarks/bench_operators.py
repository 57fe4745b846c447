"""The benchmarks, one operator a test: what run.py prints, and a failure where it refuses to time.

Example:
    python -m pytest benchmarks/bench_operators.py -s -k rms_norm --suite short --peers torch
"""

from __future__ import annotations

import pytest
import run

OPERATORS = sorted({case.op.name for case in run.every_workload()})


@pytest.mark.parametrize("op", OPERATORS)
def test_operator(op: str, run_options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator's workloads beside its peers."""
    monkeypatch.setattr("sys.argv", ["run.py", "--op", op, *run_options])
    assert run.main() == 0
