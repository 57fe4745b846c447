"""The benchmark runner runs, refuses what does not match, and its results can be compared."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import tilewright.torch  # noqa: F401 - registers the operators
import torch
import yaml
from cases import Case, every_workload, workload
from command_line import run_json

from tilewright import _schema

RUN = Path(__file__).resolve().parents[2] / "benchmarks" / "run.py"
sys.path.insert(0, str(RUN.parent))

import harness  # noqa: E402
import operands  # noqa: E402
import report  # noqa: E402
import run as runner  # noqa: E402

QUICK = ["--mode", "quick", "--peers", "torch"]


def run(*arguments: object, before: str = "") -> subprocess.CompletedProcess[str]:
    """run.py in a process of its own, after some code."""
    code = f"import sys; sys.path.insert(0, {str(RUN.parent)!r}); import run\n{before}\n"
    code += f"sys.argv = {['run.py', *map(str, arguments)]!r}; sys.exit(run.main())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def run_in_turn(*runs: tuple[list[object], str]) -> list[tuple[int, str]]:
    """Exit codes and text of run.py, each after some code; in one process, as imports are slow."""
    code = f"import contextlib, io, json, sys; sys.path[:0] = [{str(RUN.parent)!r}]; import run\n"
    for arguments, before in runs:
        code += f"{before}\nsys.argv = {['run.py', *map(str, arguments)]!r}\n"
        code += "with contextlib.redirect_stdout(io.StringIO()) as out: code = run.main()\n"
        code += "print(json.dumps([code, out.getvalue()]))\n"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_nobody_meets_what_another_has_just_read() -> None:
    """Each operand waits for most others, whoever calls; and all callers meet all of them."""
    used: list[tuple[str, int]] = []

    def caller(name: str) -> Callable[[int], None]:
        def call(operand: int) -> None:
            used.append((name, operand))
            time.sleep(1.1 * harness.SHORTEST_SAMPLE)  # so that a sample is one call

        return call

    count, names = 12, ("ours", "theirs")
    harness.interleaved({name: caller(name) for name in names}, [[i] for i in range(count)], 0.3)
    for name in names:  # before anything is timed
        assert [operand for who, operand in used if who == name][:count] == [*range(count)]
    timed = used[len(names) * (count + 3) :]
    assert len(timed) > 4 * count
    for name in names:
        assert {operand for who, operand in timed if who == name} == {*range(count)}
    last: dict[int, int] = {}
    for i, (_, operand) in enumerate(timed):
        between = {other for _, other in timed[last.get(operand, i - count) + 1 : i]}
        assert len(between) >= count / 2 or i < count
        last[operand] = i


CACHE = 32 << 20


@pytest.mark.parametrize(
    ("op", "label", "kept"),
    [
        ("linear", "smollm2-135m/decode", ["weight"]),
        ("linear_packed", "smollm2-135m/decode", ["packed"]),
        ("linear_quantized", "smollm2-135m/qkv, decode", ["packed"]),
        ("attention", "smollm2-135m/decode 512", ["k", "v"]),
        ("layer_norm", "64 MiB", ["x"]),
    ],
)
def test_what_a_model_reads_from_memory_is_not_left_in_the_cache(
    op: str, label: str, kept: list[str]
) -> None:
    case = workload(op, label)
    given = case.arguments()
    sizes = {arg.name: v.nbytes for arg, v in zip(case.op.inputs, given, strict=True)
             if isinstance(v, torch.Tensor)}  # fmt: skip
    count = operands.copies(case, given, CACHE)
    assert count * sum(sizes[name] for name in kept) >= 0.9 * operands.CACHES * CACHE
    assert operands.is_from_memory(case.cost()[1], count, CACHE)
    all_given = operands.operands(case, CACHE, "cpu", False)
    assert len(all_given) == count
    position = [arg.name for arg in case.op.inputs].index(kept[0])
    assert len({given[position].data_ptr() for given in all_given}) == count


def test_rotation_has_an_end() -> None:
    """Of a table that is large, though a call reads little of it."""
    case = workload("embedding", "smollm2-135m/prefill")
    given = case.arguments()
    count = operands.copies(case, given, CACHE)
    assert 1 < count <= 1 + operands.MOST_BYTES / given[0].nbytes
    assert not operands.is_from_memory(case.cost()[1], count, CACHE)


def test_families_hold_operators_once() -> None:
    families = yaml.safe_load((RUN.parent / "suites.yaml").read_text())["families"]
    listed = [op for ops in families.values() for op in ops]
    assert len(set(listed)) == len(listed)
    assert set(listed) == {op.name for op in _schema.operators().values() if op.workloads}


def test_suites_of_attention_have_every_case() -> None:
    """Every length, head, mask and dtype of attention, forward and in training; and decoding."""
    suites = yaml.safe_load((RUN.parent / "suites.yaml").read_text())["suites"]
    cases = {name: runner.workloads(suites[name]) for name in ("attention", "attention_training")}
    for found in cases.values():
        own = [case for case in found if case.op.name == "attention"]
        seen = {(case.text, case.combo) for case in own}
        assert len(seen) == len(own) == 17 * len(own[0].op.dtypes)
        for length, (heads, d), mask in itertools.product(
            (512, 1024, 2048, 4096), ((16, 64), (8, 128)), ("", " causal=1")
        ):
            shape = f"B=1 S={length} Hq={heads} L={length} H={heads} D={d} Dv={d}{mask}"
            assert (shape, 0) in seen
        assert ("B=1 S=1 Hq=32 L=4096 H=8 D=128 Dv=128 causal=1", 0) in seen
        assert all(case.cost()[0] > 0 for case in own)
        assert {case.op.name for case in found} == {c.op.name for c in every_workload()}


def test_no_shape_is_measured_twice() -> None:
    for op in _schema.operators().values():
        texts = [frozenset(text.split()) for _, text in op.workloads]
        labels = [label for label, _ in op.workloads]
        assert len({*texts}) == len(texts), op.name
        assert len({*labels}) == len(labels), op.name


def test_an_operator_beside_torch(tmp_path) -> None:
    out = tmp_path / "out.json"
    result = run("rms_norm", *QUICK, "--threads", "2,1", "--out", out)
    assert result.returncode == 0, result.stderr
    for threads in (1, 2):
        assert f"geometric mean against torch, threads {threads}: " in result.stdout
    written = json.loads(out.read_text())
    assert {"cpu", "microarchitecture", "torch", "commit", "rates"} <= written.keys()
    assert written["microarchitecture"]
    assert [row["threads"] for row in written["results"]] == [2, 1]
    row = written["results"][0]
    assert (row["op"], row["dtype"], row["status"]) == ("rms_norm", "f32", "ok")
    assert row["checked"] == "definition"
    assert row["us_p10"] <= row["us"] <= row["us_p90"]
    assert len(row["us_samples"]) >= 7
    peer = row["peers"]["torch"]
    assert peer["low"] <= peer["ratio"] <= peer["high"]
    assert run_json("compare", out, out)["rows"][0]["verdict"] == "same"


def test_the_table_beside_torch(tmp_path) -> None:
    """Of results without their samples, with a cell left empty for a peer that is not there."""
    out = tmp_path / "peers.json"
    result = run(
        "rms_norm", "silu_and_mul", *QUICK, "--threads", "1,2", "--no-samples", "--out", out
    )
    assert result.returncode == 0, result.stderr
    data = json.loads(out.read_text())
    assert not any("us_samples" in row for row in data["results"])
    for row in data["results"]:
        row["us"], row["peers"]["torch"]["ratio"] = 10.0, 2.0 * row["threads"]
    row["peers"].clear()
    lines = report.beside_torch(data).splitlines()
    assert f"{data['cpu']}, {data['microarchitecture']}, {data['isa']}; tilewright" in lines[0]
    assert "2.00 x eager, 1 thread; 4.00 x eager, 2 threads." in lines[0]
    assert "us, 1 thread | eager, 1 thread | us, 2 threads | eager, 2 threads" in lines[2]
    full, part = (line.split("|")[4:-1] for line in lines[4:])
    assert full == [" 10.0 ", " 2.00 x ", " 10.0 ", " 4.00 x "]
    assert part == [" 10.0 ", " 2.00 x ", "  ", "  "]


def test_under_pytest() -> None:
    """Its own options; what does not match is a failure."""
    command = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider"]
    command += [RUN.parent / "bench_operators.py", "--mode", "quick", "--peers", "none"]
    result = subprocess.run([*command, "-k", "[transpose]"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert " us [" in result.stdout
    trained = subprocess.run(
        [*command, "-k", "[silu_and_mul]", "--pass", "training", "--threads", "1", "--dtype=bf16"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert trained.returncode == 0, trained.stdout + trained.stderr
    (row,) = (line for line in trained.stdout.splitlines() if " us [" in line)
    assert " bf16 x1 " in row
    assert " GB/s" in row
    # No workload of this dtype is in the suite: run.py says so, and so does the test.
    refused = subprocess.run([*command, "-k", "[bitwise]"], capture_output=True, text=True)
    assert refused.returncode == 1
    assert "no workload is left" in refused.stdout


def test_a_script_of_one_operator() -> None:
    suites = yaml.safe_load((RUN.parent / "suites.yaml").read_text())["suites"]
    linked = {path for path in RUN.parent.glob("bench_*.py") if path.is_symlink()}
    assert {str(path.readlink()) for path in linked} == {"bench_operators.py"}
    names = {path.stem.removeprefix("bench_") for path in linked}
    assert {*suites["doors"]["operators"]} <= names <= _schema.operators().keys()
    script, options = RUN.parent / "bench_rms_norm.py", ["--mode", "quick", "--peers", "none"]
    alone = subprocess.run([sys.executable, script, *options], capture_output=True, text=True)
    assert alone.returncode == 0, alone.stderr
    assert " us [" in alone.stdout
    command = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", script, *options]
    under_pytest = subprocess.run(command, capture_output=True, text=True)
    assert under_pytest.returncode == 0, under_pytest.stdout
    for result in (alone, under_pytest):
        measured = [line for line in result.stdout.splitlines() if " us [" in line]
        assert {line.split()[0] for line in measured} == {"rms_norm"}


def test_onnxruntime_is_a_peer(tmp_path) -> None:
    out = tmp_path / "out.json"
    arguments = ["--op", "fused_add_rms_norm", "--mode", "quick", "--peers", "onnxruntime"]
    wrong = "import peers; peers.PEER_OF['fused_add_rms_norm'] = lambda x, r, w, e: (x, r)"
    (code, _), (_, printed) = run_in_turn(([*arguments, "--out", out], ""), (arguments, wrong))
    assert code == 0
    (row,) = json.loads(out.read_text())["results"]
    assert row["peers"]["onnxruntime"]["ratio"] > 0
    assert row["peers_left_out"] == row["mismatched_peers"] == {}
    assert "onnxruntime MISMATCH" in printed


def test_training_beside_torch(tmp_path) -> None:
    out = tmp_path / "out.json"
    wrong = "import peers; peers.PEER_OF['silu_and_mul'] = lambda x: x.chunk(2, -1)[0]"
    (code, _), (code_of_wrong, printed) = run_in_turn(
        (["--suite", "training", "silu_and_mul", *QUICK, "--dtype", "f32", "--out", out], ""),
        (["--op", "silu_and_mul", "--pass", "training", *QUICK], wrong),
    )
    assert (code, code_of_wrong) == (0, 1)
    row, *_ = json.loads(out.read_text())["results"]
    assert (row["pass"], row["checked"], row["status"]) == ("training", "torch in float64", "ok")
    assert "torch" in row["peers"]
    assert row["gflops"] > 0
    assert row["gbs"] > 0
    assert row["fraction_of_limit"] > 0
    assert "MISMATCH, not timed" in printed


def test_what_does_not_match_is_not_timed() -> None:
    peer = "import peers; kept = dict(peers.PEER_OF); peers.PEER_OF['rms_norm'] = lambda x, w, e: x"
    wrong = "peers.PEER_OF.update(kept)\nimport tilewright\n"
    wrong += "tilewright.register_impl('rms_norm', 'torch', lambda x, w, e: x)"
    (code, printed), (code_of_wrong, printed_of_wrong) = run_in_turn(
        (["--op", "rms_norm", *QUICK], peer),
        (["--op", "rms_norm", "--backend", "torch", *QUICK], wrong),
    )
    assert (code, code_of_wrong) == (0, 1)
    assert "torch MISMATCH" in printed
    assert "MISMATCH, not timed: largest difference" in printed_of_wrong


def checked(tmp_path: Path, *ops: str, before: str = "") -> list[dict[str, str]]:
    """Rows of a run for whose definitions nobody waits."""
    out = tmp_path / "out.json"
    before = f"import checks; checks.CHECKED_FLOPS = 1e6; {before}"
    result = run(*ops, "--mode", "quick", "--peers", "none", "--out", out, before=before)
    rows = json.loads(out.read_text())["results"]
    assert result.returncode == int(any(row["status"] != "ok" for row in rows)), result.stderr
    return rows


def test_what_is_too_large_for_its_definition_is_checked_on_less(tmp_path) -> None:
    ops = ("attention_backward", "delta_rule_transform", "gelu_backward", "matmul")
    rows = checked(tmp_path, *ops)
    assert {row["op"] for row in rows} == {*ops}
    for row in rows:
        assert (row["status"], row["checked"]) == ("ok", "a smaller call")
        assert row["checked_case"] != row["case"]
    wrong = (
        "import tilewright; tilewright.register_impl('gelu_backward', 'torch', lambda g, x, a: g)"
    )
    (row,) = checked(tmp_path, "gelu_backward", "--backend", "torch", before=wrong)
    assert (row["status"], row["checked"]) == ("mismatch", "a smaller call")
    assert "us" not in row


def test_a_case_that_cannot_be_built_says_why(capfd: pytest.CaptureFixture[str]) -> None:
    text = "B=1 S=1 Hq=8 D=8 Dv=8"
    for use in (Case.cost, Case.arguments):
        with pytest.raises(ValueError, match=r"^dimension . is not bound$"):
            use(Case(_schema.operators()["attention"], 0, "no keys", text))
    assert capfd.readouterr() == ("", "")


def test_what_nothing_can_check_is_not_timed(tmp_path) -> None:
    (row,) = checked(tmp_path, "gelu_backward", before="checks.smaller = lambda case: ()")
    assert (row["status"], row["checked"]) == ("unchecked", "not")
    assert "us" not in row


def test_the_tool_checks_what_it_measures() -> None:
    """Of what is too large for its definition a smaller call."""
    for op, text, wanted in (
        ("rms_norm", "*=2 C=64", ("definition", None)),
        ("linear", "*=64 K=4096 N=8192", ("a smaller call", "*=5 K=4096 N=8192")),
        ("matmul", "B=1 M=512 K=1024 N=4096", ("a smaller call", "B=1 M=47 K=1024 N=4096")),
    ):
        flags = ("--case", text, "--dtype", "f32", "--threads", 1, "--seconds", 0)
        (row,) = run_json("bench", op, *flags)["results"]
        assert (row["checked"], row.get("checked_case")) == wanted


def test_the_tool_measures_operators_without_a_type_to_choose() -> None:
    for op, text in (("int_matmul", "B=1 M=3 K=5 N=7"), ("moe_align", "*=9 experts=4")):
        (row,) = run_json("bench", op, "--case", text, "--threads", 1, "--seconds", 0)["results"]
        assert (row["dtype"], row["checked"]) == ("", "definition")


def test_peers_take_their_operators_arguments() -> None:
    """Or say that they do not: arguments that an operator has got since would end a peer."""
    code = (
        "from cases import every_case\n"
        "from peers import PEER_OF\n"
        "for case in every_case():\n"
        "    if case.op.name in PEER_OF and case.combo == 0 and not case.is_last:\n"
        "        try: PEER_OF[case.op.name](*case.arguments())\n"
        "        except TypeError as error: print(case, error)\n"
        "        except Exception: pass  # an edge that no workload has\n"
    )
    result = run(before=code + "raise SystemExit")
    assert (result.returncode, result.stdout) == (0, ""), result.stdout + result.stderr


def test_refusals() -> None:
    wanted = {
        ("--pass", "training", "--peers", "onnxruntime"): "onnxruntime has no gradients",
        ("--suite", "huge"): "no suite 'huge'; there are smoke, short, long",
        ("--op", "frobnicate"): "no workload of frobnicate",
        ("softmax", "frobnicate"): "no workload of frobnicate",
        ("--family", "layers"): "no family 'layers'; there are elementwise",
        ("--peers", "jax"): "no peer jax; there are torch, inductor",
        ("--backend", "julia"): "there is no backend 'julia'. Candidates: cpu: available",
        ("--backend", "cuda"): "backend cuda: the fan is loose",
        ("--out", "/no/such/folder/x.json"): "there is no folder /no/such/folder",
    }
    code = (
        f"import sys; sys.path.insert(0, {str(RUN.parent)!r}); import run\n"
        "run.backends.cuda_unavailable = lambda: 'the fan is loose'\n"
        f"for arguments in {list(wanted)!r}:\n"
        "    sys.argv = ['run.py', *arguments]\n"
        "    try: run.main()\n"
        "    except SystemExit as error: print(error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    for line, complaint in zip(result.stdout.splitlines(), wanted.values(), strict=True):
        assert complaint in line
