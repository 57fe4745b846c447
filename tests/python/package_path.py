"""Importing this makes the package of the source tree importable, with a build's libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TILEWRIGHT_BIN", ROOT / "build" / "release" / "tilewright")).parent

os.environ.setdefault("TILEWRIGHT_LIBRARY_DIR", str(BUILD.resolve()))
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "testing" / "python")]


def run_python(
    code: str, *arguments: object, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs code in a new interpreter that finds the package; the caller looks at the exit code."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
