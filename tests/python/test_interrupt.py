"""Ctrl-C, and a reader that goes away, end a command at once and without a word."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from command_line import TOOL

SECONDS = 10  # for what takes milliseconds


def start(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [TOOL, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A shell's background jobs, and so these tests among them, are given no Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **options,
    )


def interrupt(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Both streams, from here on, of a process that Ctrl-C ends."""
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SECONDS)
    # By the signal itself: a shell says 130, and stops its own loop, too.
    assert process.returncode == -signal.SIGINT
    return out, err


def test_in_a_prompt(smollm: Path, english: str, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text(english[:30000])
    process = start("generate", smollm, "-f", text, "--exact", "--threads", 1)
    time.sleep(1)
    assert interrupt(process) == (b"", b"")


@pytest.mark.parametrize("interactive", [False, True])
def test_in_an_answer(smollm: Path, interactive: bool) -> None:
    """What has been written so far stays."""
    asked = ["-i"] if interactive else ["-p", "Once upon a time"]
    process = start("generate", smollm, *asked, "--ignore-eos", "-n", 8000)
    if interactive:
        process.stdin.write(b"Once upon a time\n")
        process.stdin.flush()
    first = os.read(process.stdout.fileno(), 1)
    time.sleep(0.1)
    out, err = interrupt(process)
    assert len(first + out) > 5
    assert err == (b"> " if interactive else b"")


def test_between_prompts(smollm: Path) -> None:
    process = start("generate", smollm, "-i")
    assert process.stderr.read(2) == b"> "
    assert interrupt(process) == (b"", b"")


def test_in_a_text_that_is_read(smollm: Path, english: str, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text(english[:200000])
    process = start("perplexity", smollm, text, "--context", 64)
    assert process.stderr.read(4) == b"\r64 "
    out, err = interrupt(process)
    assert (out, err.count(b"\n")) == (b"", 0)


def test_in_a_measurement() -> None:
    process = start("bench", "rms_norm", "--seconds", 60)
    time.sleep(1)
    assert interrupt(process)[1] == b""


@pytest.mark.parametrize("ignored", [False, True], ids=["signal", "signal ignored"])
def test_reader_that_goes_away(smollm: Path, ignored: bool) -> None:
    """As with `| head -c 10`; where the signal is ignored, one line instead."""
    prompt = ["-p", "Once upon a time", "--ignore-eos", "-n", 8000]
    options = {"restore_signals": False} if ignored else {}  # Python itself ignores SIGPIPE
    process = start("generate", smollm, *prompt, **options)
    assert len(process.stdout.read(10)) == 10
    process.stdout.close()
    err = process.stderr.read()
    code = process.wait(timeout=SECONDS)
    if ignored:
        assert (code, err) == (6, b"tilewright generate: cannot write the output\n")
    else:
        assert (code, err) == (-signal.SIGPIPE, b"")
