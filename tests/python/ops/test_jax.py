"""Arrays of JAX go in and come out, without PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

# In a process of its own: JAX has threads, and other tests fork.
CODE = """
import sys
import jax
import jax.numpy as jnp
import numpy as np
from tilewright import ops

x = jnp.linspace(-3, 3, 24).reshape(2, 12)
for dtype, tolerance in ((jnp.float32, 1e-5), (jnp.bfloat16, 1.6e-2)):
    given = x.astype(dtype)
    out = ops.softmax(given)
    assert isinstance(out, jax.Array) and out.dtype == dtype and out.shape == x.shape, out
    want = jax.nn.softmax(given.astype(jnp.float32))
    np.testing.assert_allclose(out.astype(jnp.float32), want, rtol=tolerance)
values, places = ops.topk(x, 3)
assert isinstance(values, jax.Array) and isinstance(places, jax.Array)
np.testing.assert_array_equal(values, jax.lax.top_k(x, 3)[0])
exact = ops.rms_norm(x, jnp.ones(12), backend="reference")
assert isinstance(exact, jax.Array)
np.testing.assert_allclose(ops.rms_norm(x, jnp.ones(12)), exact, rtol=1e-5)
assert "torch" not in sys.modules
"""


def test_jax_arrays_come_back_as_jax_arrays() -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "JAX_PLATFORMS": "cpu",
    }
    result = subprocess.run(
        [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
