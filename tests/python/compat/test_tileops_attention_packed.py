"""TileOPs' attention of requests one after the other, and in pages, request by request."""

from __future__ import annotations

import itertools

import pytest
import torch
from oracles import attention, close, generator, rotate
from tilewright.compat import tileops

H, HKV, D, PAGE = 4, 2, 16, 3
NEW, ALL = [4, 0, 3], [7, 2, 11]  # tokens of each request that ask, and that there are


def starts(lengths) -> torch.Tensor:
    return torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32)


Q = torch.randn(sum(NEW), H, D)
K, V = torch.randn(sum(ALL), HKV, D), torch.randn(sum(ALL), HKV, D)
ANGLES = 6 * torch.rand(max(ALL) + 2, D // 2)
SINKS = torch.tensor([-torch.inf, 0.5, -1.0, 3.0])

CASES = {
    "plain": {},
    "all keys": {"is_causal": False},
    "a window": {"window_size_left": 3},
    "both sides": {"is_causal": False, "window_size_left": 2, "window_size_right": 1},
    "scaled and capped": {"sm_scale": 0.4, "softcap": 2.0},
    "all keys alike": {"sm_scale": 0.0},
    "rotated": {"pos_encoding_mode": "rope"},
    "in part, by neighbours": {
        "pos_encoding_mode": "rope",
        "rotary_dim": 8,
        "rope_layout": "interleaved",
        "window_size_left": 4,
    },
}


def tables(options) -> list[torch.Tensor | None]:
    if "pos_encoding_mode" not in options:
        return [None, None]
    width = options.get("rotary_dim", D) // 2
    return [ANGLES[:, :width].cos(), ANGLES[:, :width].sin()]


def written_out(q, k, v, sinks, options) -> torch.Tensor:
    left, right = options.get("window_size_left", -1), options.get("window_size_right", -1)
    causal, interleaved = options.get("is_causal", True), "rope_layout" in options
    cos, sin = tables(options)
    made = []
    for begin, end, first, last in zip(
        starts(NEW), starts(NEW)[1:], starts(ALL), starts(ALL)[1:], strict=False
    ):
        offset = int(last - first - (end - begin))
        own = [x.transpose(0, 1)[None] for x in (q[begin:end], k[first:last], v[first:last])]
        if cos is not None:
            place = (offset + torch.arange(end - begin), torch.arange(last - first))
            own[:2] = [
                rotate(x, cos[p], sin[p], interleaved=interleaved)
                for x, p in zip(own, place, strict=False)
            ]

        def sees(i, j, offset=offset):
            near = torch.ones(torch.broadcast_shapes(i.shape, j.shape), dtype=torch.bool)
            if causal or right >= 0:
                near &= j <= i + offset + (0 if causal else right)
            return near & (j >= i + offset - left) if left >= 0 else near

        scale, cap = options.get("sm_scale"), options.get("softcap", 0.0)
        out = attention(*own, sees=sees, scale=scale, softcap=cap, sinks=sinks)
        made.append(out[0].transpose(0, 1))
    return torch.cat(made)


def in_pages(x) -> tuple[torch.Tensor, torch.Tensor]:
    """Pages in another order, NaN where there is no token, and the table."""
    width = -(-max(ALL) // PAGE)
    table = torch.randperm(len(ALL) * width, generator=generator(1))
    table = table.view(len(ALL), width).int()
    pages = torch.full((len(ALL) * width, PAGE, *x.shape[1:]), torch.nan, dtype=torch.float32)
    for b, (first, last) in enumerate(itertools.pairwise(starts(ALL).tolist())):
        for j in range(last - first):
            pages[int(table[b, j // PAGE]), j % PAGE] = x[first + j].float()
    return pages.to(x.dtype), table


@pytest.mark.parametrize("sinks", [None, SINKS])
@pytest.mark.parametrize("name", CASES)
def test_requests_one_after_the_other(name, sinks) -> None:
    options = CASES[name]
    want = written_out(Q, K, V, sinks, options).float()
    given = (starts(NEW), starts(ALL), None, None, None, *tables(options), sinks)
    close(tileops.gqa_varlen(Q, K, V, *given, **options), want)


@pytest.mark.parametrize("sinks", [None, SINKS])
@pytest.mark.parametrize("name", CASES)
def test_requests_in_pages(name, sinks) -> None:
    options = CASES[name]
    want = written_out(Q, K, V, sinks, options).float()
    (k_pages, table), (v_pages, _) = in_pages(K), in_pages(V)
    given = (table, torch.tensor(ALL, dtype=torch.int32), starts(NEW), None, None, None)
    got = tileops.gqa_paged(Q, k_pages, v_pages, *given, *tables(options), sinks, **options)
    close(got, want)


@pytest.mark.parametrize("name", ["plain", "rotated"])
def test_8_bits(name) -> None:
    options = {**CASES[name], "out_dtype": torch.float16}
    q, k, v = (x.to(torch.float8_e4m3fn) for x in (Q, K, V))
    scales = [torch.rand(len(ALL), HKV) + 0.5 for _ in range(3)]
    queries, keys = (torch.repeat_interleave(torch.arange(3), torch.tensor(n)) for n in (NEW, ALL))
    wide = [q.float() * scales[0][queries].repeat_interleave(2, 1)[..., None]]
    wide += [x.float() * s[keys][..., None] for x, s in zip((k, v), scales[1:], strict=True)]
    want = written_out(*wide, None, options).half()
    turn = tables(options)
    got = tileops.gqa_varlen(q, k, v, starts(NEW), starts(ALL), *scales, *turn, **options)
    close(got, want, 5e-3)
    (k_pages, table), (v_pages, _) = in_pages(k), in_pages(v)
    given = (table, torch.tensor(ALL, dtype=torch.int32), starts(NEW))
    close(tileops.gqa_paged(q, k_pages, v_pages, *given, *scales, *turn, **options), want, 5e-3)
    one = torch.tensor([0.7])
    wide = [Q.half(), k.float() * one, v.float() * one]
    half = {**options, "out_dtype": None}
    got = tileops.gqa_paged(Q.half(), k_pages, v_pages, *given, None, one, one, *turn, **half)
    close(got, written_out(*wide, None, options).half(), 5e-3)


def test_what_packed_attention_refuses() -> None:
    given = (Q, K, V, starts(NEW), starts(ALL))
    with pytest.raises(ValueError, match="pos_encoding_mode = 'alibi' is not none or rope"):
        tileops.gqa_varlen(*given, pos_encoding_mode="alibi")
    with pytest.raises(ValueError, match=r"sinks \(2,\) of torch.float32 must be float32 \[H\]"):
        tileops.gqa_varlen(*given, sinks=SINKS[:2])
    with pytest.raises(ValueError, match="sinks"):
        tileops.gqa_varlen(*given, sinks=SINKS.half())
    with pytest.raises(ValueError, match="take scales and an out_dtype"):
        tileops.gqa_varlen(*(x.to(torch.float8_e4m3fn) for x in given[:3]), *given[3:])
    with pytest.raises(ValueError, match="rope takes rope_cos and rope_sin"):
        tileops.gqa_varlen(*given, pos_encoding_mode="rope")


def test_sparse_attention_to_latents_in_pages() -> None:
    batch, queries, page, picked, lengths = 2, 2, 4, 5, [6, 3]
    latent, scales = torch.randn(6, page, 512).to(torch.float8_e4m3fn), torch.rand(6, page, 4)
    rope = torch.randn(6, page, 64).bfloat16()
    parts = (latent, scales, rope)
    cache = torch.cat([x.contiguous().view(torch.uint8) for x in parts], -1)
    q = torch.randn(batch, queries, 3, 576).bfloat16() / 4
    table = torch.tensor([[4, 1], [5, 0]], dtype=torch.int32)
    indices = torch.randint(-1, 8, (batch, queries, picked), dtype=torch.int32)
    indices[1, 1] = -1  # sees nothing
    got = tileops.dsa_paged(q, cache, table, torch.tensor(lengths, dtype=torch.int32), indices)
    values = latent.double() * scales.double().repeat_interleave(128, -1)
    for b, s in itertools.product(range(batch), range(queries)):
        seen = [int(j) for j in indices[b, s] if 0 <= j < lengths[b]]
        rows = [(int(table[b, j // page]), j % page) for j in seen]
        value = torch.stack([values[r] for r in rows]) if rows else values.new_zeros(0, 512)
        turned = torch.stack([rope[r] for r in rows]).double() if rows else value[:, :64]
        scores = q[b, s].double() @ torch.cat([value, turned], -1).T / 24
        close(got[0][b, s], (scores.softmax(-1) @ value).bfloat16(), 2e-2)
        close(got[1][b, s], scores.logsumexp(-1).float(), 2e-2)
