#!/usr/bin/env python3
"""Runs a command; says how long it took and how much memory its processes had at once.

Example:
    tools/measured.py --most-gib 2 python3 -m pip wheel . --no-deps
"""

from __future__ import annotations

import argparse
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
    """The command's exit status; 1 if it did well, but with more memory than it may have."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most-gib", type=float, default=float("inf"), help="memory it may have")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    started, most, ended = time.monotonic(), 0, threading.Event()
    with subprocess.Popen(options.command) as command:

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
    if most > options.most_gib * 2**30:
        print(f"measured: FAILED: more than {options.most_gib:g} GiB", file=sys.stderr)
        return status or 1
    return status


if __name__ == "__main__":
    sys.exit(main())
