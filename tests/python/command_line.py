"""Runs the command line tool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
TOOL = os.environ.get("TILEWRIGHT_BIN", str(ROOT / "build" / "release" / "tilewright"))


def run_tool(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs the tool; the caller looks at the exit code."""
    return subprocess.run(
        [TOOL, *(a if isinstance(a, bytes) else str(a) for a in arguments)],
        capture_output=True,
        encoding="utf-8",
        check=False,
        **options,
    )


MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[2:]).returncode
with open(sys.argv[1], "w") as out:
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, file=out)
sys.exit(code)
"""


def peak_memory(
    *arguments: object, **options: object
) -> tuple[subprocess.CompletedProcess[str], int]:
    """Runs the tool; also the most memory it had, in bytes. By way of a small process: the figure
    begins with what the parent has, here all of pytest."""
    with tempfile.NamedTemporaryFile("r") as told:
        command = [sys.executable, "-I", "-S", "-c", MEASURE, told.name, TOOL]
        result = subprocess.run(
            [*command, *map(str, arguments)],
            capture_output=True,
            encoding="utf-8",
            check=False,
            **options,
        )
        return result, int(told.read())


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
