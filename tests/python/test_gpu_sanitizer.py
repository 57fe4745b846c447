"""tools/gpu_sanitizer.sh, with programs that stand in for the tests and for NVIDIA's tool."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
LISTED = """Running main() from gtest_main.cc
EdgeCases.
  softmax/cuda/f32
  softmax/cuda/f16
  softmax/cuda/bf16
  matmul/cuda/f32
  matmul/cuda/f16
  matmul/cuda/bf16
  attention_backward/cuda/f16
  attention_backward/cuda/bf16
  attention_fp8/cuda/untyped
  attention/cuda/f16_f16
  attention/cuda/bf16_bf16
  attention/cuda/bf16_i8
  moe_align/cuda/i32
"""
RACE = """========= Error: Race reported between Write access at void {0}+0x430 in file.h:4
=========     and Read access at void {0}+0x770 in file.h:9 [248 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
INVALID = """========= Invalid __global__ read of size 4 bytes
=========     at void {0}+0x70
=========     by thread (31,0,0) in block (1,0,0)
=========
========= ERROR SUMMARY: 1 error
"""
BACKWARD = "tw::cuda_entry::backward<(int)2>(tw::kernels::AttentionBackwardArguments<tw::bf16>)"
PORTABLE = "tw::cuda_entry::run<(int)1, tw::kernels::Softmax<float>>(T2, tw::tile::cuda::Launch)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As `make cuda` makes it; a test's output is in a file of its name, if there is one."""
    for name in ("gpu_sanitizer.sh", "gpu_known_hazards.txt"):
        shutil.copy(TOOLS / name, tmp_path)
    (tmp_path / "listed").write_text(LISTED)
    (tmp_path / "out").mkdir()
    write(tmp_path / "tilewright_tests", 'cat "$(dirname "$0")/listed"')
    write(
        tmp_path / "bin" / "compute-sanitizer",
        f'name=$2-$(echo "$*" | sed "s,.*EdgeCases.,,; s,/,.,g"); cd "{tmp_path}/out"\n'
        'if [ -f "$name" ]; then\n'
        '  cat "$name"; [ ! -f "$name.status" ] || exit "$(cat "$name.status")"; exit 0\n'
        "fi\n"
        'case $2 in racecheck) echo "========= RACECHECK SUMMARY: 0 hazards displayed" ;;\n'
        '*) echo "========= ERROR SUMMARY: 0 errors" ;; esac',
    )
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n" + text + "\n")
    path.chmod(0o755)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [folder / "gpu_sanitizer.sh", *arguments],
        env={**os.environ, "PATH": f"{folder}/bin:/usr/bin:/bin"},  # without NVIDIA's
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def results(folder: Path) -> dict[str, dict[str, object]]:
    found = json.loads((folder / "results" / "sanitizer.json").read_text())
    return {f"{x['tool']} {x['test']}": x for x in found}


def test_takes_each_operator_in_one_narrow_type_or_in_all(folder: Path) -> None:
    result = run(folder)
    assert result.returncode == 0, result.stderr
    ran = results(folder)
    races = [name.split()[1] for name in ran if name.startswith("racecheck")]
    assert races == [
        "attention/cuda/bf16_bf16", "attention/cuda/bf16_i8", "attention_backward/cuda/bf16",
        "attention_fp8/cuda/untyped", "matmul/cuda/bf16", "matmul/cuda/f32",
        "moe_align/cuda/i32", "softmax/cuda/bf16",
    ]  # fmt: skip
    assert {name.split()[0] for name in ran} == {"memcheck", "racecheck", "synccheck", "initcheck"}
    assert "initcheck moe_align/cuda/i32" not in ran
    assert all(x["status"] == "0" and x["known"] == x["new"] == 0 for x in ran.values())


def test_known_reports_are_counted(folder: Path) -> None:
    log = folder / "out" / "racecheck-attention_backward.cuda.bf16"
    log.write_text(RACE.format(BACKWARD))
    result = run(folder, "--tools", "racecheck", "--only", "backward")
    assert result.returncode == 0, result.stderr
    assert results(folder)["racecheck attention_backward/cuda/bf16"]["known"] == 1


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("racecheck-softmax.cuda.bf16", RACE.format(PORTABLE), "1 reports, Softmax"),
        ("memcheck-attention_backward.cuda.bf16", INVALID.format(BACKWARD), "1 reports, backward"),
        ("memcheck-softmax.cuda.bf16", "========= ERROR SUMMARY: 3 errors\n", "3 reports, of_unk"),
        ("memcheck-softmax.cuda.bf16", "killed\n", "no_summary"),
    ],
)
def test_other_reports_fail(folder: Path, name: str, text: str, told: str) -> None:
    (folder / "out" / name).write_text(text)
    result = run(folder)
    assert result.returncode == 1
    assert told in result.stderr
    assert "30 runs, 1 not clean" in result.stdout


def test_failing_tests_fail(folder: Path) -> None:
    (folder / "out" / "memcheck-softmax.cuda.bf16").write_text(
        "========= ERROR SUMMARY: 0 errors\n"
    )
    (folder / "out" / "memcheck-softmax.cuda.bf16.status").write_text("1")
    result = run(folder, "--tools", "memcheck")
    assert result.returncode == 1
    assert "memcheck of softmax/cuda/bf16: the test failed, exit status 1" in result.stderr


def test_what_is_not_run_fails(folder: Path) -> None:
    result = run(folder, "--seconds", "0")
    assert result.returncode == 1
    assert "racecheck of softmax/cuda/bf16: not finished in time" in result.stderr
    (folder / "listed").write_text("EdgeCases.\n  softmax/avx2/f32\n")
    result = run(folder)
    assert result.returncode == 1
    assert "has no such tests" in result.stderr


def test_without_the_tool_it_fails(folder: Path) -> None:
    (folder / "bin" / "compute-sanitizer").unlink()
    result = run(folder)
    assert result.returncode == 1
    assert "FAILED: compute-sanitizer is not in PATH" in result.stderr
