#!/usr/bin/env python3
"""Measures the operators beside PyTorch and ONNX Runtime, on the workloads that the catalog holds.

Every output is compared with the operator's definition first, or where that takes too long with
PyTorch's, or that of a smaller call; one that does not match is not timed.
tilewright and its peers run in one process, round by round, on the same random operands, of which
there are more than the last cache holds where a model's would come from memory; nobody meets those
that another has just read.

Example:
    python benchmarks/run.py --suite smoke
    python benchmarks/run.py rms_norm softmax --dtype bf16 --threads 1,2 --out norms.json
    python benchmarks/run.py --family normalization --backend cuda --dtype bf16
    build/release/tilewright compare before.json after.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TOOL = Path(os.environ.get("TILEWRIGHT_BIN", ROOT / "build" / "release" / "tilewright"))
os.environ.setdefault("TILEWRIGHT_LIBRARY_DIR", str(TOOL.parent.resolve()))
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "testing" / "python")]

import checks  # noqa: E402
import harness  # noqa: E402
import limits  # noqa: E402
import onnx_peer  # noqa: E402
import torch  # noqa: E402
import yaml  # noqa: E402
from cases import Case, every_workload, results  # noqa: E402
from console import show, show_means  # noqa: E402
from costs import cost_of_calls  # noqa: E402
from operands import dtype_of, is_trained, last_cache, operands, prepared  # noqa: E402
from peers import ANY_OF_EQUALS, EAGER_ONLY, PEER_OF  # noqa: E402

import tilewright  # noqa: E402
from tilewright import _torch, backends  # noqa: E402

PEERS = ("torch", "inductor", "onnxruntime")
PASSES = ("forward", "training")
MODES = {"quick": 0.1, "timing": 1.0, "deep": 5.0}  # of the suite's seconds


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ops", nargs="*", metavar="OP", help="only these operators")
    parser.add_argument("--suite", default="smoke", help="of benchmarks/suites.yaml")
    parser.add_argument("--family", action="append", help="only this family of operators")
    parser.add_argument("--op", action="append", dest="named", help="the same as OP")
    parser.add_argument("--dtype", action="append", help="f32, f16, ... instead of the suite's")
    parser.add_argument("--backend", default="cpu", help="one of tilewright's (default: cpu)")
    parser.add_argument("--peers", default="torch,inductor", help=f"{', '.join(PEERS)}, or none")
    parser.add_argument(
        "--pass",
        dest="work",
        choices=PASSES,
        help="training: forward and backward, of operators that have a gradient; if not given, "
        "as the suite says, or forward",
    )
    parser.add_argument("--mode", choices=MODES, default="timing")
    parser.add_argument(
        "--reuse",
        action="store_true",
        help="results take memory that earlier ones gave back, of tilewright and its peers; "
        "otherwise large ones are new memory, whose pages the system clears within the call",
    )
    parser.add_argument(
        "--threads", type=thread_counts, default=[torch.get_num_threads()], help="as in 1,2"
    )
    parser.add_argument("--out", type=Path, help="write JSON to this file")
    parser.add_argument(
        "--no-samples",
        action="store_true",
        help="leave out of the file what only `tilewright compare` reads",
    )
    return parser.parse_args()


def thread_counts(text: str) -> list[int]:
    """Numbers of threads, each at least 1."""
    counts = [int(part) for part in text.split(",")]
    if min(counts) < 1:
        raise ValueError(text)
    return counts


def workloads(suite: dict[str, Any]) -> list[Case]:
    """The catalog's, but of operators whose labels the suite names only those."""
    named = suite.get("workloads", {})
    return [
        case for case in every_workload() if re.fullmatch(named.get(case.op.name, ".*"), case.label)
    ]


def select(suite: dict[str, Any], families: dict[str, list[str]], args: Any) -> list[Case]:
    """The workloads of a suite."""
    wanted = {*args.ops, *(args.named or ())}
    for family in args.family or ():
        if family not in families:
            raise SystemExit(f"run.py: no family {family!r}; there are {', '.join(families)}")
        wanted |= set(families[family])
    dtypes = args.dtype or suite["dtypes"]
    cases = [case for case in workloads(suite) if dtype_of(case) in dtypes]
    if args.work == "training":
        cases = [case for case in cases if PEER_OF.get(case.op.name) and is_trained(case)]
    if unknown := wanted - {case.op.name for case in every_workload()}:
        raise SystemExit(f"run.py: no workload of {', '.join(sorted(unknown))}")
    wanted = wanted or set(suite.get("operators", ()))
    if wanted:
        cases = [case for case in cases if case.op.name in wanted]
    if not suite.get("mixed", True):
        cases = [case for case in cases if len({*case.dtypes} - {"i32", "i64"}) == 1]
    if "gflop" in suite:
        cases = [case for case in cases if case.cost()[0] <= 1e9 * suite["gflop"]]
    if suite.get("first"):
        firsts = {(case.op.name, dtype_of(case)): case for case in reversed(cases)}
        cases = [case for case in cases if case in firsts.values()]
    return cases


def implementation(case: Case, backend: str) -> Callable[..., Any]:
    """Tilewright's."""
    function = getattr(tilewright.ops, case.op.name)
    if backend in ("cpu", "cuda"):  # wherever the tensors are
        return getattr(torch.ops.tilewright, case.op.name).default
    return lambda *given: function(*given, backend=backend)


def peers(
    case: Case, names: Iterable[str], given: list[Any], threads: int
) -> tuple[dict[str, Any], dict[str, str]]:
    """The peers that compute the same, and why the others do not."""
    composite = PEER_OF.get(case.op.name)
    if composite is None:
        return {}, dict.fromkeys(names, "no composite")
    out: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    try:
        composite(*given)
    except (NotImplementedError, TypeError) as error:  # or the operator has got new arguments
        return {}, dict.fromkeys(names, f"no composite for this: {error}")
    for name in names:
        torch._dynamo.reset()
        if name == "torch":
            out[name] = composite
        elif name == "inductor" and case.op.name in EAGER_ONLY:
            left_out[name] = "the same call"
        elif name == "inductor":
            out[name] = torch.compile(composite, dynamic=False)
        else:
            try:
                out[name] = onnx_peer.compiled(composite, given, threads)
            except NotImplementedError as error:
                left_out[name] = str(error)
    return out, left_out


def measure(
    case: Case, args: Any, threads: int, seconds: float, env: dict[str, Any]
) -> dict[str, Any]:
    """One row."""
    row: dict[str, Any] = {
        "op": case.op.name,
        "workload": case.label,
        "case": case.text,
        "dtype": "/".join(case.dtypes),
        "pass": args.work,
        "threads": threads,
        "backend": args.backend,
    }
    ours = implementation(case, args.backend)
    training = args.work == "training"
    given = operands(case, last_cache(env, args.backend), args.backend, training)
    others, row["peers_left_out"] = peers(case, args.peer_names, given[0], threads)
    if training:
        ours = checks.gradients_of(ours)
        others = {name: checks.gradients_of(other) for name, other in others.items()}
    got = ours(*given[0])
    written = sum(r.nbytes for r in results(got))
    cost = cost_of_calls(lambda: ours(*given[0])) if training else case.cost()
    row |= checks.check(
        case,
        given[0],
        got,
        ours,
        others.get("torch"),
        lambda c: prepared(c, args.backend, training),
        training,
    )
    if row["mismatch"] or row["checked"] == "not":
        return {**row, "status": "mismatch" if row["mismatch"] else "unchecked"}
    del row["mismatch"]
    row["mismatched_peers"] = {}
    for name in list(others):
        theirs, mine = results(others[name](*given[0])), results(got)
        if case.op.name in ANY_OF_EQUALS:  # which of them stands in the second result
            theirs, mine = theirs[:1], mine[:1]
        found = checks.mismatch(case, tuple(theirs), tuple(mine), checks.PEER_TOLERANCE)
        if found:
            row["mismatched_peers"][name] = found
            del others[name]
    del got
    sample = harness.sample_on_gpu if args.backend == "cuda" else None
    times = harness.interleaved({"tilewright": ours, **others}, given, seconds, sample)
    row |= {"status": "ok", "copies": len(given), **harness.summary(times["tilewright"])}
    if cost is not None:
        work = limits.Work(case, *cost, len(given), written)
        row |= limits.rates_of(work, row["us"] * 1e-6, env, threads, args.backend)
    row["peers"] = {
        name: {
            **{k: v for k, v in harness.summary(times[name]).items() if k != "us_samples"},
            **harness.ratio(times[name], times["tilewright"]),
        }
        for name in others
    }
    return row


def machine(backend: str) -> dict[str, Any]:
    """Processor or GPU, versions and commit, and the rates of all threads."""

    def output(*command: str) -> str:
        try:
            return subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, check=True
            ).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return ""

    env = limits.environment(TOOL)
    return {
        "cpu": env.get("cpu", {}).get("brand") or platform.processor(),
        "microarchitecture": env.get("cpu", {}).get("microarchitecture"),
        "gpu": torch.cuda.get_device_name() if backend == "cuda" else None,
        "isa": env.get("isa", {}).get("chosen"),
        "tilewright": tilewright.__version__,
        "torch": torch.__version__,
        "torch_isa": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
        "commit": output("git", "rev-parse", "HEAD"),
        "changed": bool(output("git", "status", "--porcelain", "--untracked-files=no")),
        "rates": env.get("rates"),
    }


def write(rows: list[dict[str, Any]], args: Any, about: dict[str, Any]) -> None:
    """What was measured until now."""
    if args.no_samples:
        rows[-1].pop("us_samples", None)
    text = {
        "schema": 1,
        "suite": args.suite,
        "pass": args.work,
        "mode": args.mode,
        "reuse": args.reuse,
        **about,
        "results": rows,
    }
    args.out.write_text(json.dumps(text, indent=1) + "\n")


def refuse(args: Any, suites: dict[str, Any]) -> None:
    """Ends the program where the arguments name what is not there."""
    if args.suite not in suites:
        raise SystemExit(f"run.py: no suite {args.suite!r}; there are {', '.join(suites)}")
    if unknown := set(args.peer_names) - set(PEERS):
        raise SystemExit(f"run.py: no peer {', '.join(unknown)}; there are {', '.join(PEERS)}")
    if args.backend not in backends.BACKENDS:
        raise SystemExit(f"run.py: there is no backend {args.backend!r}. {backends.candidates()}")
    if why_not := backends.why_unavailable(args.backend):
        raise SystemExit(f"run.py: backend {args.backend}: {why_not}")
    if args.out and not args.out.parent.is_dir():
        raise SystemExit(f"run.py: --out {args.out}: there is no folder {args.out.parent}")


def main() -> int:
    """Runs a suite; 1 if an output did not match, or nothing could say whether it does."""
    args = arguments()
    config = yaml.safe_load((ROOT / "benchmarks" / "suites.yaml").read_text())
    args.peer_names = [] if args.peers == "none" else args.peers.split(",")
    refuse(args, config["suites"])
    suite = config["suites"][args.suite]
    args.work = args.work or suite.get("pass", "forward")
    if args.work == "training" and "onnxruntime" in args.peer_names:
        raise SystemExit("run.py: onnxruntime has no gradients: --pass forward")
    if args.reuse:
        harness.keep_memory()
    _torch.load()
    about = machine(args.backend)
    seconds = suite["seconds"] * MODES[args.mode]
    rows = []
    with torch.inference_mode(args.work == "forward"):
        for case in select(suite, config["families"], args):
            for threads in args.threads:
                torch.set_num_threads(threads)
                env = limits.environment(TOOL, threads)
                rows.append(measure(case, args, threads, seconds, env))
                show(rows[-1])
                if args.out:  # each time: a run that is stopped has not been for nothing
                    write(rows, args, about)
    if not rows:
        raise SystemExit("run.py: no workload is left")
    show_means(rows, args.threads, args.peer_names)
    return int(any(row["status"] != "ok" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
