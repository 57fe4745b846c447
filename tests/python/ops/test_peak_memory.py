"""How much memory a call takes at most."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TOKENS, VOCABULARY = 1024, 65536

LOSS = f"""
import resource, torch, tilewright.torch

def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

x = torch.randn({TOKENS}, 32, requires_grad=True)
weight = torch.randn({VOCABULARY}, 32, requires_grad=True)
target = torch.randint(0, {VOCABULARY}, ({TOKENS},))
call = torch.ops.tilewright.fused_linear_cross_entropy
call(x[:4], weight[:8], target[:4] % 8).backward()  # loads what is loaded once
before = peak()
call(x, weight, target).backward()
print(peak() - before)
"""


def test_the_fused_loss_never_holds_all_logits() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    command = [sys.executable, "-c", LOSS]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < TOKENS * VOCABULARY * 4 / 4
