"""docs/guide/environment.md lists the variables that the library and the package read."""

from __future__ import annotations

import re

from package_path import ROOT

FOLDERS = ("tilewright", "python/tilewright")
READ = re.compile(r'"(TILEWRIGHT_[A-Z0-9_]+|DISABLE_FALLBACK)"')


def test_each_has_a_line() -> None:
    read = {
        name
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".cc", ".h", ".py"}
        for name in READ.findall(path.read_text())
    }
    guide = (ROOT / "docs" / "guide" / "environment.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", guide, re.MULTILINE)) == read
