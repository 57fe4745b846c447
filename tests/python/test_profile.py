"""`tilewright profile` and `ncu-extract`, with programs that stand in for NVIDIA's."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
from pathlib import Path

import pytest
from command_line import run_json, run_tool

TAIL = ".avg.pct_of_peak_sustained_active"
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
# Columns of ncu's raw page: name, unit, values of two launches.
COLUMNS = [
    ("ID", "", "0", "1"),
    ("Process Name", "", 'say "a, b"', "python3"),
    ("Kernel Name", "", "void run<1, RmsNorm<bf16>>(K, Launch)", "gemm_strided"),
    ("Block Size", "", "(128, 1, 1)", "(256, 1, 1)"),
    ("Grid Size", "", "(2048, 1, 1)", "(64, 1, 1)"),
    ("gpu__time_duration.sum", "ns", "12,345", "2000000"),
    ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "%", "91.5", "30"),
    ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", "22.25", "80"),
    (f"sm__inst_issued{TAIL}", "%", "40", ""),
    ("sm__throughput.max.pct_of_peak_sustained_elapsed", "%", "99", "99"),
    ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "%", "90", "n/a"),
    (f"sm__inst_executed_pipe_fma{TAIL}", "%", "12", "3"),
    (f"sm__pipe_fma_cycles_active{TAIL}", "%", "15", "1"),
    (f"sm__inst_executed_pipe_alu{TAIL}", "%", "7", "2"),
    (f"sm__pipe_tensor_op_hmma_cycles_active{TAIL}", "%", "0", "62.5"),
    (f"sm__inst_executed_pipe_tensor{TAIL}", "%", "0", "31"),
    (STALL.format("long_scoreboard"), "inst", "6", ""),
    (STALL.format("barrier"), "inst", "1.5", ""),
    (STALL.format("selected"), "inst", "1", ""),
    (STALL.format("lg_throttle"), "inst", "1.5", ""),
    ("smsp__pcsamp_warps_issue_stalled_long_scoreboard", "", "5", "30"),
    ("smsp__pcsamp_warps_issue_stalled_long_scoreboard_not_issued", "", "5", "30"),
    ("smsp__pcsamp_warps_issue_stalled_math_pipe_throttle", "", "5", "10"),
]


def raw_page(columns: list[tuple[str, ...]] = COLUMNS) -> str:
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    for row in zip(*columns, strict=True):
        writer.writerow(row)
    return text.getvalue()


def write_program(path: Path, text: str) -> None:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, str]:
    """An environment with programs that write their arguments, a line each, into a file."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (tmp_path / "page.csv").write_text("==PROF== a line before\n" + raw_page())
    record = 'printf "%s\\n" "$(basename "$0")" "$@" >>"$RECORD"\n'
    write_program(
        folder / "ncu",
        record
        + f'case $1 in --import) [ -s "$2" ] || exit 3; cat "{tmp_path}/page.csv" ;;\n'
        + ' *) echo report >"$2.ncu-rep" ;; esac\n',
    )
    write_program(folder / "nsys", record)
    write_program(folder / "compute-sanitizer", record + '[ "$2" != racecheck ] || exit 9\n')
    return {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "RECORD": str(tmp_path / "record"),
    }


def recorded(tools: dict[str, str]) -> list[str]:
    return Path(tools["RECORD"]).read_text().splitlines()


def test_three_categories(tmp_path: Path) -> None:
    (path := tmp_path / "page.csv").write_text(raw_page())
    norm, gemm = run_json("ncu-extract", path)
    assert norm["kernel"] == "void run<1, RmsNorm<bf16>>(K, Launch)"
    assert norm["duration_us"] == pytest.approx(12.345)
    assert norm["throughput"] == {"memory": 91.5, "sm": 22.25, "issue": 40, "dram": 90}
    assert norm["pipes"] == {"fma": 15, "alu": 7, "tensor": 0}
    assert norm["stalls"] == {"long_scoreboard": 60, "barrier": 15, "lg_throttle": 15}
    assert gemm["throughput"] == {"memory": 30, "sm": 80}
    assert gemm["pipes"]["tensor"] == 62.5
    assert gemm["stalls"] == {"long_scoreboard": 75, "math_pipe_throttle": 25}
    (only,) = run_json("ncu-extract", path, "--kernel", "RmsNorm<")
    assert only == norm
    text = run_tool("ncu-extract", path, "--kernel", "strided").stdout
    assert text.splitlines() == [
        "gemm_strided grid (64, 1, 1) block (256, 1, 1) 2000.00 us",
        "  throughput  sm 80.0 % memory 30.0 %",
        "  pipes       tensor 62.5 % fma 3.0 % alu 2.0 %",
        "  stalls      long_scoreboard 75.0 % math_pipe_throttle 25.0 %",
    ]


def test_other_files_are_refused(tmp_path: Path) -> None:
    def refusal(text: str, *arguments: str) -> str:
        (path := tmp_path / "x.csv").write_text(text)
        result = run_tool("ncu-extract", path, *arguments)
        assert result.returncode in (2, 3)
        return result.stderr

    assert "holds no table" in refusal("nothing\n")
    assert "holds no table" in refusal("")
    without = [column for column in COLUMNS if column[0] != "Kernel Name"]
    assert 'no column "Kernel Name"' in refusal(raw_page(without))
    assert "row 4 has 2 fields, not 23" in refusal(raw_page().rsplit("\r\n", 2)[0] + '\n"1","x"\n')
    assert 'no kernel\'s name contains "frob"' in refusal(raw_page(), "--kernel", "frob")
    assert run_tool("ncu-extract", tmp_path / "none.ncu-rep").returncode == 6


def test_ncu(tmp_path: Path, tools: dict[str, str]) -> None:
    base = tmp_path / "report"
    result = run_tool(
        *["profile", "ncu", "--kernel", "Norm<", "--out", base, "--extract", "--json"],
        *["--", "prog", "--kernel", "its own", "a b"],
        env=tools,
    )
    assert result.returncode == 0, result.stderr
    (kernel,) = json.loads(result.stdout)
    assert kernel["throughput"]["memory"] == 91.5
    lines = recorded(tools)
    at = lines.index("ncu", 1)
    assert lines[:4] == ["ncu", "--export", str(base), "--force-overwrite"]
    assert lines[at - 5 : at] == ["regex:Norm<", "prog", "--kernel", "its own", "a b"]
    assert lines[at:] == [
        *["ncu", "--import", f"{base}.ncu-rep", "--csv", "--page", "raw"],
        *["--print-units", "base"],
    ]
    assert "WarpStateStats" in lines


def test_names_are_no_patterns(tmp_path: Path, tools: dict[str, str]) -> None:
    run_tool("profile", "ncu", "--kernel", "a.b(c)", "--out", tmp_path / "r", "--", "x", env=tools)
    assert "regex:a\\.b\\(c\\)" in recorded(tools)


def test_nsys(tmp_path: Path, tools: dict[str, str]) -> None:
    result = run_tool("profile", "nsys", "--extract", "--out", tmp_path / "r", "--", "x", env=tools)
    assert result.returncode == 0, result.stderr
    lines = recorded(tools)
    assert lines[:3] == ["nsys", "profile", "--output"]
    assert lines[-1] == str(tmp_path / "r.nsys-rep")
    assert "cuda_gpu_kern_sum" in lines


def test_sanitizer_runs_every_check(tools: dict[str, str]) -> None:
    result = run_tool("profile", "sanitizer", "--kernel", "run", "--", "prog", "-x", env=tools)
    assert result.returncode == 9  # racecheck's
    lines = recorded(tools)
    tried = [lines[i + 1] for i, line in enumerate(lines) if line == "--tool"]
    assert tried == ["memcheck", "racecheck", "synccheck", "initcheck"]
    assert lines[-4:] == ["--kernel-name", "kernel_substring=run", "prog", "-x"]
    assert (
        run_tool("profile", "sanitizer", "--check", "memcheck", "--", "p", env=tools).returncode
        == 0
    )


def test_usage(tools: dict[str, str]) -> None:
    for arguments, complaint in [
        (("vtune", "--", "x"), "TOOL"),
        (("ncu",), "CMD is required"),
        (("nsys", "--kernel", "x", "--", "x"), "--kernel is for ncu and sanitizer"),
        (("sanitizer", "--extract", "--", "x"), "--extract is for ncu and nsys"),
        (("ncu", "--json", "--", "x"), "--json is for what --extract prints"),
    ]:
        result = run_tool("profile", *arguments, env=tools)
        assert result.returncode == 2, result.stderr
        assert complaint in result.stderr
    bare = {**os.environ, "PATH": "/nonexistent"}
    for tool, package in [("ncu", "Nsight Compute"), ("nsys", "Nsight Systems")]:
        result = run_tool("profile", tool, "--", "x", env=bare)
        if not Path(f"/usr/local/cuda/bin/{tool}").exists():
            assert result.returncode == 4
            assert f"{tool} is neither in $PATH nor" in result.stderr
            assert package in result.stderr
