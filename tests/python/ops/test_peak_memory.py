"""How much memory a call takes at most."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MEBIBYTE = 1 << 20

PEAK = """
import re, sys, torch, tilewright.torch

def peak():  # not getrusage's, which starts with that of the process before exec
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])
"""

# What a call and its gradients take at most beside their arguments, in bytes.
FUSED_LOSS = """
def of_torch(x, weight, target):
    return torch.nn.functional.cross_entropy((x @ weight.T).float(), target)

tokens, features, vocabulary = map(int, sys.argv[2:5])
dtype = getattr(torch, sys.argv[5])
x = torch.randn(tokens, features, dtype=dtype, requires_grad=True)
weight = torch.randn(vocabulary, features, dtype=dtype, requires_grad=True)
target = torch.randint(0, vocabulary, (tokens,))
call = of_torch if sys.argv[1] == "torch" else torch.ops.tilewright.fused_linear_cross_entropy
few = (value[:8].detach().clone().requires_grad_() for value in (x, weight))
call(*few, target[:8] % 8).backward()  # loads what is loaded once
before = peak()
call(x, weight, target).backward()
print(peak() - before)
"""

# The same of logits that are there; with their gradient if it is asked for.
LOSS = """
tokens, vocabulary, differentiates = map(int, sys.argv[2:])
logits = torch.randn(tokens, vocabulary, requires_grad=bool(differentiates))
target = torch.randint(0, vocabulary, (tokens,))
call = (torch.nn.functional if sys.argv[1] == "torch" else torch.ops.tilewright).cross_entropy
call(logits[:8].detach(), target[:8])
before = peak()
loss = call(logits, target)
if differentiates:
    loss.backward()
print(peak() - before)
"""


def run(program: str, *arguments: str | int) -> int:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    command = [sys.executable, "-c", PEAK + program, *map(str, arguments)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return int(result.stdout)


def test_the_fused_loss_never_holds_all_logits() -> None:
    tokens, vocabulary = 1024, 65536
    taken = run(FUSED_LOSS, "tilewright", tokens, 32, vocabulary, "float32")
    assert 0 < taken < tokens * vocabulary * 4 / 4


@pytest.mark.parametrize(("dtype", "vocabulary"), [("float32", 12288), ("bfloat16", 49152)])
def test_the_fused_loss_takes_a_quarter_of_what_torch_takes(dtype: str, vocabulary: int) -> None:
    """Of the head of SmolLM2-135M, beside the weight's gradient, which both have to make. In
    float32 of a quarter of it, with which torch is slow: a copy of the weight still shows."""
    tokens, features = 1024, 576
    head = tokens, features, vocabulary
    kept = features * vocabulary * (4 if dtype == "float32" else 2)
    ours, theirs = (
        run(FUSED_LOSS, which, *head, dtype) - kept for which in ("tilewright", "torch")
    )
    assert theirs > 2 * tokens * vocabulary * 4  # logits and their gradient
    assert 0 < ours <= theirs / 4, f"{ours / MEBIBYTE:.0f} of {theirs / MEBIBYTE:.0f} MiB"


def test_the_loss_takes_next_to_nothing() -> None:
    tokens, vocabulary = 512, 49152
    logits = tokens * vocabulary * 4
    ours, theirs = (run(LOSS, which, tokens, vocabulary, 0) for which in ("tilewright", "torch"))
    assert theirs > 0.9 * logits
    assert ours < theirs / 16


def test_the_loss_and_its_gradient_take_no_more_than_the_gradient() -> None:
    tokens, vocabulary = 512, 49152
    logits = tokens * vocabulary * 4
    ours, theirs = (run(LOSS, which, tokens, vocabulary, 1) for which in ("tilewright", "torch"))
    assert theirs > 1.9 * logits
    assert 0.9 * logits < ours < 1.1 * logits
