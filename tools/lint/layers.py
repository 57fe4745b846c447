#!/usr/bin/env python3
"""Checks who may include whom, and who may write what belongs to a processor.

Data flows one way, from left to right in LAYERS.
"""

import re
import sys
from pathlib import Path

import tree

LAYERS = ["core", "tile", "kernels", "ops", "graph", "compiler", "runtime", "models", "c"]

# What only some folders may include.
SEALED = [
    (re.compile(r"torch/|ATen/|c10/"), ("python/",)),
    (
        re.compile(r"cuda\w*\.h|nv\w+\.h|cu[A-Z]\w*\.h"),
        ("tilewright/tile/cuda/", "tilewright/runtime/cuda/"),
    ),
    (re.compile(r"(imm|x86|[a-z]mm)intrin\.h"), ("tilewright/tile/cpu/",)),
]
# What only some may write: names that no other code would choose, comments and literals aside.
RAW = [
    (
        "raw SIMD",
        re.compile(r"\b(?:_mm\d*_\w+|_tile_\w+|__builtin_ia32_\w+|__m(?:mask)?\d+\w*)"),
        ("tilewright/tile/cpu/",),
    ),
    (
        "assembly",
        re.compile(r"\b(?:asm|__asm__|__asm)\b"),
        # The header embeds a file, the benchmarks keep values alive.
        (
            "tilewright/tile/",
            "tilewright/runtime/",
            "tilewright/core/types_cuda.h",
            "tilewright/ops/core/build_cuda.h",
            "benchmarks/micro/",
        ),
    ),
]
# What nobody in the first folder may include from the others.
APART = {
    "tilewright": ("tools", "testing", "tests", "benchmarks", "examples", "experimental"),
    "testing": ("tools", "tests", "benchmarks", "examples", "experimental"),
    "tests": ("benchmarks", "examples"),
    "benchmarks": ("tests", "examples", "experimental"),
    "tools": ("tests", "benchmarks", "examples", "experimental"),
}
EXPERIMENTAL_USERS = ("experimental/", "tests/experimental/")
GENERATED = {"tilewright/built_isas.h", "tilewright/built_cuda.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def layer(path: str) -> int | None:
    """Index of the layer that a path of the library lies in; None outside the layers."""
    parts = path.split("/")
    if parts[0] != "tilewright" or len(parts) < 3:
        return None
    return LAYERS.index(parts[1]) if parts[1] in LAYERS else None


def complaint(path: str, quote: str, included: str) -> str | None:
    """Why `path` may not include `included`, or None."""
    for pattern, allowed in SEALED:
        if pattern.match(included) and not path.startswith(allowed):
            return f"<{included}> belongs to {' and '.join(allowed)}"
    if quote == "<":
        return None
    if included not in GENERATED and not (tree.ROOT / included).is_file():
        return f'"{included}" is no file; includes in quotes start at the root of the repository'
    top = path.split("/")[0]
    if included.split("/")[0] in APART.get(top, ()):
        return f"{top}/ may not include {included}"
    if included.startswith("experimental/") and not path.startswith(EXPERIMENTAL_USERS):
        return f"nobody includes experimental code ({included})"
    mine, theirs = layer(path), layer(included)
    if mine is not None and theirs is not None and theirs > mine:
        return f"`{LAYERS[mine]}` may not include `{LAYERS[theirs]}` ({included})"
    return None


def raw_uses(path: str, code: str) -> list[str]:
    """Complaints about what the file may not write."""
    return [
        f"{path}:{code.count(chr(10), 0, match.start()) + 1}: {match.group()}: {what} belongs to "
        f"{' and '.join(allowed)}"
        for what, pattern, allowed in RAW
        if not path.startswith(allowed)
        for match in pattern.finditer(code)
    ]


def check(path: Path) -> list[str]:
    """All complaints about one file."""
    name = path.as_posix()
    found = []
    if name.startswith("tilewright/") and len(path.parts) > 2 and layer(name) is None:
        found.append(f"{name}: `{path.parts[1]}` is no layer; layers are {' '.join(LAYERS)}")
    source = tree.text(path)
    for match in INCLUDE.finditer(source):
        reason = complaint(name, match.group(1), match.group(2))
        if reason:
            found.append(f"{name}:{source.count(chr(10), 0, match.start()) + 1}: {reason}")
    return found + raw_uses(name, tree.without_literals(source))


def main() -> int:
    """Checks every C++ file."""
    paths = tree.files(".h", ".cc", ".cu", ".cuh")
    complaints = [line for path in paths for line in check(path)]
    print("\n".join([*complaints, f"layers: {len(paths)} files, {len(complaints)} complaints"]))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
