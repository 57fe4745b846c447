"""TileGym's flashinfer suite against attention in float64."""

from __future__ import annotations

import pytest
import torch
from oracles import attention, close, seeded
from tilewright.compat.tilegym import flashinfer

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def tables(lengths: list[int], page: int, pages: int) -> torch.Tensor:
    torch.manual_seed(page)
    return torch.randint(0, pages, (len(lengths), -(-max(lengths) // page) + 1)).int()


def keys_of(cache: torch.Tensor, table: torch.Tensor, length: int) -> torch.Tensor:
    """The first keys of a sequence [1, H, L, D]."""
    return cache[table.long()].flatten(0, 1)[:length].transpose(0, 1)[None]


@DTYPES
@pytest.mark.parametrize("lengths", [[1], [5, 33, 16], [40, 1]])
def test_decode_over_pages(lengths: list[int], dtype: torch.dtype) -> None:
    q, k, v = (
        seeded(len(lengths), 4, 32, dtype=dtype),
        seeded(9, 2, 8, 32, dtype=dtype).transpose(1, 2),
        seeded(9, 2, 8, 32, dtype=dtype).flip(0).transpose(1, 2),
    )
    table = tables(lengths, 8, 9)
    given = (q, k, v, torch.tensor(lengths).view(-1, 1, 1), table, 0.2, 0.5)
    out = torch.empty_like(q)
    assert flashinfer.decode_attention_kv_paged(*given, outputs=out) is out
    close(flashinfer.decode_attention_kv_paged(*given), out)
    for b, length in enumerate(lengths):
        keys, values = (keys_of(x, table[b], length) for x in (k, v))
        want = attention(q[b, :, None][None], keys, values, scale=0.2)[0, :, 0] * 0.5
        close(out[b], want.to(dtype))


@DTYPES
@pytest.mark.parametrize("together", [True, False])
def test_latent_decode_over_pages(together: bool, dtype: torch.dtype) -> None:
    lengths = [3, 50]
    rows = seeded(7, 16, 96, dtype=dtype)
    kv, rope = rows[..., :64], rows[..., 64:]
    if not together:
        kv, rope = kv.contiguous(), rope.contiguous()
    q, table = seeded(2, 8, 96, dtype=dtype), tables(lengths, 16, 7)
    given = (q[..., :64].contiguous(), q[..., 64:].contiguous(), kv, rope)
    out = flashinfer.decode_mla_kv_paged(*given, torch.tensor(lengths), table, 0.1, 1.0)
    for b, length in enumerate(lengths):
        keys = keys_of(rows[:, :, None], table[b], length)
        want = attention(q[b, :, None][None], keys, keys[..., :64], scale=0.1)[0, :, 0]
        close(out[b], want.to(dtype))


def segments(lengths: list[int], gap: int) -> tuple[torch.Tensor, int]:
    starts, at = [], 0
    for length in lengths:
        starts.append(at)
        at += length + gap
    return torch.tensor(starts), at


def check_prefill(out, lse, q, starts, lengths, keys, values, *, causal, dtype) -> None:
    for b, length in enumerate(lengths):
        rows = slice(int(starts[b]), int(starts[b]) + length)
        sees = (lambda i, j: j <= i) if causal else None
        query = q[rows].transpose(0, 1)[None]
        want, sums = attention(query, keys[b], values[b], sees=sees, scale=0.3, lse=True)
        close(out[rows].contiguous(), (want[0].transpose(0, 1) * 2).to(dtype).contiguous())
        torch.testing.assert_close(lse[rows].double(), sums[0].T, rtol=1e-2, atol=1e-2)


@DTYPES
@pytest.mark.parametrize("gap", [0, 3])
@pytest.mark.parametrize(("causal", "more"), [(True, 0), (True, 5), (False, 0), (False, 5)])
def test_prefill_over_pages(causal: bool, more: int, gap: int, dtype: torch.dtype) -> None:
    lengths = [7, 1, 20]
    starts, count = segments(lengths, gap)
    q, k, v = (
        seeded(count, 4, 24, dtype=dtype),
        seeded(9, 4, 2, 24, dtype=dtype),
        seeded(9, 4, 2, 16, dtype=dtype),
    )
    counts = [length + more for length in lengths]
    table = tables(counts, 4, 9)
    sizes = (torch.tensor(lengths), torch.tensor(counts), starts)
    out, lse = flashinfer.prefill_attention_kv_paged(
        q, k, v, *sizes, table, 0.3, 2.0, 3, max(lengths), causal
    )
    assert lse.shape == (count, 4)
    keys = [keys_of(k, table[b], counts[b]) for b in range(3)]
    values = [keys_of(v, table[b], counts[b]) for b in range(3)]
    check_prefill(out, lse, q, starts, lengths, keys, values, causal=causal, dtype=dtype)


@DTYPES
@pytest.mark.parametrize("gap", [0, 3])
@pytest.mark.parametrize("causal", [True, False])
def test_prefill_over_ragged_keys(causal: bool, gap: int, dtype: torch.dtype) -> None:
    lengths = [7, 1, 20]
    starts, count = segments(lengths, gap)
    q, k, v = (seeded(count, h, d, dtype=dtype) for h, d in ((4, 24), (2, 24), (2, 16)))
    sizes = torch.tensor(lengths)
    into, sums = torch.empty(count, 4, 16, dtype=dtype), torch.empty(count, 4)
    out, lse = flashinfer.prefill_attention_kv_ragged(
        q, k, v, sizes, sizes, starts, None, 0.3, 2.0, 3, max(lengths), causal, into, sums
    )
    assert out is into
    assert lse is sums
    rows = [slice(int(s), int(s) + n) for s, n in zip(starts, lengths, strict=True)]
    keys, values = ([x[r].transpose(0, 1)[None] for r in rows] for x in (k, v))
    check_prefill(out, lse, q, starts, lengths, keys, values, causal=causal, dtype=dtype)


def test_causal_requests_need_a_key_for_each_query() -> None:
    q, k = seeded(5, 2, 8), seeded(5, 2, 8)
    sizes = (torch.tensor([5]), torch.tensor([3]), torch.tensor([0]))
    with pytest.raises(NotImplementedError, match="a key for each query"):
        flashinfer.prefill_attention_kv_ragged(q, k, k, *sizes, None, 1.0, 1.0, 1, 5)
