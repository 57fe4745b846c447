"""How much memory a call takes at most."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MEBIBYTE = 1 << 20

# What a call and its gradients take at most beside their arguments, in bytes.
LOSS = """
import re, sys, torch, tilewright.torch

def peak():  # not getrusage's, which starts with that of the process before exec
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])

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


def peak(which: str, tokens: int, features: int, vocabulary: int, dtype: str) -> int:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    sizes = map(str, (tokens, features, vocabulary))
    command = [sys.executable, "-c", LOSS, which, *sizes, dtype]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return int(result.stdout)


def test_the_fused_loss_never_holds_all_logits() -> None:
    tokens, vocabulary = 1024, 65536
    assert 0 < peak("tilewright", tokens, 32, vocabulary, "float32") < tokens * vocabulary * 4 / 4


@pytest.mark.parametrize(("dtype", "vocabulary"), [("float32", 12288), ("bfloat16", 49152)])
def test_the_fused_loss_takes_a_quarter_of_what_torch_takes(dtype: str, vocabulary: int) -> None:
    """Of the head of SmolLM2-135M, beside the weight's gradient, which both have to make. In
    float32 of a quarter of it, with which torch is slow: a copy of the weight still shows."""
    tokens, features = 1024, 576
    head = tokens, features, vocabulary
    kept = features * vocabulary * (4 if dtype == "float32" else 2)
    ours, theirs = (peak(which, *head, dtype) - kept for which in ("tilewright", "torch"))
    assert theirs > 2 * tokens * vocabulary * 4  # logits and their gradient
    assert 0 < ours <= theirs / 4, f"{ours / MEBIBYTE:.0f} of {theirs / MEBIBYTE:.0f} MiB"
