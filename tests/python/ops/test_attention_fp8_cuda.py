"""Attention of e4m3 on a GPU: what the catalog's cases lack, such as NaN beside a sequence."""

from __future__ import annotations

import math

import pytest
import tilewright.torch  # makes torch.ops.tilewright
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
OPS = torch.ops.tilewright
HEADS, KV_HEADS = 4, 2
LENGTHS = (300, 1, 517, 128, 0, 250)  # of queries and keys
LONG = (6300, 6401, 5999)  # which have a kernel of their own
NAN = 0x7F  # of e4m3


def packed(
    dims: int, lengths: tuple[int, ...] = LENGTHS
) -> tuple[list[torch.Tensor], torch.Tensor, list[torch.Tensor]]:
    generator = torch.Generator(device="cuda").manual_seed(dims)
    total = sum(lengths)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, device="cuda")

    tensors = [drawn(total, h, dims).to(torch.float8_e4m3fn) for h in (HEADS, KV_HEADS, KV_HEADS)]
    at = torch.tensor([0, *lengths], device="cuda").cumsum(0).int()
    scales = [drawn(len(lengths), KV_HEADS) for _ in range(3)]  # some are negative
    scales[0][0, 0] = 0
    return tensors, at, scales


def expected(
    tensors: list[torch.Tensor], scales: list[torch.Tensor], b: int, rows: slice, *, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    group = HEADS // KV_HEADS
    q, k, v = (
        x[rows].double() * s[b].double().repeat_interleave(x.shape[1] // KV_HEADS)[:, None]
        for x, s in zip(tensors, scales, strict=True)
    )
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = torch.einsum("shd,lhd->hsl", q, k) / math.sqrt(q.shape[2])
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores[0]).triu(1).bool(), -math.inf)
    return torch.einsum("hsl,lhd->shd", scores.softmax(-1), v), scores.logsumexp(-1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("dims", "lengths"),
    [(48, LENGTHS), (64, LENGTHS), (128, LENGTHS), (256, LENGTHS), (48, LONG), (64, LONG)],
    ids=str,
)
def test_against_float64(dims: int, lengths: tuple[int, ...], causal: bool) -> None:
    tensors, at, scales = packed(dims, lengths)
    with tilewright.explain() as e:
        out, lse = OPS.attention_fp8.full(*tensors, at, at, *scales, causal=causal)
    assert e.records[0].isa == "sm_90a" or torch.cuda.get_device_capability() != (9, 0)
    for b, (begin, end) in enumerate(zip(at.tolist(), at[1:].tolist(), strict=False)):
        if begin == end:
            continue
        want, sums = expected(tensors, scales, b, slice(begin, end), causal=causal)
        error = (out[begin:end].double() - want).norm() / want.norm()
        assert error < 5e-2, (b, error)  # weights are rounded by up to 2^-4 of themselves
        # The tensor cores keep some 14 bits of a score.
        torch.testing.assert_close(lse[:, begin:end].double(), sums, rtol=1e-3, atol=3e-2)
    again = OPS.attention_fp8(*tensors, at, at, *scales, causal=causal)
    assert torch.equal(out.view(torch.int16), again.view(torch.int16))


@pytest.mark.parametrize(
    ("dims", "lengths"), [(64, LENGTHS), (128, LENGTHS), (256, LENGTHS), (64, LONG)], ids=str
)
def test_a_sequence_does_not_see_its_neighbours(dims: int, lengths: tuple[int, ...]) -> None:
    tensors, at, scales = packed(dims, lengths)
    clean = OPS.attention_fp8(*tensors, at, at, *scales)
    rows = slice(at[2], at[3])
    for x in tensors[1:]:
        codes = x.view(torch.uint8)
        kept = codes[rows].clone()
        codes.fill_(NAN)
        codes[rows] = kept
    got = OPS.attention_fp8(*tensors, at, at, *scales)
    assert torch.equal(got[rows].view(torch.int16), clean[rows].view(torch.int16))
    assert got[: at[1]].isnan().all()


def test_replays_of_a_graph() -> None:
    tensors, at, scales = packed(128)
    once = OPS.attention_fp8(*tensors, at, at, *scales, causal=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = OPS.attention_fp8(*tensors, at, at, *scales, causal=True)
    out.zero_()
    graph.replay()
    assert torch.equal(out.view(torch.int16), once.view(torch.int16))
