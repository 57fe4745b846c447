"""Decoding of sequences of very different lengths on a GPU."""

from __future__ import annotations

import math
import random

import pytest
import tilewright.torch  # noqa: F401 - makes torch.ops.tilewright
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
OPS = torch.ops.tilewright


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(*shape, generator=generator, device="cuda", dtype=torch.bfloat16)


def log_uniform(batch: int, most: int) -> list[int]:
    """Lengths from one to `most`; some are nothing."""
    draw = random.Random(batch)
    return [0 if i % 6 == 5 else round(most ** draw.random()) for i in range(batch)]


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, length: int) -> torch.Tensor:
    """One sequence in float64; the last query stands at its last key."""
    if length <= 0:
        return torch.zeros(*q.shape[:-1], v.shape[-1], device="cuda", dtype=torch.float64)
    group = q.shape[1] // k.shape[1]
    k, v = (x[:length].double().repeat_interleave(group, 1) for x in (k, v))
    scores = torch.einsum("shd,lhd->hsl", q.double(), k) / math.sqrt(q.shape[-1])
    at = torch.arange(length - len(q), length, device="cuda")[:, None]
    hidden = torch.arange(length, device="cuda")[None] > at
    weights = torch.softmax(scores.masked_fill(hidden, -math.inf), -1).nan_to_num(0)
    return torch.einsum("hsl,lhd->shd", weights, v)


def expect_close(out: torch.Tensor, want: torch.Tensor) -> None:
    scale = want.pow(2).mean().sqrt()
    assert float((out.double() - want).abs().max()) <= 0.05 * float(scale) + 0.02 * float(
        want.abs().max()
    )


@pytest.mark.parametrize("batch", [1, 3, 70])
@pytest.mark.parametrize(("heads", "kv_heads", "dims"), [(8, 2, 128), (12, 12, 64), (14, 7, 256)])
@pytest.mark.parametrize("page", [0, 16, 64])
def test_decodes_sequences_of_any_length(
    batch: int, heads: int, kv_heads: int, dims: int, page: int
) -> None:
    """A captured graph takes other lengths, and equal calls give equal bits."""
    most, queries = 9000 if batch < 70 else 3072, 1 if page != 16 else 2
    most -= most % 64
    lengths = [x if x >= queries else 0 for x in log_uniform(batch, most)]
    lens = torch.tensor(lengths, device="cuda", dtype=torch.int32)
    q = normal(batch, queries, heads, dims)
    k, v = (normal(batch, most, kv_heads, dims, seed=i) for i in (1, 2))
    for b, length in enumerate(lengths):
        k[b, length:], v[b, length:] = math.nan, math.nan

    def call() -> torch.Tensor:
        if page == 0:
            return OPS.attention(q, k, v, kv_lens=lens, causal=True)
        pages = (x.view(-1, page, kv_heads, dims) for x in (k, v))
        table = torch.arange(batch * most // page, device="cuda", dtype=torch.int32)
        return OPS.attention_paged(
            q.flatten(0, 1), *pages, table.view(batch, -1), lens, causal=True
        ).view_as(q)

    def expect_right(out: torch.Tensor) -> None:
        assert torch.isfinite(out).all()
        for b, length in enumerate(lens.tolist()):
            expect_close(out[b], attend(q[b], k[b], v[b], length))

    out = call()
    expect_right(out)
    assert all(torch.equal(out, call()) for _ in range(3))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()
    lens.copy_(lens.flip(0) // 2 * (lens.flip(0) // 2 <= lens))
    graph.replay()
    expect_right(out)


@pytest.mark.parametrize("heads", [16, 128])
@pytest.mark.parametrize("batch", [1, 3, 40])
def test_decodes_latents_of_any_length(batch: int, heads: int) -> None:
    most, draw = 4096, random.Random(3)
    counts = [draw.choice([1, 1, 2, 5]) for _ in range(batch)]
    lengths = [
        max(x, c) if x > 0 else 0 for x, c in zip(log_uniform(batch, most), counts, strict=True)
    ]
    lens = torch.tensor(lengths, device="cuda", dtype=torch.int32)
    offsets = torch.tensor([0, *counts], device="cuda").cumsum(0).to(torch.int32)
    q, cache = normal(sum(counts), heads, 576), normal(batch, most, 1, 576, seed=1)
    for b, length in enumerate(lengths):
        cache[b, length:] = math.nan
    pages = cache.view(-1, 64, 1, 576)
    table = torch.arange(len(pages), device="cuda", dtype=torch.int32).view(batch, -1)
    parts = [x for y in (q, pages) for x in (y[..., :512], y[..., 512:])]
    out = OPS.mla_paged(*parts, table, lens, offsets, causal=True)
    assert torch.equal(out, OPS.mla_paged(*parts, table, lens, offsets, causal=True))
    for b, length in enumerate(lengths):
        of = slice(int(offsets[b]), int(offsets[b + 1]))
        want = attend(q[of], cache[b], cache[b, :, :, :512], length)
        expect_close(out[of], want)
