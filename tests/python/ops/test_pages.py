"""Keys on pages among pages of NaN, of no sequence or behind the end of one."""

from __future__ import annotations

import functools

import pytest
import tilewright.torch  # noqa: F401 - makes torch.ops.tilewright
import torch
from attention_definition import attend, on_pages
from cases import DEVICES

OPS = torch.ops.tilewright
Tensor = torch.Tensor
LENGTHS = [300, 1, 0, 777]


def normal(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.bfloat16)


def tables(page: int) -> tuple[Tensor, Tensor, int]:
    """A table in any order, with more pages than a sequence needs, and as many that it lacks."""
    width = max(LENGTHS) // page + 2
    count = 2 * width * len(LENGTHS)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(page)).int()
    table = order[: count // 2].view(len(LENGTHS), width)
    return table, torch.tensor(LENGTHS, dtype=torch.int32), count


@functools.lru_cache(maxsize=1)  # for all sizes of pages
def sequences(
    queries: int, heads: tuple[int, int], dims: tuple[int, int]
) -> tuple[list[Tensor], list[Tensor], list[Tensor], Tensor]:
    """q, k and v of each, and what they attend to. Values are the keys' first dims in latents."""
    q = [normal(queries, heads[0], dims[0], seed=i) for i in range(len(LENGTHS))]
    k = [normal(n, heads[1], dims[0], seed=10 + n) for n in LENGTHS]
    if dims == LATENT:
        v = [x[..., : dims[1]] for x in k]
    else:
        v = [normal(n, heads[1], dims[1], seed=20 + n) for n in LENGTHS]
    return q, k, v, torch.cat([attend(*x) for x in zip(q, k, v, LENGTHS, strict=True)])


def expect(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got.cpu().double(), want, rtol=2e-2, atol=2e-2)


DIMS = [(64, 64), (128, 128), (192, 128), (256, 256)]
LATENT = (576, 512)
QUERIES = [1, 3, 200]  # decoding, speculation, prompts


@pytest.mark.parametrize("page", [10, 16, 64, 128, 256])
@pytest.mark.parametrize("queries", QUERIES)
@pytest.mark.parametrize("dims", DIMS, ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_attention_paged(dims: tuple[int, int], queries: int, page: int, device: str) -> None:
    q, k, v, want = sequences(queries, (8, 2), dims)
    table, lens, count = tables(page)
    pages = [on_pages(x, page, table, count).to(device) for x in (k, v)]
    given = (torch.cat(q).to(device), *pages, table.to(device), lens.to(device))
    expect(OPS.attention_paged(*given, causal=True), want)


@pytest.mark.parametrize("page", [1, 4, 10, 16, 64, 128])
@pytest.mark.parametrize("queries", QUERIES)
@pytest.mark.parametrize("device", DEVICES)
def test_mla_paged(queries: int, page: int, device: str) -> None:
    q, k, _, want = sequences(queries, (16, 1), LATENT)
    table, lens, count = tables(page)
    tensors = (torch.cat(q).to(device), on_pages(k, page, table, count).to(device))
    parts = [part for x in tensors for part in (x[..., : LATENT[1]], x[..., LATENT[1] :])]
    expect(OPS.mla_paged(*parts, table.to(device), lens.to(device), causal=True), want)
