#!/usr/bin/env python3
"""Compiles every translation unit of a build once more with Clang, warnings as errors.

Only the front end runs (templates are instantiated, nothing is optimized), which takes a fraction
of a build; the sanitizer builds generate code with Clang. With ccache its unoptimized output is
kept, and what did not change takes no time.

Usage: clang_syntax.py BUILD_DIR [PATH_PART...]   only files whose path contains one of these
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CLANG = "clang++-19"
CACHE = "ccache"
GCC_ONLY = ("-Wno-restrict", "-Wno-maybe-uninitialized", "-Wno-subobject-linkage")
# What nothing here does, and Clang has other names for.
OPTIMIZATIONS = (
    *("-fno-ipa-", "-fno-unswitch-", "-fno-split-", "-fno-version-loops-", "-fno-loop-"),
    *("-fno-tree-", "-fno-predictive-", "-fno-gcse-", "-fvect-"),
)
WITH_VALUE = ("-o", "-MT", "-MF", "-include")  # what is included so is a precompiled header
ALONE = ("-c", "-MD", "-Werror")


def clang_command(entry: dict[str, str]) -> list[str]:
    """The front-end run that corresponds to an entry of compile_commands.json."""
    words = shlex.split(entry["command"])
    if Path(words[0]).name == CACHE:
        words = words[1:]
    command = [CLANG, "-Werror", "-Wno-deprecated-declarations"]
    built = ""
    arguments = iter(words[1:])
    for word in arguments:
        if word in WITH_VALUE:
            value = next(arguments)
            built = value if word == "-o" else built
        elif word not in (*ALONE, *GCC_ONLY) and not word.startswith(OPTIMIZATIONS):
            command.append(word)
    if not shutil.which(CACHE):
        return [*command, "-fsyntax-only"]
    output = Path(entry["directory"]) / "clang" / f"{built}.bc"
    output.parent.mkdir(parents=True, exist_ok=True)
    unoptimized = ["-emit-llvm", "-Xclang", "-disable-llvm-passes"]
    return [CACHE, *command, "-c", *unoptimized, "-o", str(output)]


def check(entry: dict[str, str]) -> str:
    """The diagnostics for one translation unit; empty when it compiles."""
    result = subprocess.run(
        clang_command(entry), cwd=entry["directory"], capture_output=True, text=True, check=False
    )
    if result.returncode == 0:
        return ""
    return result.stderr or f"{entry['file']}: {CLANG} exited with {result.returncode}"


def main() -> int:
    """Checks all translation units, as many at a time as there are cores."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    entries = json.loads((Path(sys.argv[1]) / "compile_commands.json").read_text())
    parts = sys.argv[2:] or [""]
    entries = [entry for entry in entries if any(part in entry["file"] for part in parts)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = [text for text in pool.map(check, entries) if text]
    print("\n".join([*failures, f"clang_syntax: {len(entries)} files, {len(failures)} fail"]))
    return 1 if failures or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
