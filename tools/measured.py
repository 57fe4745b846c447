#!/usr/bin/env python3
"""Runs a command; says how long it took and how much memory its processes had at once.

Example:
    tools/measured.py python3 -m pip wheel . --no-deps
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

SECONDS = 0.25  # between two looks


def processes(root: int) -> list[int]:
    """A process and all that it started."""
    found = [root]
    for pid in found:  # which grows
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                found += map(int, children.read_text().split())
            except OSError:  # it has ended
                continue
    return found


def resident_bytes(pid: int) -> int:
    """Memory that is a process's own; 0 once it has ended."""
    try:
        sizes = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in sizes if line.startswith("Pss:"))


def main() -> int:
    """The command's exit status."""
    started, most, ended = time.monotonic(), 0, threading.Event()
    with subprocess.Popen(sys.argv[1:]) as command:

        def look() -> None:
            nonlocal most
            while not ended.wait(SECONDS):
                most = max(most, sum(map(resident_bytes, processes(command.pid))))

        watcher = threading.Thread(target=look)
        watcher.start()
        status = command.wait()
        ended.set()
        watcher.join()
    seconds = time.monotonic() - started
    print(f"measured: {seconds:.0f} s, at most {most / 2**30:.2f} GiB at once", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
