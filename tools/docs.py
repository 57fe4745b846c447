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
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "operators.md"
HEAD = """# Operators

Written by `make docs` from the catalog; do not edit. `*` stands for any leading dimensions, `...`
for shapes that broadcast, `?` for an optional tensor. Every size may be 0, every stride is taken.
Dtypes in brackets have no kernel of their own: the definition answers. Gradients are computed by
other operators (tilewright/ops/core/gradient.h has the grammar). Results are within a tolerance of
the definition's, relative to the element and to the root mean square of all: 1e-5 in float32, 1e-3
in float16, 1.6e-2 in bfloat16, times what stands in the last column, for CPUs and, where it
differs, for GPUs; the operator's header (tilewright/ops) says why.

| operator | schema | dtypes | gradient | tolerance |
|---|---|---|---|---|
"""


def tolerance(op: dict[str, Any]) -> str:
    """What the tolerance of a dtype is multiplied with; nothing where that is 1."""
    cpu, gpu = op["tolerance_scale"], op["gpu_tolerance_scale"]
    if cpu == gpu:
        return "" if cpu == 1 else f"x {cpu:g}"
    return f"x {cpu:g}, GPU x {gpu:g}"


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
        cells = [op["name"], f"`{schema}`", dtypes or "as stated", gradient, tolerance(op)]
        rows.append(f"| {' | '.join(cells)} |\n")
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
