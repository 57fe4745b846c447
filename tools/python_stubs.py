#!/usr/bin/env python3
"""Writes python/tilewright/ops.pyi, the types of every operator's function, from the catalog.

Example:
    TILEWRIGHT_LIBRARY_DIR=build/release python3 tools/python_stubs.py
    TILEWRIGHT_LIBRARY_DIR=build/release python3 tools/python_stubs.py --check
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / "python"
sys.path.insert(0, str(PYTHON))

from tilewright import _schema, ops  # noqa: E402 - from the source tree

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


STRUCT = re.compile(r"((?:^///.*\n)*)^(?:template .*\n)?struct \w+", re.M)
SCHEMA = re.compile(r'kSchema\{\s*"(\w+)\(')
NUMPY = {"f32": "float32", "i32": "int32", "i64": "int64", "bool": "bool", "i8": "int8"}


def descriptions() -> dict[str, str]:
    """What each operator computes, as the headers say it."""
    out = {}
    for path in sorted((ROOT / "tilewright" / "ops").glob("*.h")):
        text = path.read_text()
        structs = list(STRUCT.finditer(text))
        ends = [*(struct.start() for struct in structs), len(text)][1:]
        for struct, end in zip(structs, ends, strict=True):
            lines = [line.removeprefix("///").strip() for line in struct[1].splitlines()]
            for name in SCHEMA.findall(text, struct.end(), end):
                out[name] = " ".join(lines).replace("Throws kInvalidArgument", "ValueError")
    return out


def example(op: _schema.Operator) -> list[str]:
    """A call with small arrays, and the shape of its result; nothing where none is simple."""
    given, shown = [], []
    for arg in op.inputs:
        if arg.default or arg.optional:
            break
        type_ = op.dtypes[0].get(arg.type, arg.type)
        if arg.kind != "tensor" or arg.is_int_list or type_ not in NUMPY:
            return []
        shape = tuple({"*": 2, "...": 3}.get(dim, 4) for dim in arg.dims)
        given.append(np.zeros(shape, NUMPY[type_]))
        shown.append(f"np.zeros({shape}, np.{NUMPY[type_]})")
    try:
        made: Any = getattr(ops, op.name)(*given)
    except (ValueError, NotImplementedError):
        return []
    first = "[0]" if isinstance(made, tuple) else ""
    shape = made[0].shape if first else made.shape
    call = [f">>> ops.{op.name}(", *(f"...     {array}," for array in shown), f"... ){first}.shape"]
    if len(shown) == 1:
        call = [f">>> ops.{op.name}({shown[0]}){first}.shape"]
    lines = [">>> import numpy as np", ">>> from tilewright import ops", *call, str(shape)]
    return ["Example:", *(f"    {line}" for line in lines)]


def docstring(op: _schema.Operator, description: str) -> str:
    """Of a function: what it computes, its arguments, its results and a call."""
    lines = textwrap.wrap(description, 92) or [op.name]
    lines += ["", *textwrap.wrap(op.schema, 92), "", "Args:"]
    for arg in op.inputs:
        dims = f"[{', '.join(arg.dims)}]" if arg.kind == "tensor" else ""
        default = f", by default {arg.default}" if arg.default else ""
        optional = ", or None" if arg.optional else ""
        lines.append(f"    {arg.name}: {arg.type.replace('|', ', ')}{dims}{default}{optional}.")
    lines.append("    backend: which one runs it, by default the current one.")
    results = (f"{out.name}: {out.type}[{', '.join(out.dims)}]" for out in op.required_outputs)
    lines += ["", "Returns:", f"    {'; '.join(results)}."]
    more = example(op)
    lines += ["", *more] if more else []
    body = textwrap.indent("\n".join(lines), "    ").strip()
    return '    r"""' + re.sub(r"[ \t]+\n", "\n", body) + '\n    """\n'


def function(op: _schema.Operator, description: str) -> str:
    """The declaration of one function."""
    lines = []
    for i, arg in enumerate(op.inputs):
        default = arg.default_value
        shown = "" if default is inspect.Parameter.empty else f" = {default!r}".replace("'", '"')
        lines.append(f"    {arg.name}: {annotation(arg, i == 0)}{shown},\n")
    count = len(op.required_outputs)
    result = "_Array" if count == 1 else f"tuple[{', '.join(['_Array'] * count)}]"
    parameters = "".join(lines) + "    *,\n    backend: str | None = None,\n"
    return f"def {op.name}(\n{parameters}) -> {result}:\n{docstring(op, description)}\n"


def stub() -> str:
    """The whole file."""
    known = descriptions()
    functions = (function(op, known.get(op.name, "")) for op in _schema.operators().values())
    return HEAD + "".join(functions).rstrip() + "\n"


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
