"""tilewright-micro says of each limit of the machine what it is."""

from __future__ import annotations

import json
import subprocess

import pytest
from package_path import BUILD

TOOL = BUILD / "tilewright-micro"
EACH = {"clock", "read L1", "latency DRAM", "copy DRAM (read + written)", "call: kernel alone"}


@pytest.mark.skipif(not TOOL.exists(), reason="built without benchmarks")
def test_all_is_measured() -> None:
    command = [str(TOOL), "--threads", "2", "--array-mib", "2", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    limits = json.loads(done.stdout)["limits"]
    assert limits.keys() >= EACH
    assert [name for name in limits if name.startswith("f32_fma")]
    for name, limit in limits.items():
        measured = [limit[key] for key in ("one_thread", "all_threads") if key in limit]
        assert measured, name
        assert all(value > 0 for value in measured), (name, limit)
        assert limit["unit"], name
