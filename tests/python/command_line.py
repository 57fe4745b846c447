"""Runs the command line tool."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
TOOL = os.environ.get("TILEWRIGHT_BIN", str(ROOT / "build" / "release" / "tilewright"))


def run_tool(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs the tool; the caller looks at the exit code."""
    return subprocess.run(
        [TOOL, *map(str, arguments)], capture_output=True, encoding="utf-8", check=False, **options
    )


def run_json(*arguments: object) -> dict:
    """Runs the tool with --json; its exit code must be 0."""
    result = run_tool(*arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def tool_logits(model: Path, tokens: list[int], out: Path, *flags: object) -> np.ndarray:
    """Logits of every position, [tokens, vocabulary]."""
    listed = ",".join(map(str, tokens))
    result = run_tool("logits", model, "--tokens", listed, "--out", out, *flags)
    assert result.returncode == 0, result.stderr
    return np.load(out)
