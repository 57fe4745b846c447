#!/usr/bin/env python3
"""Writes tilewright/c/operators.h, one typed C function per operator, from the catalog.

Example:
    python3 tools/c_header.py build/release/libtilewright.so
    python3 tools/c_header.py build/release/libtilewright.so --check   # fails when out of date
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import textwrap
from pathlib import Path

HEADER = Path(__file__).resolve().parents[1] / "tilewright" / "c" / "operators.h"
HEAD = """/* Written by tools/c_header.py from the catalog; do not edit.
 *
 * One function per operator. Tensors that are optional in the schema may be NULL. */
/* clang-format off */
#ifndef TILEWRIGHT_C_OPERATORS_H_
#define TILEWRIGHT_C_OPERATORS_H_

#include "tilewright/c/tilewright.h"

#ifdef __cplusplus
extern "C" {
#endif

"""
TAIL = """#ifdef __cplusplus
}
#endif

#endif /* TILEWRIGHT_C_OPERATORS_H_ */
"""
TYPES = {
    "float": "double ",
    "int": "int64_t ",
    "bool": "int64_t ",
    "choice": "const char* ",
    "text": "const char* ",
}
VALUES = {
    "float": "float",
    "int": "int",
    "bool": "int",
    "choice": "text",
    "text": "text",
    "tensor": "tensor",
}


def filled(before: str, words: list[str], end: str, indent: str = "") -> str:
    """Words that stay whole, in lines of at most 100 columns that begin where the first does."""
    space = "\N{NO-BREAK SPACE}"  # which textwrap takes for a letter
    text = " ".join(word.replace(" ", space) for word in words) + end.replace(" ", space)
    lines = textwrap.fill(
        text, 100, initial_indent=before, subsequent_indent=indent or " " * len(before),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return lines.replace(space, " ")


def listed(items: list[str]) -> list[str]:
    """With a comma after each but the last."""
    return [item + "," for item in items[:-1]] + items[-1:]


def function(op: dict) -> str:
    """The function of one operator."""
    name = op["name"]
    parameters = ["tw_context* context"]
    for arg in op["arguments"]:
        const = "" if arg["output"] else "const "
        parameters.append(TYPES.get(arg["kind"], f"{const}tw_tensor* ") + arg["name"])
    values = [f"tw_{VALUES[arg['kind']]}_value({arg['name']})" for arg in op["arguments"]]
    return "\n".join(
        (
            filled("/* ", op["schema"].split(), " */", " * "),
            filled(f"static inline tw_status tw_{name}(", listed(parameters), ") {"),
            filled("  const tw_value arguments[] = {", listed(values), "};"),
            "  const tw_operator* op = NULL;",
            f'  const tw_status status = tw_operator_find("{name}", &op);',
            "  if (status != TW_OK) return status;",
            f"  return tw_call(context, op, arguments, {len(values)}, NULL, NULL);",
            "}\n\n",
        )
    )


def header(library: str) -> str:
    """The header's text for the catalog of a shared library."""
    loaded = ctypes.CDLL(str(Path(library).resolve()))
    loaded.tw_catalog.restype = ctypes.c_char_p
    return HEAD + "".join(map(function, json.loads(loaded.tw_catalog()))) + TAIL


def main() -> int:
    """Writes the header, or compares it with --check."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library", help="libtilewright.so")
    parser.add_argument("--check", action="store_true", help="only compare")
    arguments = parser.parse_args()
    text = header(arguments.library)
    if not arguments.check:
        HEADER.write_text(text)
    elif not HEADER.exists() or HEADER.read_text() != text:
        print(f"{HEADER.name} is out of date: run tools/c_header.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
