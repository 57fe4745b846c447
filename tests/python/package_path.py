"""Importing this makes the package of the source tree importable, with a build's libraries."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TILEWRIGHT_BIN", ROOT / "build" / "release" / "tilewright")).parent

os.environ.setdefault("TILEWRIGHT_LIBRARY_DIR", str(BUILD.resolve()))
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "testing" / "python")]
