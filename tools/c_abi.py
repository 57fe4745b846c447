#!/usr/bin/env python3
"""Writes docs/reference/c_abi.txt: what programs compiled against the C interface rely on.

Functions with their types and symbol versions, layouts of structures, values of enumerations, one
fact a line. Facts may be added; one that is gone or different is a break, for which TW_ABI_VERSION
has to be raised first.

Example:
    python3 tools/c_abi.py build/release/libtilewright.so
    python3 tools/c_abi.py build/release/libtilewright.so --check
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADER = ROOT / "tilewright" / "c" / "tilewright.h"
RECORD = ROOT / "docs" / "reference" / "c_abi.txt"

FUNCTION = re.compile(r"TW_C_API\s+([^;]+?)\s*\(([^;]*)\)\s*;")
CALLBACK = re.compile(r"typedef\s+([^;{}]+?)\(\*(\w+)\)\s*\(([^;]*)\)\s*;")
RECORDS = re.compile(r"typedef struct (\w+) \{(.*?)\}\s*\1\s*;", re.S)
ENUMS = re.compile(r"typedef enum (\w+) \{(.*?)\}\s*\1\s*;", re.S)
UNION = re.compile(r"union \{(.*?)\}\s*(\w+)\s*;", re.S)
MEMBER = re.compile(r"(\w+)\s*(?:\[\w+\])?\s*;")


def plain(source: str) -> str:
    """The text without comments, in single spaces."""
    return " ".join(re.sub(r"/\*.*?\*/", " ", source, flags=re.S).split())


def members(body: str) -> list[str]:
    """Names of a structure's members; those of a union after its own."""
    names = []
    for inner, name in UNION.findall(body):
        names += [name, *(f"{name}.{member}" for member in MEMBER.findall(inner))]
    return [*MEMBER.findall(UNION.sub("", body)), *names]


def layouts(header: Path, text: str) -> list[str]:
    """Sizes, offsets and values, as the compiler has them."""
    lines = []
    for name, body in RECORDS.findall(text):
        lines.append(f'printf("struct {name}: %zu bytes\\n", sizeof({name}));')
        for member in members(body):
            facts = f"offsetof({name}, {member}), sizeof((({name}*)0)->{member})"
            lines.append(f'printf("struct {name}.{member}: at %zu, %zu bytes\\n", {facts});')
    for name, body in ENUMS.findall(text):
        lines.append(f'printf("enum {name}: %zu bytes\\n", sizeof({name}));')
        for value in re.findall(r"\b(TW_\w+)", body):
            lines.append(f'printf("enum {name}: {value} = %d\\n", (int){value});')
    includes = f'#include <stddef.h>\n#include <stdio.h>\n#include "{header}"\n'
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "layout.c", Path(folder) / "layout"
        source.write_text(includes + "int main(void) {\n" + "\n".join(lines) + "\n}\n")
        subprocess.run(["cc", "-std=c11", source, "-o", program], check=True)
        out = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return out.splitlines()


def exported(library: str) -> dict[str, str]:
    """The version of each C symbol that the library shows."""
    command = ["nm", "--dynamic", "--defined-only", library]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(re.findall(r" T (tw_\w+)@@(\w+)", text))


def facts(library: str, header: Path) -> list[str]:
    """All lines of the record."""
    text = plain(header.read_text())
    symbols = exported(library)
    version = re.search(r"#define TW_ABI_VERSION (\d+)", header.read_text())
    assert version is not None, "the header has no TW_ABI_VERSION"
    out = [f"version {version[1]}"]
    declared = set()
    for head, parameters in FUNCTION.findall(text):
        name = re.findall(r"\w+", head)[-1]
        declared.add(name)
        if name not in symbols:
            raise SystemExit(f"c_abi: {name} is declared, but not a versioned symbol of {library}")
        out.append(f"{symbols[name]}: {head}({parameters})")
    if undeclared := symbols.keys() - declared:
        raise SystemExit(f"c_abi: {', '.join(sorted(undeclared))}: exported, but not declared")
    out += [
        f"type {name}: {result.strip()}(*)({types})"
        for result, name, types in CALLBACK.findall(text)
    ]
    return [*out, *layouts(header, text)]


def main() -> int:
    """Writes the record, or compares it with --check; refuses breaks either way."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library", help="libtilewright.so")
    parser.add_argument("--header", type=Path, default=HEADER)
    parser.add_argument("--check", action="store_true", help="only compare")
    arguments = parser.parse_args()
    found = facts(arguments.library, arguments.header.resolve())
    recorded = RECORD.read_text().splitlines() if RECORD.exists() else []
    gone = [line for line in recorded if line not in found]
    if gone and found[0] == recorded[0]:
        print("c_abi: within one TW_ABI_VERSION these may not change:", *gone, sep="\n  ",
              file=sys.stderr)  # fmt: skip
        return 1
    if not arguments.check:
        RECORD.write_text("\n".join(found) + "\n")
    elif found != recorded:
        print(f"{RECORD.name} is out of date: run tools/c_abi.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
