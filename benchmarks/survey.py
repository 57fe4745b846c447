"""Many operators on shapes that no other table has, beside eager PyTorch, to find what is slow.

    python benchmarks/survey.py [--device cuda] [--threads N] [--out FILE] [FILTER ...]

On a GPU a call is timed by replaying a CUDA graph of calls on rotating operands, in turn with the
peer's; on a CPU calls and the peer's go in turn, on tensors with a sixteenth of the rows, and the
shortest of each counts. Percentages are of the bandwidth of a copy, for the bytes that must be
moved. A gradient by PyTorch's autograd is no graph, but a call between two events. Results are not
compared here: tests do that.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TOOL = Path(os.environ.get("TILEWRIGHT_BIN", ROOT / "build" / "release" / "tilewright"))
os.environ.setdefault("TILEWRIGHT_LIBRARY_DIR", str(TOOL.parent.resolve()))
sys.path[:0] = [str(ROOT / part) for part in ("python", "testing/python", "benchmarks/gpu")]

import tilewright.torch  # noqa: E402
import torch  # noqa: E402
from limits import environment  # noqa: E402
from survey_attention import Attention  # noqa: E402
from survey_case import Call, Case  # noqa: E402
from survey_norms import Norms  # noqa: E402
from survey_products import Products  # noqa: E402
from survey_rows import Rows  # noqa: E402

SECONDS = 0.15  # of a call and its peer on a CPU


def _on_gpu(case: Case, calls: dict[str, Call]) -> dict[str, float]:
    from replay import replayed

    copies = max(1, min(6, int(200e6 // case.bytes) + 1))
    expected = case.bytes / 1.5e12 + case.flops / 3e14 + 3e-6
    repeats = max(1, min(20, int(1e-3 / expected / copies)))
    operands = [case.make() for _ in range(copies)]
    if case.captured or "torch" not in calls:
        return dict(replayed(calls, operands, repeats))
    ours = dict(replayed({"ours": calls["ours"]}, operands, repeats))
    return ours | {"torch": _between_events(calls["torch"], operands[0])}


def _between_events(call: Call, operands: tuple[Any, ...]) -> float:
    times = []
    for _ in range(9):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call(*operands)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def _on_cpu(operands: tuple[Any, ...], calls: dict[str, Call]) -> dict[str, float]:
    best = dict.fromkeys(calls, math.inf)
    for call in calls.values():
        call(*operands)  # memory that the first one takes from the system is there for the next
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or math.inf in best.values():
        for name, call in calls.items():
            begin = time.perf_counter()
            call(*operands)
            best[name] = min(best[name], time.perf_counter() - begin)
    return best


def _copy_rate(device: str) -> float:
    if device == "cuda":
        from torch_peers import copy_rate

        return copy_rate()
    x = torch.randn(1 << 24)
    return 2 * x.nbytes / _on_cpu((x.clone(), x), {"copy": torch.Tensor.copy_})["copy"]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, help="of a CPU; as many as torch takes")
    parser.add_argument("--out", type=Path, help="write the results to this file, JSON")
    parser.add_argument("filter", nargs="*", help="only calls whose name contains one of these")
    return parser.parse_args()


def main() -> None:
    """Measure, print and write."""
    args = _arguments()
    if args.threads:
        torch.set_num_threads(args.threads)
    on_gpu = args.device == "cuda"
    copy = _copy_rate(args.device)
    cpu = environment(TOOL).get("cpu", {}).get("brand")
    name = torch.cuda.get_device_name() if on_gpu else cpu
    machine = {"device": name, "torch": torch.__version__, "tilewright": tilewright.__version__,
               "copy_gbs": copy * 1e-9}  # fmt: skip
    print(machine, flush=True)
    results = []
    groups = (of(args.device).cases() for of in (Rows, Products, Norms, Attention))
    for case in chain.from_iterable(groups):
        if args.filter and not any(part in case.name for part in args.filter):
            continue
        calls = {"ours": case.ours} | ({"torch": case.peer} if case.peer else {})
        seconds = _on_gpu(case, calls) if on_gpu else _on_cpu(case.make(), calls)
        share = case.bytes / seconds["ours"] / copy
        results.append({"case": case.name, "bytes": case.bytes, "flops": case.flops,
                        "seconds": seconds, "fraction_of_copy": share})  # fmt: skip
        times = "  ".join(f"{k} {v * 1e6:9.1f} us" for k, v in seconds.items())
        rate = f"  {1e-12 * case.flops / seconds['ours']:.3g} TFLOP/s" if case.flops else ""
        print(f"{case.name:52s} {100 * share:6.1f} %  {times}{rate}", flush=True)
    if args.out:
        args.out.write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
