"""Every option of every subcommand that takes numbers or a list, with values it must refuse."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from command_line import run_json, run_tool

# What each subcommand needs beside the option under test; files need not exist, since arguments are
# read before any file.
REQUIRED: dict[str, list[str]] = {
    "generate": ["m.gguf"],
    "inspect": ["m.gguf"],
    "tokenize": ["m.gguf"],
    "logits": ["m.gguf"],
    "perplexity": ["m.gguf", "t.txt"],
    "bench": [],
    "compare": ["a.json", "b.json"],
    "cuda-compile": ["rms_norm"],
    "profile": ["ncu"],
}
NOT_NUMBERS = [
    "",
    " ",
    "x",
    " 1",
    "1 ",
    "+1",
    "0x1",
    "1,",
    ",1",
    "\uff11",
    "1\n2",
    "--1",
    "nan",
    "-nan",
]
NOT_INTEGERS = [*NOT_NUMBERS, "3.5", "1e1", "9" * 30, "-" + "9" * 30, "inf"]
NOT_FLOATS = [*NOT_NUMBERS, "inf", "-inf", "1e400", "-1e400"]
NOT_LISTS = [v for v in NOT_INTEGERS if v not in {"1,", ",1"}] + [",", "1,,2", "1,", ",1", "1, 2"]
BAD = {
    "INT": NOT_INTEGERS,
    "FLOAT": NOT_FLOATS,
    "INT,...": NOT_LISTS,
    "TEXT,...": ["", ",", "a,", ",a", "a,,b"],
}
# Values outside an option's own range.
OUTSIDE = [
    ("generate", "--threads", "0"),
    ("generate", "--threads", "1025"),
    ("generate", "--max-tokens", "-1"),
    ("generate", "--prefill-chunk", "0"),
    ("generate", "--tokens", "-1"),
    ("generate", "--tokens", "1,2147483648"),
    ("generate", "--temperature", "-0.1"),
    ("generate", "--top-k", "-1"),
    ("generate", "--top-p", "1.0001"),
    ("generate", "--top-p", "-0.1"),
    ("generate", "--min-p", "2"),
    ("generate", "--repetition-penalty", "0"),
    ("generate", "--penalty-tokens", "-2"),
    ("logits", "--chunk", "0"),
    ("perplexity", "--context", "1"),
    ("inspect", "--values", "-2"),
    ("bench", "--seconds", "-1"),
    ("bench", "--seconds", "1e300"),
    ("bench", "--threads", "1,0"),
    ("bench", "--case", ""),
    ("bench", "--dtype", "bf16,f33"),
    ("compare", "--confidence", "1"),
    ("compare", "--min-effect", "-1"),
    ("cuda-compile", "--arch", ""),
    ("cuda-compile", "--arch", "sm_"),
    ("cuda-compile", "--arch", "90"),
    ("cuda-compile", "--arch", "sm_90b"),
]


def options(command: str) -> list[tuple[str, str]]:
    """(long name, type) of the options whose values the tool reads itself."""
    found = re.findall(
        r"(--[a-z-]+) (INT,\.\.\.|TEXT,\.\.\.|INT|FLOAT)[=\s]", run_tool(command, "--help").stdout
    )
    return list(dict.fromkeys(found))


def check_refused(command: str, option: str, value: str) -> None:
    result = run_tool(command, *REQUIRED[command], option, value)
    assert result.returncode == 2, (value, result.stderr)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, (value, result.stderr)
    assert result.stderr.startswith(f"tilewright {command}: {option}: '"), (value, result.stderr)
    assert "is not " in result.stderr


@pytest.mark.parametrize("command", REQUIRED)
def test_what_is_no_value_is_refused(command: str) -> None:
    tested = options(command)
    assert tested or command == "tokenize"
    for option, kind in tested:
        for value in BAD[kind]:
            check_refused(command, option, value)


@pytest.mark.parametrize(("command", "option", "value"), OUTSIDE)
def test_values_outside_the_range_are_refused(command: str, option: str, value: str) -> None:
    check_refused(command, option, value)


def test_every_number_is_tested() -> None:
    shown = run_tool("--help").stdout.split("Subcommands:")[1]
    commands = re.findall(r"^  ([a-z-]+) ", shown, re.M)
    assert len(commands) > 10
    for command in commands:
        text = run_tool(command, "--help").stdout
        assert command in REQUIRED or not re.search(r"--[a-z-]+ (INT|FLOAT|TEXT,)", text), command


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "A subcommand is required"),
        (["nope"], "there is no subcommand 'nope'"),
        (["--nope"], "--nope"),
        (["a\nb"], r"'a\nb'"),
        (["generate"], "MODEL is required"),
        (["generate", "m"], "Exactly 1 option"),
        (["generate", "m", "-p", "a", "-f", "b"], "Exactly 1 option"),
        (["inspect", "m", "--tensor", "a", "--out", "b", "--json"], "--json excludes --tensor"),
        (["template", "render", "f", "--batch", "--vars", "v"], "--vars excludes --batch"),
        (["generate", "m", "-p"], "--prompt"),
        (["generate", "m", "-p", "a", "more"], "more"),
        (["generate", "m", "-p", "a", "-n", "1", "-n", "2"], "--max-tokens"),
        (["generate", "m", "-p", "a", "--system", "b"], "--system requires --chat"),
        (["generate", "m", "--tokens", "1", "--chat"], "--chat excludes --tokens"),
        (["logits", "m", "--out", "o"], "--tokens is required"),
        (["logits", "m", "--tokens", "1"], "--out is required"),
        (["logits", "m", "--tokens", "", "--out", "o"], "--tokens: '' is not a list"),
        (["tokenize", "m", "--jsonl", "-p", "a"], "--jsonl requires --file"),
        (["inspect", "m", "--tensor", "t"], "--tensor requires --out"),
        (["bench", "--device", "gpu"], "--device: 'gpu' is not cpu, cuda or cuda:N"),
        (["bench", "--device", "cuda:x"], "--device: 'x' in 'cuda:x'"),
        (["bench", "rms_norm", "--case", "x"], "case token 'x'"),
        (["bench", "rms_norm", "--case", "*=1"], "does not say 'C'"),
        (["bench", "topk", "--case", "*=1 C=3 k=-9007199254740993"], "k = -9007199254740993 must"),
        (["bench", "rms_norm", "--case", "*=1 C=4 c=4"], "'c=4'"),
        (["bench", "linear_quantized", "--case", "*=4 K=64 N=64"], "does not say 'format'"),
        (
            ["bench", "linear_quantized", "--case", "*=4 K=64 N=64 format=99"],
            "format = 99 must be in 0 .. 12, q4_0 to mxfp4",
        ),
        (["bench", "linear_quantized", "--case", "*=4 K=64 N=64 format=13"], "format = 13 must"),
        (["bench", "rms", "--case", "*=1 C=4"], "FILTER names in full"),
        (["bench", "rms_norm", "--case", "*=1 C=4 C=4"], "'C=4'"),
        (["bench", "rms_norm", "--case", "*=-1 C=4"], "'*=-1'"),
        (["bench", "rms_norm", "--case", "*=1 C=4 eps=x"], "'eps=x'"),
        (["bench", "rms_norm", "--case", "*=1 C=99999999999999999999"], "'C=9"),
        (["ops", "nope"], "no operator nope"),
        (["ops", ""], "no operator "),
        (["template"], "subcommand is required"),
        (["profile", "nope", "--", "x"], "nope"),
    ],
)
def test_wrong_usage_gives_one_line(arguments: list[str], words: str) -> None:
    result = run_tool(*arguments)
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert words in result.stderr
    assert re.fullmatch(r"tilewright[a-z -]*: .*\n(  in .*\n)?", result.stderr), result.stderr


@pytest.mark.parametrize("kind", ["absent", "a folder", "no name"])
def test_files_that_cannot_be_read(kind: str, tmp_path: Path) -> None:
    path = {"absent": tmp_path / "absent", "a folder": tmp_path, "no name": ""}[kind]
    code = 3 if kind == "a folder" else 6
    for command in ("generate", "tokenize"):
        assert run_tool(command, path, "-p", "x").returncode == code
    assert run_tool("inspect", path).returncode == code
    assert run_tool("template", "render", path).returncode == 6
    assert run_tool("compare", path, path).returncode == 6
    result = run_tool("template", "render", path)
    assert result.stderr.count("\n") == 1
    assert "cannot read" in result.stderr


def test_text_is_read_before_the_model(tmp_path: Path) -> None:
    """So that a mistyped name costs no time, and an endless file not all memory."""
    for name, code, words in [("no", 6, "cannot read"), ("/dev/zero", 2, "holds more than")]:
        text = tmp_path / name
        for command in (["generate", tmp_path, "-f", text], ["perplexity", tmp_path, text]):
            result = run_tool(*command)
            assert (result.returncode, result.stderr.count("\n")) == (code, 1)
            assert f"{text}' {words}" in result.stderr or f"{words} '{text}'" in result.stderr


def test_every_help_has_an_example() -> None:
    shown = run_tool("--help").stdout
    commands = re.findall(r"^  ([a-z-]+) ", shown.split("Subcommands:")[1], re.M)
    assert "Example: tilewright " in shown
    for command in [*([name] for name in commands), ["template", "render"]]:
        told = run_tool(*command, "--help").stdout
        example = told.partition("Example:")[2]
        assert "tilewright " + " ".join(command) in example, command


def test_numbers_are_decimal(tmp_path: Path) -> None:
    """A leading zero is no octal, and minus zero is zero."""
    for value in ("010", "-0", "10"):
        result = run_tool("bench", "nothing", "--seconds", value)
        assert "no workload matches" in result.stderr
    result = run_tool("generate", tmp_path / "absent", "--tokens", "010,-0,2", "--top-p", "1e-3")
    assert result.returncode == 6


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["gen"], {"generate"}),
        (["generate", "--te"], {"--temperature"}),
        (["template", "render", "--mess"], {"--messages"}),
        (["template", "ren"], {"render"}),
    ],
)
def test_bash_completes(words: list[str], wanted: set[str]) -> None:
    script = run_tool("completion").stdout
    line = " ".join(["tilewright", *words])
    script += f"COMP_WORDS=({line}); COMP_CWORD={len(words)}; _tilewright\n"
    script += 'printf "%s\\n" "${COMPREPLY[@]}"\n'
    done = subprocess.run(["bash", "-c", script], capture_output=True, encoding="utf-8", check=True)
    assert set(done.stdout.split()) >= wanted


def test_env_says_what_is_usable() -> None:
    told = run_json("env")
    assert told["isa"]["chosen"] in told["isa"]["available"]
    assert set(told["isa"]["available"]) <= set(told["isa"]["built"])
    assert told["cpu"]["l1d_bytes"] > 0
    assert told["threads"]
    assert told["cuda"]["devices"] or told["cuda"]["unavailable"]  # and why
    shown = run_tool("env")
    assert shown.returncode == 0
    assert told["isa"]["chosen"] in shown.stdout


@pytest.mark.parametrize(
    ("variable", "value"), [("TILEWRIGHT_ISA", "bogus"), ("TILEWRIGHT_NUM_THREADS", "many")]
)
def test_env_fails_where_what_is_needed_is_broken(variable: str, value: str) -> None:
    done = run_tool("env", "--json", env={**os.environ, variable: value})
    assert done.returncode == 2
    assert f'{variable} is "{value}"' in done.stderr
