#!/usr/bin/env python3
"""Writes docs/reference/operators.md from the operator catalog.

Example:
    python3 tools/docs.py build/release/tilewright
    python3 tools/docs.py build/release/tilewright --check   # fails when the page is out of date
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "operators.md"
HEAD = """# Operators

Written by `make docs` from the catalog; do not edit. `*` stands for any leading dimensions, `...`
for shapes that broadcast, `?` for an optional tensor. Every size may be 0, every stride is taken.
Dtypes in brackets have no kernel of their own: the definition answers. Gradients are computed by
other operators (tilewright/ops/core/gradient.h has the grammar).

| operator | schema | dtypes | gradient |
|---|---|---|---|
"""


def page(tool: str) -> str:
    """The page's text for the catalog of `tool`."""
    output = subprocess.run([tool, "ops", "--json"], check=True, capture_output=True, text=True)
    rows = []
    for op in json.loads(output.stdout):
        dtypes = " ".join("/".join(combo.values()) for combo in op["dtypes"] if combo)
        defined = " ".join("/".join(combo.values()) for combo in op["reference_dtypes"])
        dtypes += f" ({defined})" if defined else ""
        schema = op["schema"].replace("|", "\\|")
        gradient = f"`{op['gradient']['text']}`" if op["gradient"] else ""
        rows.append(f"| {op['name']} | `{schema}` | {dtypes or 'as stated'} | {gradient} |\n")
    return HEAD + "".join(rows)


def main() -> int:
    """Writes the page, or compares it with --check."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tool", help="the tilewright program")
    parser.add_argument("--check", action="store_true", help="only compare")
    arguments = parser.parse_args()
    text = page(arguments.tool)
    if arguments.check:
        if PAGE.exists() and PAGE.read_text() == text:
            return 0
        print(f"{PAGE.name} is out of date: run `make docs`", file=sys.stderr)
        return 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
