"""Attention with a bias of each pair or ALiBi's slopes against PyTorch in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from cases import DEVICES, TOLERANCES
from tilewright._weights import attention_by_weights, attention_with_bias

OPS = torch.ops.tilewright
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def exact(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    added: torch.Tensor,
    *,
    causal: bool = False,
    softcap: float = 0.0,
) -> torch.Tensor:
    """The attention of [B, S, H, D], a bias added to its scores; 0 where a query sees nothing."""
    group = q.shape[2] // k.shape[2]
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores + added.double()
    if causal:
        sees = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device)
        scores = scores.masked_fill(~sees.tril(scores.shape[3] - scores.shape[2]), -math.inf)
    return (scores.softmax(-1).nan_to_num(0) @ v).transpose(1, 2)


def close(got: torch.Tensor, want: torch.Tensor, times: float = 2) -> None:
    tolerance = times * TOLERANCES[got.dtype]
    torch.testing.assert_close(got.double(), want, rtol=tolerance, atol=tolerance)


def operands(
    shape: tuple[int, ...], dtype: torch.dtype, device: str, value_dims: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(sum(shape))
    batch, queries, keys, q_heads, heads, dims = shape
    sizes = [
        (batch, queries, q_heads, dims),
        (batch, keys, heads, dims),
        (batch, keys, heads, value_dims or dims),
    ]
    q, k, v = (torch.randn(*s, device=device).to(dtype) for s in sizes)
    return q, k, v


def slopes_of(heads: int, device: str) -> torch.Tensor:
    """ALiBi's slopes (Press et al., 2022, arXiv:2108.12409) of a power of two heads."""
    return 2.0 ** (-8 * torch.arange(1, heads + 1, device=device) / heads)


def distances(queries: int, keys: int, device: str) -> torch.Tensor:
    at = torch.arange(keys - queries, keys, device=device)[:, None]
    return (at - torch.arange(keys, device=device)).abs()


SHAPES = [  # B, S, L, Hq, H, D
    (2, 1, 77, 4, 2, 64),
    (1, 7, 5, 2, 1, 40),
    (2, 65, 130, 4, 4, 64),
    (1, 130, 257, 8, 2, 128),
    (1, 64, 300, 2, 2, 256),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bias_of_each_pair(
    shape: tuple[int, ...], causal: bool, dtype: torch.dtype, device: str
) -> None:
    q, k, v = operands(shape, dtype, device)
    bias = torch.randn(shape[0], shape[3], shape[1], shape[2], device=device).to(dtype)
    close(
        OPS.attention(q, k, v, attn_bias=bias, causal=causal), exact(q, k, v, bias, causal=causal)
    )
    hidden = bias.masked_fill(torch.rand_like(bias.float()) < 0.5, -math.inf)
    hidden[:, :, -1] = -math.inf  # a query that sees nothing
    got = OPS.attention(q, k, v, attn_bias=hidden, causal=causal)
    close(got, exact(q, k, v, hidden, causal=causal))
    assert not got[:, -1].any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bias_that_is_expanded(dtype: torch.dtype, device: str) -> None:
    q, k, v = operands((3, 33, 70, 4, 2, 64), dtype, device)
    for sizes in [(1, 1, 1, 70), (3, 1, 33, 70), (1, 4, 33, 70), (3, 4, 33, 1)]:
        bias = torch.randn(sizes, device=device).to(dtype).expand(3, 4, 33, 70)
        close(OPS.attention(q, k, v, attn_bias=bias, softcap=5.0), exact(q, k, v, bias, softcap=5))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_slopes(shape: tuple[int, ...], causal: bool, dtype: torch.dtype, device: str) -> None:
    q, k, v = operands(shape, dtype, device)
    slopes = slopes_of(shape[3], device)
    added = -slopes[:, None, None] * distances(shape[1], shape[2], device)
    got = OPS.attention(q, k, v, alibi_slopes=slopes, causal=causal)
    close(got, exact(q, k, v, added, causal=causal))


@pytest.mark.parametrize("device", DEVICES)
def test_slopes_and_bias(device: str) -> None:
    q, k, v = operands((1, 40, 90, 4, 4, 64), torch.bfloat16, device)
    slopes, bias = slopes_of(4, device), torch.randn(1, 4, 40, 90, device=device).bfloat16()
    added = bias.double() - slopes[:, None, None] * distances(40, 90, device)
    close(OPS.attention(q, k, v, attn_bias=bias, alibi_slopes=slopes), exact(q, k, v, added))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_slopes_of_sequences_of_any_length(dtype: torch.dtype, device: str) -> None:
    q_ends, kv_ends = [0, 1, 70, 70, 90], [0, 40, 140, 150, 155]
    q, k, v = (x[0] for x in operands((1, 90, 155, 4, 2, 64), dtype, device))
    slopes = slopes_of(4, device)
    ends = [torch.tensor(e, dtype=torch.int32, device=device) for e in (q_ends, kv_ends)]
    got = OPS.attention_varlen(q, k, v, *ends, alibi_slopes=slopes, causal=True)
    for i in range(len(q_ends) - 1):
        rows, keys = slice(*q_ends[i : i + 2]), slice(*kv_ends[i : i + 2])
        parts = q[None, rows], k[None, keys], v[None, keys]
        added = -slopes[:, None, None] * distances(parts[0].shape[1], parts[1].shape[1], device)
        close(got[None, rows], exact(*parts, added, causal=True))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_slopes_of_pages(dtype: torch.dtype, device: str) -> None:
    q, k, v = operands((2, 1, 128, 4, 2, 64), dtype, device)
    slopes = slopes_of(4, device)
    pages = [x.reshape(8, 32, 2, 64) for x in (k, v)]
    table = torch.arange(8, dtype=torch.int32, device=device).view(2, 4)
    lens = torch.tensor([128, 70], dtype=torch.int32, device=device)
    got = OPS.attention_paged(q[:, 0], *pages, table, lens, alibi_slopes=slopes)
    for b, keys in enumerate(lens.tolist()):
        parts = q[b : b + 1], k[b : b + 1, :keys], v[b : b + 1, :keys]
        added = -slopes[:, None, None] * distances(1, keys, device)
        close(got[b][None, None], exact(*parts, added))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dims", [(64, 64), (192, 128), (40, 24)])
def test_weights_are_not_needed(dims: tuple[int, int], device: str) -> None:
    shape = (2, 20, 50, 4, 2, dims[0])
    q, k, v = (
        x.transpose(1, 2) for x in operands(shape, torch.float32, device, value_dims=dims[1])
    )
    options: dict[str, Any] = {
        "sees": (torch.rand(2, 1, 20, 50, device=device) < 0.7),
        "bias": torch.randn(1, 4, 20, 50, device=device),
        "sinks": torch.randn(4, device=device),
        "softcap": 3.0,
    }
    want, _ = attention_by_weights(q, k, v, **options)
    got, weights = attention_with_bias(q, k, v, **options)
    assert weights is None
    close(got, want.double())
    q.requires_grad_()
    got, weights = attention_with_bias(q, k, v, **options)
    assert weights is not None
    got.sum().backward()
    assert q.grad is not None


def test_wrong_biases() -> None:
    q, k, v = operands((1, 4, 6, 2, 2, 8), torch.float32, "cpu")
    with pytest.raises(ValueError, match=r"attention: attn_bias is f32\[1, 2, 4, 5\]"):
        OPS.attention(q, k, v, attn_bias=torch.zeros(1, 2, 4, 5))
    with pytest.raises((ValueError, TypeError, RuntimeError), match=r"attention: .*attn_bias"):
        OPS.attention(q, k, v, attn_bias=torch.zeros(1, 2, 4, 6, dtype=torch.int32))
    with pytest.raises(ValueError, match=r"attention: alibi_slopes is f32\[3\]"):
        OPS.attention(q, k, v, alibi_slopes=torch.zeros(3))
