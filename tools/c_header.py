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
import re
import subprocess
import sys
from pathlib import Path

HEADER = Path(__file__).resolve().parents[1] / "tilewright" / "c" / "operators.h"
HEAD = """/* Written by tools/c_header.py from the catalog; do not edit.
 *
 * One function per operator. Tensors that are optional in the schema may be NULL. */
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


def function(op: dict) -> str:
    """The function of one operator."""
    parameters = ["tw_context* context"]
    for arg in op["arguments"]:
        const = "" if arg["output"] else "const "
        parameters.append(TYPES.get(arg["kind"], f"{const}tw_tensor* ") + arg["name"])
    values = [f"tw_{VALUES[arg['kind']]}_value({arg['name']})" for arg in op["arguments"]]
    comment = re.sub(r"\s+", " ", op["schema"])
    return (
        f"/* {comment} */\n"
        f"static inline tw_status tw_{op['name']}({', '.join(parameters)}) {{\n"
        f"  const tw_value arguments[] = {{{', '.join(values)}}};\n"
        "  const tw_operator* op = NULL;\n"
        f'  const tw_status status = tw_operator_find("{op["name"]}", &op);\n'
        "  if (status != TW_OK) return status;\n"
        f"  return tw_call(context, op, arguments, {len(values)}, NULL, NULL);\n"
        "}\n\n"
    )


def header(library: str) -> str:
    """The header's text for the catalog of a shared library, formatted."""
    loaded = ctypes.CDLL(str(Path(library).resolve()))
    loaded.tw_catalog.restype = ctypes.c_char_p
    text = HEAD + "".join(map(function, json.loads(loaded.tw_catalog()))) + TAIL
    command = ["clang-format-19", f"--assume-filename={HEADER}"]
    return subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout


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
