"""Attention and rotation written out in PyTorch, in float64."""

from __future__ import annotations

import math

import torch


def generator(seed: int) -> torch.Generator:
    """Of the device on which tensors are made."""
    return torch.Generator(torch.get_default_device()).manual_seed(seed)


def seeded(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The same normal numbers for the same rank."""
    return torch.randn(*shape, generator=generator(len(shape))).to(dtype)


BOUNDS = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 1.6e-2}


def close(got: torch.Tensor, want: torch.Tensor, bound: float | None = None) -> None:
    """Shape, dtype, contiguity and values, within what the dtype has or `bound`."""
    bound = BOUNDS.get(got.dtype, 0) if bound is None else bound
    assert got.shape == want.shape
    assert got.is_contiguous()
    torch.testing.assert_close(got.double(), want.double(), rtol=bound, atol=bound)


def attention(q, k, v, *, sees=None, scale=None, softcap=0.0, sinks=None, lse=False):
    """q [B, H, S, D], k and v [B, Hkv, L, D]; sees(i, j) tells whether query i sees key j."""
    q, k, v = q.double(), k.double(), v.double()
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = q @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if sees is not None:
        i = torch.arange(q.shape[2])[:, None]
        j = torch.arange(k.shape[2])[None]
        scores = scores.masked_fill(~sees(i, j), -math.inf)
    if sinks is not None:
        column = sinks.double().view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        weights = torch.cat([scores, column], -1).softmax(-1)[..., :-1]
    else:
        weights = scores.softmax(-1)
    out = weights @ v
    return (out, scores.logsumexp(-1)) if lse else out


def rotate(x, cos, sin, *, interleaved=False):
    """x [..., D] by cos and sin [..., R] of its first 2 R dimensions."""
    x, cos, sin = x.double(), cos.double(), sin.double()
    pairs = cos.shape[-1]
    head, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
    if interleaved:
        a, b = head[..., ::2], head[..., 1::2]
        turned = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    else:
        a, b = head.chunk(2, -1)
        turned = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    return torch.cat([turned, rest], -1)
