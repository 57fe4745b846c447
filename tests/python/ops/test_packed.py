"""Weights packed from Python, multiplied: beside the blocks that the package gguf takes apart."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gguf.quants import GGML_QUANT_SIZES, dequantize
from gguf_files import BLOCK_TYPES, random_blocks

from tilewright import ops


def close(got: np.ndarray, want: np.ndarray) -> None:
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * float(np.abs(want).max()))


@pytest.mark.parametrize("name", BLOCK_TYPES)
def test_quantized_weights_multiply_as_gguf_takes_them_apart(name: str) -> None:
    rng = np.random.default_rng(7)
    elements, _ = GGML_QUANT_SIZES[BLOCK_TYPES[name]]
    k = 3 * elements
    up, gate = (random_blocks(name, (37, k), rng) for _ in range(2))
    x = rng.standard_normal((5, k)).astype(np.float32)
    by_up, by_gate = (x @ dequantize(w.rows, w.type).T for w in (up, gate))

    packed = ops.pack_quantized(up.rows, format=name)
    close(ops.linear_quantized(x, packed, compute="f32"), by_up)
    packed = ops.pack_quantized(gate.rows, up.rows, name)
    got = ops.linear_quantized(x, packed, activation="silu_and_mul", compute="f32")
    with np.errstate(over="ignore"):
        close(got, by_gate / (1 + np.exp(-by_gate)) * by_up)


def test_rows_that_lie_apart() -> None:
    rows = random_blocks("q4_k", (20, 512), np.random.default_rng(1)).rows
    want = ops.pack_quantized(rows, format="q4_k")
    spread = np.zeros((20, 2 * rows.shape[1]), np.uint8)
    spread[:, ::2] = rows
    assert np.array_equal(ops.pack_quantized(spread[:, ::2], format="q4_k"), want)


def test_rows_of_no_whole_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="rows of 35 bytes, but q8_0 comes in blocks of 34"):
        ops.pack_quantized(np.zeros((2, 35), np.uint8), format="q8_0")


def test_features_that_a_caller_says_are_those_that_are_packed() -> None:
    packed = ops.pack_quantized(
        random_blocks("q8_0", (5, 64), np.random.default_rng(1)).rows, format="q8_0"
    )
    x = np.ones((2, 64), np.float32)
    want = ops.linear_quantized(x, packed)
    assert np.array_equal(ops.linear_quantized(x, packed, out_features=5), want)
    with pytest.raises(ValueError, match="packed has N = 5, but out has 6"):
        ops.linear_quantized(x, packed, out_features=6)
    with pytest.raises(ValueError, match="out_features = 7, but out has 5"):
        ops.linear_quantized(x, packed, bias=np.zeros(5, np.float32), out_features=7)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", BLOCK_TYPES)
def test_a_gpu_is_told_how_many_features_there_are(name: str) -> None:
    elements, _ = GGML_QUANT_SIZES[BLOCK_TYPES[name]]
    rng = np.random.default_rng(7)
    weight = random_blocks(name, (37, 3 * elements), rng)
    packed = torch.from_numpy(ops.pack_quantized(weight.rows, format=name)).cuda()
    x = rng.standard_normal((5, 3 * elements)).astype(np.float32)
    on_gpu = torch.from_numpy(x).cuda()
    got = ops.linear_quantized(on_gpu, packed, compute="f32", out_features=37)
    close(got.cpu().numpy(), x @ dequantize(weight.rows, weight.type).T)
    with pytest.raises(ValueError, match="give out_features"):
        ops.linear_quantized(on_gpu, packed)
