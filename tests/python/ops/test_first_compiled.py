"""The first call of a process may be one that torch.compile traces."""

from __future__ import annotations

import os
import subprocess
import sys

import package_path
import pytest

PROGRAM = """
import torch
from tilewright import ops
from tilewright.compat import forge

function = {"ops": ops.softmax, "forge": forge.softmax_online}[__import__("sys").argv[1]]
x = torch.randn(4, 8, requires_grad=True)
y = torch.compile(function, fullgraph=True, backend="aot_eager")(x)
torch.testing.assert_close(y, torch.softmax(x, -1))
y[:, 0].sum().backward()
assert x.grad.any()
"""


@pytest.mark.parametrize("module", ["ops", "forge"])
def test_the_first_call_may_be_traced(module: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(package_path.ROOT / "python")}
    command = [sys.executable, "-c", PROGRAM, module]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_first_call_may_be_traced_with_an_array_of_numpy() -> None:
    code = "import numpy, torch; from tilewright import ops\n"
    code += "softmax = torch.compile(lambda x: ops.softmax(x), backend='eager')\n"
    code += "print(softmax(numpy.zeros((1, 4), numpy.float32)))"
    environment = {**os.environ, "PYTHONPATH": str(package_path.ROOT / "python")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "[[0.25 0.25 0.25 0.25]]\n"), done.stderr


def test_torch_compile_is_imported_by_who_uses_it() -> None:
    """It takes as long as all the rest of PyTorch."""
    code = "import sys, torch, tilewright.torch; tilewright.ops.exp(torch.zeros(2)); "
    code += "print('torch._dynamo' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(package_path.ROOT / "python")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stdout + done.stderr
