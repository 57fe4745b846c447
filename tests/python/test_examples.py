"""The training example runs, and both of its models learn the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_training_a_character_model(tmp_path: Path) -> None:
    curves = tmp_path / "curves.png"
    result = subprocess.run(
        [sys.executable, ROOT / "examples" / "train_char_lm.py", "--steps", "12", "--dim", "32",
         "--layers", "1", "--length", "32", "--batch", "4", "--plot", curves],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    found = re.search(r"loss (\S+) -> (\S+); the curves differ by (\S+)", result.stdout)
    assert found, result.stdout
    first, last, apart = map(float, found.groups())
    assert last < first - 0.3
    assert apart < 1e-4
    assert f"curves: {curves}" in result.stdout
    assert curves.read_bytes().startswith(b"\x89PNG")
