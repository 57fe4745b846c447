"""The types of operators' functions: arrays of any library and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CALLS = """
import tilewright.ops as ops

class Lender:
    def __dlpack__(self, *, stream: int | None = None) -> object: ...

out: Lender = ops.softmax(Lender())
ops.softmax(3.0)
ops.softmax([3.0])
"""


def test_numbers_and_lists_are_no_arrays(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "calls.py").write_text(CALLS)
    stub = ROOT / "python" / "tilewright" / "ops.pyi"
    alone = ["--strict", "--follow-imports=skip", f"--cache-dir={tmp_path}"]
    result = subprocess.run(
        [sys.executable, "-m", "mypy", *alone, str(stub), "calls.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    refused = [line for line in result.stdout.splitlines() if "error:" in line]
    assert len(refused) == 2, result.stdout + result.stderr
    for line, number, kind in zip(refused, (8, 9), ("float", "list[float]"), strict=True):
        assert line.startswith(f"calls.py:{number}: ")
        assert f'"_Array" of "softmax" cannot be "{kind}"' in line
