"""Python may end while daemon threads are still in calls."""

from __future__ import annotations

import os
import subprocess
import sys

import package_path
import pytest

TIMES = 4  # what goes wrong does so in every second process, or more often

PROGRAM = """
import contextlib, sys, threading, time
import numpy as np
import tilewright

x = np.ones((256, int(sys.argv[1])), np.float32)
block = tilewright.explain if sys.argv[2] == "explained" else contextlib.nullcontext
running = threading.Barrier(4)

def work():
    with block() as records:
        tilewright.ops.softmax(x)
        running.wait()
        while True:
            tilewright.ops.softmax(x)

for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
running.wait()
time.sleep(0.05)
"""


@pytest.mark.parametrize("columns", [8, 4096])
@pytest.mark.parametrize("how", ["plain", "explained"])
def test_the_process_ends_while_threads_are_in_calls(columns: int, how: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(package_path.ROOT / "python")}
    command = [sys.executable, "-c", PROGRAM, str(columns), how]
    started = [
        subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        for _ in range(TIMES)
    ]
    ended = [(process.communicate(timeout=120)[1], process.returncode) for process in started]
    assert ended == [("", 0)] * TIMES
