#!/usr/bin/env python3
"""Says which CUDA kernels use more local memory than they may, from the log of a build.

    tools/lint/cuda_stack.py build/cuda/ptxas.log

The build must have been configured with TILEWRIGHT_CUDA_RESOURCES. Local memory is where registers
spill to and where arrays lie that are indexed at run time: both are slow. Bytes that an operator's
kernels may have are in cuda_stack.toml; all others may have none.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

UNIT = re.compile(r"Building CUDA kernels of (\S+)")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores")


def largest_frames(log: str) -> dict[str, tuple[int, int]]:
    """Stack frame and spilled bytes of each unit's worst kernel."""
    found: dict[str, tuple[int, int]] = {}
    unit = ""
    for line in log.splitlines():
        if match := UNIT.search(line):
            unit = match[1]
        elif match := STACK.search(line):
            found[unit] = max(found.get(unit, (0, 0)), (int(match[1]), int(match[2])))
    return found


def main() -> int:
    """Prints the kernels beyond their budget; the number of these is the exit status' reason."""
    budget: dict[str, int] = tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text()
    )["bytes"]  # fmt: skip
    found = largest_frames(Path(sys.argv[1]).read_text())
    complaints = [
        f"{unit}: a kernel has {frame} bytes of local memory ({spilled} spilled), "
        f"but {budget.get(unit, 0)} are allowed"
        for unit, (frame, spilled) in sorted(found.items())
        if frame > budget.get(unit, 0)
    ]
    print(*complaints, sep="\n", end="\n" if complaints else "")
    print(f"cuda_stack: {len(found)} units, {len(complaints)} complaints")
    if not found:
        print("the log tells of no kernel: was it built with TILEWRIGHT_CUDA_RESOURCES?")
    return int(bool(complaints) or not found)


if __name__ == "__main__":
    sys.exit(main())
