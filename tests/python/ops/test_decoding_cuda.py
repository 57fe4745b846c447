"""Decoding of sequences of very different lengths on a GPU."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
import tilewright.torch  # noqa: F401 - makes torch.ops.tilewright
import torch
from attention_definition import attend
from cases import TOLERANCES, assert_close

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
OPS = torch.ops.tilewright


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(*shape, generator=generator, device="cuda", dtype=torch.bfloat16)


def log_uniform(batch: int, most: int) -> list[int]:
    """Lengths from one to `most`; some are nothing."""
    draw = random.Random(batch)
    return [0 if i % 6 == 5 else round(most ** draw.random()) for i in range(batch)]


def expect_close(out: torch.Tensor, want: torch.Tensor) -> None:
    scale = want.pow(2).mean().sqrt()
    assert float((out.double() - want).abs().max()) <= 0.05 * float(scale) + 0.02 * float(
        want.abs().max()
    )


@pytest.mark.parametrize("batch", [1, 3, 70, 256])
@pytest.mark.parametrize(("heads", "kv_heads", "dims"), [(8, 2, 128), (12, 12, 64), (14, 7, 256)])
@pytest.mark.parametrize("page", [0, 16, 64])
def test_decodes_sequences_of_any_length(
    batch: int, heads: int, kv_heads: int, dims: int, page: int
) -> None:
    """A captured graph takes other lengths, and equal calls give equal bits."""
    most = {70: 3072, 256: 1024}.get(batch, 9000)
    queries = 1 if page != 16 else 2
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
@pytest.mark.parametrize("batch", [1, 3, 40, 256])
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


class Alone:
    """Some sequences of a batch: alone each is cut into many parts, among many into few or none."""

    def __init__(self, batch: int, most: int, *, equal: bool) -> None:
        self.lengths = [most] * batch if equal else log_uniform(batch, most)
        self.chosen = [0, batch // 2, batch - 1]
        for b, length in zip(self.chosen, (most, most // 2 + 7, most - 63), strict=True):
            self.lengths[b] = most if equal else length
        self.lens = torch.tensor(self.lengths, device="cuda", dtype=torch.int32)

    def expect_the_same(self, call: Callable[[slice], torch.Tensor],
                        want: Callable[[int], torch.Tensor]) -> None:  # fmt: skip
        """`call` takes the sequences to decode, `want` one of them."""
        together = call(slice(None))
        for b in self.chosen:
            alone, exact = call(slice(b, b + 1))[0], want(b).to(together.dtype)
            for got, other in ((alone, exact), (together[b], exact), (alone, together[b])):
                assert_close(got, other, TOLERANCES[torch.bfloat16])


@pytest.mark.parametrize("batch", [70, 256])
@pytest.mark.parametrize("dims", [64, 128, 256])
@pytest.mark.parametrize("page", [0, 16, 64])
@pytest.mark.parametrize("equal", [False, True])
def test_decodes_alone_as_in_a_batch(batch: int, dims: int, page: int, equal: bool) -> None:
    most, heads, kv_heads = 2048, 8, 2
    given = Alone(batch, most, equal=equal)
    q = normal(batch, 1, heads, dims)
    k, v = (normal(batch, most, kv_heads, dims, seed=i) for i in (1, 2))

    def call(of: slice) -> torch.Tensor:
        if page == 0:
            lens = None if equal else given.lens[of]
            return OPS.attention(q[of], k[of], v[of], kv_lens=lens, causal=True)
        pages = (x.view(-1, page, kv_heads, dims) for x in (k, v))
        table = torch.arange(batch * most // page, device="cuda", dtype=torch.int32)
        table = table.view(batch, -1)[of]
        return OPS.attention_paged(q[of, 0], *pages, table, given.lens[of], causal=True)[:, None]

    given.expect_the_same(call, lambda b: attend(q[b], k[b], v[b], given.lengths[b]))


@pytest.mark.parametrize("batch", [70, 256])
@pytest.mark.parametrize("heads", [16, 128])
@pytest.mark.parametrize("page", [0, 1, 64])
@pytest.mark.parametrize("equal", [False, True])
def test_decodes_latents_alone_as_in_a_batch(
    batch: int, heads: int, page: int, equal: bool
) -> None:
    most = 1024
    given = Alone(batch, most, equal=equal)
    q, cache = normal(batch, 1, heads, 576), normal(batch, most, 1, 576, seed=1)

    def parts(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[..., :512], x[..., 512:]

    def call(of: slice) -> torch.Tensor:
        if page == 0:
            lens = None if equal else given.lens[of]
            return OPS.mla(*parts(q[of]), *parts(cache[of]), lens, causal=True)
        pages = parts(cache.view(-1, page, 1, 576))
        table = torch.arange(batch * most // page, device="cuda", dtype=torch.int32)
        table = table.view(batch, -1)[of]
        return OPS.mla_paged(*parts(q[of, 0]), *pages, table, given.lens[of], causal=True)[:, None]

    given.expect_the_same(
        call, lambda b: attend(q[b], cache[b], cache[b, :, :, :512], given.lengths[b])
    )
