"""Attention to lists of keys, and what makes them, against loops in float64."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest
import torch
from oracles import close, seeded
from tilewright.compat import tilegym, tileops

from tilewright import ops


def attend(q, k, v, keys, scale):
    """One query over some keys, in float64; nothing gives zeros and -inf."""
    if not keys:
        return torch.zeros(v.shape[-1], dtype=torch.float64), -math.inf
    scores = k[keys].double() @ q.double() * scale
    return scores.softmax(0) @ v[keys].double(), scores.logsumexp(0).item()


def lists(*shape: int, below: int) -> torch.Tensor:
    """Random lists without repetition, some of which point nowhere."""
    torch.manual_seed(sum(shape))
    out = torch.rand(*shape[:-1], max(below, shape[-1])).argsort(-1)[..., : shape[-1]].int()
    return torch.where(torch.rand(shape) < 0.2, -1, out)


@pytest.mark.parametrize(
    ("sizes", "dtype"),
    [
        ((1, 4, 1, 9, 16, 8, 2, 4), torch.float32),
        ((2, 6, 7, 11, 16, 8, 3, 8), torch.float32),
        ((1, 2, 5, 5, 8, 4, 2, 5), torch.bfloat16),
        ((2, 2, 0, 4, 8, 4, 1, 4), torch.float32),
        ((1, 16, 3, 300, 128, 64, 1, 256), torch.float16),
    ],
)
@pytest.mark.parametrize("causal", [True, False])
def test_sparse_mla(sizes: tuple[int, ...], dtype: torch.dtype, causal: bool) -> None:
    b, h, s, m, d, p, hk, topk = sizes
    q, k, v = (seeded(b, n, t, d, dtype=dtype) for n, t in ((h, s), (hk, m), (hk, m)))
    qpe, kpe = seeded(b, h, s, p, dtype=dtype), seeded(b, 1, m, p, dtype=dtype)
    indices = lists(b, s, hk, topk, below=m)
    want = torch.zeros(b, h, s, d, dtype=torch.float64)
    for at in torch.cartesian_prod(torch.arange(b), torch.arange(h), torch.arange(s)).tolist():
        i, head, t = at
        shared = head * hk // h
        listed = indices[i, t, shared].tolist()
        keys = [j for j in listed if 0 <= j < m and (j <= t or not causal)]
        query = torch.cat([q[i, head, t], qpe[i, head, t]])
        wide = torch.cat([k[i, shared], kpe[i, 0]], -1)
        want[i, head, t] = attend(query, wide, v[i, shared], keys, 1 / math.sqrt(d + p))[0]
    close(tilegym.sparse_mla(q, k, v, indices, qpe, kpe, causal), want.to(dtype))


def test_sparse_mla_refuses_tilings_that_do_not_fit() -> None:
    q, k, kpe = seeded(1, 16, 8, 16), seeded(1, 4, 64, 16), seeded(1, 1, 64, 8)
    given = (q, k, k, lists(1, 8, 4, 64, below=64), seeded(1, 16, 8, 8), kpe)
    for bad, error in (
        ({"TILE_H": 4}, ValueError),
        ({"TILE_N": 64}, ValueError),
        ({"TILE_H": 4.0, "TILE_N": 64}, TypeError),
        ({"TILE_H": 3, "TILE_N": 64}, AssertionError),
        ({"TILE_H": 4, "TILE_N": 48}, AssertionError),
        ({"TILE_H": 8, "TILE_N": 64}, AssertionError),
        ({"TILE_H": 4, "TILE_N": 128}, AssertionError),
    ):
        with pytest.raises(error):
            tilegym.sparse_mla(*given, kernel_configs=bad)
    fits = tilegym.sparse_mla(*given, kernel_configs={"TILE_H": 2, "TILE_N": 32})
    assert torch.equal(fits, tilegym.sparse_mla(*given))


@pytest.mark.parametrize(
    ("sizes", "stride", "start", "causal"),
    [
        ((1, 3, 4, 9, 24, 8, 1, 5), 1, 6, True),
        ((2, 5, 4, 6, 20, 4, 2, 6), 3, 0, True),
        ((1, 7, 2, 4, 16, 8, 2, 3), 4, None, True),
        ((1, 1, 8, 200, 96, 32, 1, 64), 1, 0, False),
        ((1, 2, 2, 0, 16, 8, 1, 2), 1, 5, True),
    ],
)
def test_deep_seek_sparse_attention(
    sizes: tuple[int, ...], stride: int, start: int | None, causal: bool
) -> None:
    b, s, h, m, d, tail, hk, topk = sizes
    q, kv, indices = seeded(b, s, h, d), seeded(b, m, hk, d), lists(b, s, hk, topk, below=m)
    indices = torch.where(indices >= m, 2**30, indices)
    first = m * stride - s if start is None else start
    want = torch.zeros(b, s, h, d - tail, dtype=torch.float64)
    for i in range(b):
        for t in range(s):
            for head in range(h):
                shared = head * hk // h
                listed = [j for j in indices[i, t, shared].tolist() if 0 <= j < m]
                keys = [j for j in listed if not causal or t + first >= (j + 1) * stride - 1]
                if t < stride - 1 and m and 0 not in keys:
                    keys.append(0)
                k = kv[i, :, shared]
                want[i, t, head] = attend(q[i, t, head], k, k[:, : d - tail], keys, d**-0.5)[0]
    got = tileops.deep_seek_sparse_attention_decode_with_kv_cache(
        q,
        kv,
        indices,
        dim_tail=tail,
        topk=topk,
        stride_kv=stride,
        q_start_index_s=start,
        is_causal=causal,
    )
    close(got, want.float())


def sequences(*lengths: int) -> tuple[torch.Tensor, torch.Tensor, list[tuple[int, int]]]:
    """Offsets, token indices, and the latter as pairs."""
    pairs = [(i, t) for i, length in enumerate(lengths) for t in range(length)]
    offsets = torch.tensor([0, *lengths]).cumsum(0).int()
    return offsets, torch.tensor(pairs, dtype=torch.int32).view(-1, 2), pairs


LENGTHS = pytest.mark.parametrize("lengths", [(1,), (5, 0, 12), (17, 3), (0,), (40, 33)])


@LENGTHS
@pytest.mark.parametrize("causal", [True, False])
def test_nsa(lengths: tuple[int, ...], causal: bool) -> None:
    offsets, tokens, pairs = sequences(*lengths)
    count, h, hk, d, block, chosen = sum(lengths), 4, 2, 16, 4, 3
    q, k, v = seeded(count, h, d), seeded(count, hk, d), seeded(count, hk, d)
    indices = lists(count, hk, chosen, below=max(1, max(lengths) // block))
    indices = torch.where(indices == 1, count, indices)  # beyond its sequence
    counts = torch.randint(0, chosen + 1, (count, hk)).int()
    want = torch.zeros(count, h, d, dtype=torch.float64)
    for row, (sequence, t) in enumerate(pairs):
        begin, end = int(offsets[sequence]), int(offsets[sequence + 1])
        for head in range(h):
            shared = head * hk // h
            blocks = indices[row, shared, : counts[row, shared]].tolist()
            keys = [b * block + i for b in blocks if b >= 0 for i in range(block)]
            most = t if causal else end - begin - 1
            keys = [begin + j for j in keys if j <= most]
            want[row, head] = attend(q[row, head], k[:, shared], v[:, shared], keys, 0.3)[0]
    options = {"block_size": block, "groups": h // hk, "selected_blocks": chosen}
    given = (q, k, v, indices, counts, offsets, tokens)
    got = tileops.nsa_fwd_varlen(*given, is_causal=causal, scale=0.3, **options)
    close(got, want.float())


def summaries(lengths: tuple[int, ...], block: int, hk: int, d: int):
    blocks = [-(-length // block) for length in lengths]
    chunks = torch.tensor([0, *blocks]).cumsum(0).int()
    return chunks, seeded(sum(blocks), hk, d), seeded(sum(blocks), hk, d - 3).roll(1, 0)


@LENGTHS
@pytest.mark.parametrize("hk", [1, 2])
def test_nsa_over_summaries(lengths: tuple[int, ...], hk: int) -> None:
    offsets, tokens, pairs = sequences(*lengths)
    h, d, block = 6, 16, 4
    q, (chunks, k, v) = seeded(sum(lengths), h, d), summaries(lengths, block, hk, d)
    want = torch.zeros(sum(lengths), h, d - 3, dtype=torch.float64)
    sums = torch.zeros(sum(lengths), h, dtype=torch.float64)
    for row, (sequence, t) in enumerate(pairs):
        keys = [int(chunks[sequence]) + j for j in range((t + 1) // block)]
        for head in range(h):
            shared = head * hk // h
            out, lse = attend(q[row, head], k[:, shared], v[:, shared], keys, 0.25)
            want[row, head], sums[row, head] = out, lse if keys else 0
    out, lse = tileops.nsa_cmp_fwd_varlen(
        q, k, v, offsets, chunks, tokens, scale=0.25, bc=4, bs=block
    )
    close(out, want.float())
    close(lse, sums.float())


@LENGTHS
@pytest.mark.parametrize("chosen", [1, 3, 12])
def test_nsa_chooses_the_heaviest_blocks(lengths: tuple[int, ...], chosen: int) -> None:
    offsets, tokens, pairs = sequences(*lengths)
    h, hk, d, block = 6, 2, 16, 4
    q, (chunks, k, _) = seeded(sum(lengths), h, d), summaries(lengths, block, hk, d)
    want = torch.full((sum(lengths), hk, chosen), -1, dtype=torch.int32)
    for row, (sequence, t) in enumerate(pairs):
        own, closed = t // block, (t + 1) // block
        first = int(chunks[sequence])
        for shared in range(hk):
            keys = k[first : first + max(own, closed), shared].double()
            heads = q[row, shared * h // hk : (shared + 1) * h // hk].double()
            scores = heads @ keys.T * 0.2
            lse = scores[:, :closed].logsumexp(-1) if closed else torch.zeros(h // hk)
            weights = [*(scores[:, :own] - lse[:, None]).exp().sum(0).tolist(), h // hk]
            order = sorted(range(own + 1), key=lambda j, w=weights: (-round(w[j] * 1e5), -j))
            want[row, shared, : own + 1] = torch.tensor(order[:chosen])[: own + 1]
    got = tileops.nsa_topk_varlen(
        q,
        k,
        torch.zeros(sum(lengths), h),
        offsets,
        chunks,
        tokens,
        scale=0.2,
        selected_block_num=chosen,
        bc=4,
        bs=block,
    )
    assert torch.equal(got, want)


@pytest.mark.parametrize("sizes", [(1, 3, 20, 2, 4), (2, 1, 5, 1, 5), (1, 2, 0, 1, 2)])
def test_topk_selector(sizes: tuple[int, ...]) -> None:
    b, s, m, g, topk = sizes
    scores = seeded(b, s, m, g)
    starts, ends = torch.randint(0, m // 2 + 1, (b, s)).int(), torch.randint(0, m + 1, (b, s)).int()
    got = tileops.topk_selector(scores, starts, ends, topk=topk)
    assert got.shape == (b, s, g, topk)
    assert got.dtype == torch.int32
    for i in range(b):
        for t in range(s):
            window = range(int(starts[i, t]), int(ends[i, t]))
            for group in range(g):
                best = sorted(window, key=lambda j: -scores[i, t, j, group].item())[:topk]
                assert got[i, t, group].tolist() == best + [m] * (topk - len(best))


@pytest.mark.parametrize("sizes", [(1, 5, 4, 8, 11, 1), (2, 3, 6, 16, 7, 2), (1, 2, 2, 8, 0, 1)])
@pytest.mark.parametrize("kind", ["scaled", "8 bits", "wide"])
def test_lightning_indexer(sizes: tuple[int, ...], kind: str) -> None:
    b, s, h, d, m, g = sizes
    q, k, weights = seeded(b, s, h, d), seeded(b, m, g, d), seeded(s, h)
    starts, ends = torch.randint(0, m // 2 + 1, (s,)).int(), torch.randint(0, m + 1, (s,)).int()
    scale = k.abs().amax(-1).clamp(min=1e-4) / 448
    exact = (k / scale[..., None]).to(torch.float8_e4m3fn).double() * scale[..., None].double()
    given = (q.bfloat16(), k.bfloat16()) if kind == "wide" else (q.to(torch.float8_e4m3fn),) * 2
    if kind == "scaled":
        given = (given[0], (k / scale[..., None]).to(torch.float8_e4m3fn))
    elif kind == "8 bits":
        given, exact = (given[0], k.to(torch.float8_e4m3fn)), k.to(torch.float8_e4m3fn).double()
    else:
        wide = k.bfloat16().float()
        scale = wide.abs().amax(-1).clamp(min=1e-4) / 448
        exact = (wide / scale[..., None]).to(torch.float8_e4m3fn).double() * scale[..., None]
    queries = given[0].to(torch.float8_e4m3fn).double().view(b, s, g, h // g, d)
    products = torch.einsum("bsghd,bmgd->bsmgh", queries, exact).relu()
    want = torch.einsum("bsmgh,sgh->bsmg", products, weights.double().view(s, g, h // g))
    place = torch.arange(m)
    seen = (place >= starts[:, None]) & (place < ends[:, None])
    want = want.masked_fill(~seen[None, ..., None], -math.inf)
    scales = scale if kind == "scaled" else None
    got = tileops.fp8_lightning_indexer(*given, weights, starts, ends, scales)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)


def test_lightning_indexer_refuses_scales_of_wide_keys() -> None:
    q, k = seeded(1, 3, 2, 8, dtype=torch.bfloat16), seeded(1, 4, 1, 8, dtype=torch.bfloat16)
    bounds = torch.zeros(3, dtype=torch.int32), torch.full((3,), 4, dtype=torch.int32)
    with pytest.raises(ValueError, match="float8_e4m3fn"):
        tileops.fp8_lightning_indexer(q, k, seeded(3, 2), *bounds, torch.ones(1, 4, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_topk_orders_as_pytorch_does(dtype: torch.dtype) -> None:
    x = seeded(7, 501, dtype=dtype)
    x[0, 5], x[1, 9], x[2] = math.nan, -math.inf, 0.0
    values, indices = ops.topk(x, 40)
    want = torch.topk(x, 40)
    assert torch.equal(values.nan_to_num(9), want.values.nan_to_num(9))
    assert torch.equal(x.gather(1, indices.long()).nan_to_num(9), values.nan_to_num(9))
    assert indices[2].tolist() == list(range(40))
    for row in indices.tolist():
        assert len(set(row)) == 40


def test_it_may_be_the_first_call_of_a_process() -> None:
    program = """
import torch
from tilewright.compat import tileops
kv, listed = torch.ones(1, 3, 1, 16), torch.zeros(1, 2, 1, 3, dtype=torch.int32)
tileops.deep_seek_sparse_attention_decode_with_kv_cache(
    torch.ones(1, 2, 4, 16), kv, listed, dim_tail=8, topk=3, stride_kv=1, q_start_index_s=0)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=120)
