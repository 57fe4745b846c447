#!/usr/bin/env python3
"""Fails if a kernel object file could leak code for one instruction set to a lesser machine.

The linker keeps one copy of each weak symbol, from whichever object file comes first. A template or
inline function that is emitted, out of line, from a translation unit compiled for AVX-512 may thus
become the copy that an AVX2 machine executes. So every function which such an object file defines
must carry the name of its instruction set (tw::tile::avx512 ...) in its own name; the only others
are the entry points tw::ops::kernel_entries<Op, Isa>, which are strong and hence unique.

Usage: isa_symbols.py BUILD_DIR
"""

import re
import subprocess
import sys
from pathlib import Path

ENTRY_POINT = re.compile(r"\btw::ops::kernel_entries<")
PERSONALITY = "DW.ref.__gxx_personality_v0"  # a pointer, in whatever has destructors to run
STRONG, WEAK = "T", "WVu"


def offending_symbols(object_file: Path, isa: str) -> list[str]:
    """Demangled names of the functions in `object_file` that do not belong to `isa`."""
    output = subprocess.run(
        ["nm", "--demangle", "--defined-only", "--format=bsd", str(object_file)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    tag = re.compile(rf"\btw::tile::{isa}\b")
    offending = []
    for line in output.splitlines():
        _, kind, name = line.split(maxsplit=2)
        if kind not in STRONG + WEAK or tag.search(name) or name == PERSONALITY:
            continue
        if kind == STRONG and ENTRY_POINT.search(name):
            continue
        offending.append(name)
    return offending


def main() -> int:
    """Checks all kernel object files under the build directory."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    build = Path(sys.argv[1])
    failures = files = 0
    for directory in sorted(build.glob("CMakeFiles/tilewright_kernels_*.dir")):
        isa = directory.name.removeprefix("tilewright_kernels_").removesuffix(".dir")
        for object_file in sorted(directory.rglob("*.o")):
            files += 1
            for name in offending_symbols(object_file, isa):
                failures += 1
                print(f"{object_file.name} ({isa}) defines `{name}`, which does not name {isa}")
    print(f"isa_symbols: {files} kernel object files, {failures} symbols that could leak")
    return 1 if failures or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
