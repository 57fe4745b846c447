"""What a result was measured on."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def environment(tool: str | Path) -> dict[str, Any]:
    """The machine, as `tilewright env` sees it, and the commit."""
    output = subprocess.run([tool, "env", "--json"], capture_output=True, text=True, check=True)
    found = json.loads(output.stdout)
    found.pop("calibration_file")  # a place on this machine
    git = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    found["commit"] = subprocess.run(git, capture_output=True, text=True).stdout.strip()
    return found
