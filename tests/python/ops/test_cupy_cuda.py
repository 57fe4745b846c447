"""Arrays of CuPy go in and come out, on the stream that CuPy works in."""

from __future__ import annotations

import pytest

from tilewright import ops

cupy = pytest.importorskip("cupy")
if not cupy.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)


def test_arrays_come_back_as_arrays_of_cupy() -> None:
    x = cupy.linspace(-3, 3, 24, dtype=cupy.float32).reshape(2, 12)
    out = ops.softmax(x)
    assert isinstance(out, cupy.ndarray)
    assert (out.dtype, out.device) == (x.dtype, x.device)
    powers = cupy.exp(x)
    cupy.testing.assert_allclose(out, powers / powers.sum(1, keepdims=True), rtol=1e-5)
    cupy.testing.assert_array_equal(ops.transpose(x.T[::2]), x[:, ::2])
    values, places = ops.topk(x, 3)
    assert isinstance(places, cupy.ndarray)
    cupy.testing.assert_array_equal(values, x[:, :-4:-1])
    cupy.testing.assert_array_equal(places, cupy.tile(cupy.arange(11, 8, -1), (2, 1)))


def test_calls_wait_for_what_the_current_stream_does() -> None:
    x, slow = cupy.zeros(1 << 22, dtype=cupy.float32), cupy.ones((6000, 6000), dtype=cupy.float32)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        for _ in range(8):
            slow = slow @ slow * 1e-4
        x += 3  # after the products, which take milliseconds
        out = ops.scale(x, 2.0)
        stream.synchronize()
    assert bool((out == 6).all())


def test_arrays_beside_those_in_the_memory_of_the_cpu() -> None:
    x = cupy.ones((2, 3), dtype=cupy.float32)
    with pytest.raises((TypeError, ValueError), match="other"):
        ops.add(x, cupy.asnumpy(x))
