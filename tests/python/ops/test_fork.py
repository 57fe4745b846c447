"""A child made by fork after calls: PyTorch's threads do not live there.

Its own parallel operators would wait for them, so the child calls ours alone.
"""

from __future__ import annotations

import pytest
import torch
from package_path import run_python

PROGRAM = """
import os, sys, torch, tilewright.torch
from torch import randn

ops = torch.ops.tilewright
torch.set_num_threads(2)

def gradients():
    leaves = q, k, v, weight
    out = ops.linear(ops.attention(*leaves[:3]).flatten(2), leaves[3])
    return torch.autograd.grad(ops.cross_entropy(out.flatten(0, 1), labels), leaves)

q, k, v = (randn(2, 130, 4, 64, requires_grad=True) for _ in range(3))
weight, labels = randn(100, 256, requires_grad=True), torch.randint(100, (260,))
x, packed = randn(512, 4096), ops.pack_weight(randn(300, 4096))
CALLS = {
    "softmax": lambda: [ops.softmax(x)],
    "matmul": lambda: [ops.matmul(x[None], x.T[None])],
    "packed": lambda: [ops.linear_packed(x, packed)],
    "attention": lambda: [ops.attention(q, k, v)],
    "backward": gradients,
}
bits = lambda tensors: [t.detach().numpy().tobytes() for t in tensors]
call = CALLS[sys.argv[1]]
want = call()
child = os.fork()
if child == 0:
    os._exit(0 if bits(call()) == bits(want) else 3)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("call", ["softmax", "matmul", "packed", "attention", "backward"])
def test_the_child_computes_the_same(call: str) -> None:
    if call == "backward" and torch.cuda.is_available():
        pytest.skip("PyTorch records nothing in a child once autograd has threads for devices")
    done = run_python(PROGRAM, call)
    assert done.returncode == 0, done.stderr
