#!/usr/bin/env python3
"""What a call costs besides its work: one tensor of 16 elements, beside torch.neg.

    python benchmarks/overhead.py [--json] [--check] [--out FILE]

All are called in turns in one process. The bare call is the C interface with everything prepared,
through ctypes. --check exits with 5 where torch.ops.tilewright costs more than the limits allow.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
os.environ.setdefault("TILEWRIGHT_LIBRARY_DIR", str(ROOT / "build" / "release"))
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benchmarks")]

import torch  # noqa: E402
from harness import interleaved, summary  # noqa: E402

import tilewright  # noqa: E402
from tilewright import _arrays, _call, _library, _schema, _values  # noqa: E402

REGRESSION = 5  # the exit code that `tilewright compare` uses as well
LIMITS = {"inference": 3.0, "recording": 15.0}  # us above the bare call
SECONDS = 1.5
CALLS = 100  # in a row, as a loop of small operators makes them


def in_a_row(call: Callable[..., Any]) -> Callable[..., Any]:
    """Many calls as one."""

    def calls(x: torch.Tensor) -> None:
        for _ in range(CALLS):
            call(x)

    return calls


def bare(x: torch.Tensor, out: torch.Tensor) -> Callable[[], Any]:
    """A call of the C interface whose arguments are filled in once."""
    op, reading = _schema.find("relu"), _arrays.Reading()
    values = (_library.Value * len(op.arguments))()
    for value, arg, given in zip(values, op.arguments, (x, out), strict=True):
        _values.fill(value, arg, given, reading)
    call, context = _library.load().tw_call, _call._context()
    handle = _library.operator_handle(op.name)
    keep = (reading, x, out)

    def run() -> None:
        assert keep
        _library.check(call(context, handle, values, len(values), None, None))

    return run


def measure() -> dict[str, dict[str, Any]]:
    """Summaries in microseconds by mode and callable."""
    torch.set_num_threads(1)
    plain, leaf = torch.randn(16), torch.randn(16, requires_grad=True)
    kernel = torch.ops.tilewright.relu.default
    run = bare(plain, torch.empty(16))
    run()
    modes = {
        "inference": (torch.inference_mode, plain),
        "no_grad": (torch.no_grad, plain),
        "recording": (torch.enable_grad, leaf),
    }
    found = {}
    for mode, (block, x) in modes.items():
        calls = {
            "bare": lambda _: run(),
            "torch.neg": torch.neg,
            "torch.ops.tilewright.relu": kernel,
            "tilewright.ops.relu": tilewright.ops.relu,
        }
        with block():
            loops = {name: in_a_row(call) for name, call in calls.items()}
            times = interleaved(loops, [(x,)], SECONDS)
        rows = {name: summary([s / CALLS for s in samples]) for name, samples in times.items()}
        for row in rows.values():
            del row["us_samples"]
        found[mode] = rows
    return found


def machine() -> dict[str, str]:
    """What ran."""
    tool = Path(os.environ.get("TILEWRIGHT_BIN", ROOT / "build" / "release" / "tilewright"))
    shown = subprocess.run([tool, "env", "--json"], capture_output=True, text=True, check=True)
    cpu = json.loads(shown.stdout)["cpu"]
    return {
        "cpu": cpu["brand"],
        "microarchitecture": cpu["microarchitecture"],
        "isa": _library.load().tw_isa().decode(),
        "tilewright": tilewright.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def main() -> int:
    """Prints a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", type=Path, help="write JSON to this file")
    options = parser.parse_args()
    import tilewright.torch  # noqa: F401 - registers the operators

    found = measure()
    text = json.dumps({**machine(), "limits": LIMITS, "us": found}, indent=2)
    if options.out:
        options.out.write_text(text + "\n")
    if options.json:
        print(text)
    else:
        for mode, calls in found.items():
            for name, row in calls.items():
                above = row["us"] - calls["bare"]["us"]
                print(
                    f"{mode:10} {name:26} {row['us']:7.2f} us  p10 {row['us_p10']:6.2f}"
                    f"  p90 {row['us_p90']:6.2f}  above bare {above:6.2f}"
                )
    slow = [
        mode
        for mode, limit in LIMITS.items()
        if found[mode]["torch.ops.tilewright.relu"]["us"] - found[mode]["bare"]["us"] > limit
    ]
    if options.check and slow:
        print(f"overhead: over the limit: {', '.join(slow)}", file=sys.stderr)
        return REGRESSION
    return 0


if __name__ == "__main__":
    sys.exit(main())
