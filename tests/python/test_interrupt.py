"""Ctrl-C, and a reader that goes away, end a command at once and without a word."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import pytest
from command_line import TOOL

SECONDS = 10  # for what takes milliseconds


def start(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
    options = {"stderr": subprocess.PIPE} | options
    return subprocess.Popen(
        [TOOL, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
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
    screen, terminal = pty.openpty()
    process = start("perplexity", smollm, text, "--context", 64, stderr=terminal)
    os.close(terminal)
    shown = b""
    while b"\r64 / " not in shown:  # after the progress of loading
        shown += os.read(screen, 100)
    assert interrupt(process)[0] == b""
    os.close(screen)


def test_in_logits_that_are_written(smollm: Path, tmp_path: Path) -> None:
    """Nothing is left of them, and what they were to replace stays."""
    out = tmp_path / "l.npy"
    out.write_text("old")
    tokens = ",".join(["5"] * 6000)
    process = start("logits", smollm, "--tokens", tokens, "--chunk", 64, "--out", out)
    while not any(path.stat().st_size > 100_000 for path in tmp_path.iterdir()):
        time.sleep(0.01)
    assert interrupt(process) == (b"", b"")
    assert [path.name for path in tmp_path.iterdir()] == ["l.npy"]
    assert out.read_text() == "old"


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
