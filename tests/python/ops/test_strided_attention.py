"""Attention of tensors whose heads lie outside of their positions, as (B, H, S, D), by strides."""

from __future__ import annotations

import pytest
import tilewright.torch
import torch
from cases import DEVICES

OPS = torch.ops.tilewright
Tensor = torch.Tensor
DIMS = [(64, 64), (96, 96), (128, 128), (192, 128), (192, 192), (256, 256)]
IS_HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)


def normal(*shape: int, dtype: torch.dtype, device: str, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(device, dtype)


def turned(x: Tensor) -> Tensor:
    """The same numbers, those of a head next to each other."""
    out = x.transpose(1, 2).contiguous().transpose(1, 2)
    assert not out.is_contiguous()
    return out


@pytest.mark.parametrize("queries", [2, 300])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dims", DIMS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("device", DEVICES)
def test_the_same_bits(
    device: str, dtype: torch.dtype, dims: tuple[int, int], causal: bool, queries: int
) -> None:
    """Forward and backward."""
    batch, heads, kv_heads, keys = 2, 4, 2, 333
    sizes = [(queries, heads, dims[0]), (keys, kv_heads, dims[0]), (keys, kv_heads, dims[1])]
    given = [
        normal(batch, *size, dtype=dtype, device=device, seed=i) for i, size in enumerate(sizes)
    ]
    grad = normal(batch, queries, heads, dims[1], dtype=dtype, device=device, seed=3)
    views = [turned(x) for x in given]
    with tilewright.explain() as e:
        out, lse = OPS.attention.full(*given, causal=causal)
        got = OPS.attention.full(*views, causal=causal)
        gradients = OPS.attention_backward(grad, *given, out, lse, causal=causal)
        of_views = OPS.attention_backward(turned(grad), *views, turned(out), lse, causal=causal)
    if device == "cuda" and IS_HOPPER:
        assert [r.isa for r in e.records] == ["sm_90a"] * 4
    for x, y in zip((*got, *of_views), (out, lse, *gradients), strict=True):
        assert torch.equal(x, y)
