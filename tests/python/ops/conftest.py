"""The package from the source tree, with the libraries of a build directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("TILEWRIGHT_BIN", ROOT / "build" / "release" / "tilewright")).parent

os.environ.setdefault("TILEWRIGHT_LIBRARY_DIR", str(BUILD.resolve()))
sys.path[:0] = [str(ROOT / "python"), str(Path(__file__).parent)]
