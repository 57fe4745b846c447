#!/usr/bin/env python3
"""Writes python/tilewright/ops.pyi, the types of every operator's function, from the catalog.

Example:
    TILEWRIGHT_LIBRARY_DIR=build/release python3 tools/python_stubs.py
    TILEWRIGHT_LIBRARY_DIR=build/release python3 tools/python_stubs.py --check
"""

from __future__ import annotations

import argparse
import inspect
import sys
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[1] / "python"
sys.path.insert(0, str(PYTHON))

from tilewright import _schema  # noqa: E402 - from the source tree

STUB = PYTHON / "tilewright" / "ops.pyi"
HEAD = '''"""Every operator of the catalog. Written by tools/python_stubs.py; do not edit."""

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

_Array = TypeVar("_Array")

'''


def annotation(arg: _schema.Argument, first: bool) -> str:
    """The type of one argument: the first array gives the kind of the result."""
    if arg.is_int_list:
        return "Sequence[int]"
    if arg.kind == "choice":
        names = ", ".join(f'"{choice}"' for choice in arg.choices)
        return f"Literal[{names}]"
    if arg.kind != "tensor":
        return arg.kind
    array = "_Array" if first else "Any"
    return f"{array} | None" if arg.optional else array


def function(op: _schema.Operator) -> str:
    """The declaration of one function."""
    lines = []
    for i, arg in enumerate(op.inputs):
        default = arg.default_value
        shown = "" if default is inspect.Parameter.empty else f" = {default!r}".replace("'", '"')
        lines.append(f"    {arg.name}: {annotation(arg, i == 0)}{shown},\n")
    count = len(op.required_outputs)
    result = "_Array" if count == 1 else f"tuple[{', '.join(['_Array'] * count)}]"
    parameters = "".join(lines) + "    *,\n    backend: str | None = None,\n"
    return f'def {op.name}(\n{parameters}) -> {result}:\n    """{op.schema}"""\n\n'


def stub() -> str:
    """The whole file."""
    return HEAD + "".join(map(function, _schema.operators().values())).rstrip() + "\n"


def main() -> int:
    """Writes the stub, or compares it with --check."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    text = stub()
    if not parser.parse_args().check:
        STUB.write_text(text)
    elif not STUB.exists() or STUB.read_text() != text:
        print(f"{STUB.name} is out of date: run tools/python_stubs.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
