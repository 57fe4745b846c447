#!/usr/bin/env python3
"""Tries an installed package; which parts of it depends on what is installed beside it.

    python tests/python/try_wheel.py {bare,numpy,torch}

Run by tools/test_wheel.sh in environments that have the wheel; the source tree is not on the path.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import platform
import sys
from pathlib import Path


def try_bare() -> None:
    """The catalog and the checks work with nothing else installed."""
    import tilewright
    from tilewright import env_check

    assert "site-packages" in tilewright.__file__, tilewright.__file__
    for absent in ("torch", "numpy"):
        assert importlib.util.find_spec(absent) is None, absent
    report = env_check.collect()
    assert report["library"]["state"] == "ok", report
    assert report["torch"]["state"] == "absent", report
    assert "softmax" in dir(tilewright.ops)
    assert {"_library.py", "ops.pyi", "py.typed"} <= {
        path.name for path in Path(tilewright.__file__).parent.iterdir()
    }


def try_numpy() -> None:
    """Operators on NumPy's arrays, without PyTorch."""
    import numpy as np

    import tilewright

    assert importlib.util.find_spec("torch") is None
    x = np.random.default_rng(1).standard_normal((5, 1001), dtype=np.float32)
    got = tilewright.ops.softmax(x)
    want = np.exp(x.astype(np.float64))
    want /= want.sum(-1, keepdims=True)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    np.testing.assert_allclose(tilewright.ops.softmax(x, backend="reference"), want, rtol=1e-5)


def try_torch() -> None:
    """PyTorch's door: operators, gradients, a compiled graph, modules."""
    import tilewright.torch
    import torch

    import tilewright
    from tilewright import nn

    assert "site-packages" in tilewright.__file__
    print(f"try_wheel: with torch {torch.__version__}")
    wanted = importlib.metadata.requires("tilewright") or []
    assert any(line.startswith("torch>=") and "extra ==" in line for line in wanted), wanted
    x, weight = torch.randn(3, 40, requires_grad=True), torch.randn(40, requires_grad=True)
    torch.library.opcheck(torch.ops.tilewright.rms_norm.default, (x, weight))
    got = torch.autograd.grad(tilewright.ops.rms_norm(x, weight, 1e-6).square().sum(), (x, weight))
    want = torch.nn.functional.rms_norm(x, (40,), weight, 1e-6).square().sum()
    for g, w in zip(got, torch.autograd.grad(want, (x, weight)), strict=True):
        torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-5)
    layer = torch.nn.Sequential(nn.Linear(40, 24), nn.RMSNorm(24, eps=1e-5))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), layer(x))
    q = torch.randn(1, 6, 2, 8)
    want = torch.nn.functional.scaled_dot_product_attention(*[q.transpose(1, 2)] * 3)
    got = tilewright.ops.attention(q, q, q, scale=1 / math.sqrt(8))
    torch.testing.assert_close(got.transpose(1, 2), want, rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    globals()[f"try_{sys.argv[1]}"]()
    print(f"try_wheel: Python {platform.python_version()}, {sys.argv[1]}: ok")
