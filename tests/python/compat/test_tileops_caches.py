"""TileOPs' caches in pages, rotation in place and partial attention."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from oracles import attention, close, rotate
from tilewright.compat import tileops

F8 = torch.float8_e4m3fn
SLOTS = torch.tensor([9, -1, 0, 4])


@pytest.mark.parametrize("kind", [torch.bfloat16, F8])
def test_writes_and_reads_of_pages(kind) -> None:
    k, v = torch.randn(2, 4, 2, 8, dtype=torch.bfloat16)
    k[0, 0, 0] = 4000  # beyond what 8 bits hold, after the scale too
    pages = [torch.ones(3, 4, 2, 8).to(kind) for _ in range(2)]
    scales = [] if kind == torch.bfloat16 else [torch.tensor([2.0]), torch.tensor([0.5])]
    tileops.paged_kv_cache_write(k, v, *pages, SLOTS, *scales)
    for cache, rows, scale in zip(pages, (k, v), scales or (None, None), strict=True):
        flat = cache.view(12, 2, 8).float()
        want = torch.ones(12, 2, 8)
        for slot, row in zip(SLOTS.tolist(), rows.float(), strict=True):
            if slot >= 0:
                scaled = row if scale is None else (row / scale).clamp(-448, 448).to(F8).float()
                want[slot] = scaled
        assert torch.equal(flat, want)
        table, starts = torch.tensor([[2, 0], [1, 2]]), torch.tensor([0, 3, 7])
        into = torch.empty(7, 2, 8, dtype=torch.bfloat16)
        for first in (None, torch.tensor([2, 1])):
            got = tileops.paged_kv_cache_gather(
                cache, table.int(), starts.int(), first, scale, out=into
            )
            assert got is into
            begin = [0, 0] if first is None else first.tolist()
            places = [(0, begin[0] + i) for i in range(3)] + [(1, begin[1] + i) for i in range(4)]
            rows_there = [flat[table[b, i // 4] * 4 + i % 4] for b, i in places]
            close(got, (torch.stack(rows_there) * (1 if scale is None else scale)).bfloat16())
    with pytest.raises(ValueError, match=r"out is torch.bfloat16, not float16"):
        tileops.paged_kv_cache_gather(
            pages[0], table.int(), starts.int(), out=into, out_dtype="float16"
        )


@pytest.mark.parametrize("layout", ["neox", "interleaved"])
def test_latent_caches(layout) -> None:
    latent, key = torch.randn(4, 6), torch.randn(4, 8)
    positions, table = torch.tensor([3, 0, 2, 5]), torch.randn(7, 8)
    cache = torch.zeros(3, 4, 14)
    tileops.mla_kv_cache_write(latent, key, cache, SLOTS)
    close(cache.view(12, 14)[SLOTS[[0, 2, 3]]], torch.cat([latent, key], 1)[[0, 2, 3]])
    before = key.clone()
    options = {"fuse_rope": True, "rope_layout": layout}
    tileops.mla_kv_cache_write(latent, key, cache, SLOTS, None, positions, table, **options)
    cos, sin = table[positions].chunk(2, -1)
    turned = rotate(key, cos, sin, interleaved=layout == "interleaved")
    close(cache.view(12, 14)[SLOTS[[0, 2, 3]], 6:].contiguous(), turned[[0, 2, 3]].float())
    assert torch.equal(key, before)
    with pytest.raises(ValueError, match="needs positions"):
        tileops.mla_kv_cache_write(latent, key, cache, SLOTS, fuse_rope=True)
    options["rope_layout"] = "gptj"
    with pytest.raises(ValueError, match="'gptj' is neither"):
        tileops.mla_kv_cache_write(latent, key, cache, SLOTS, None, positions, table, **options)


@pytest.mark.parametrize("layout", ["neox", "interleaved"])
@pytest.mark.parametrize("rotated", [8, 16])
def test_heads_normalized_and_rotated_in_place(layout, rotated) -> None:
    qkv, positions = torch.randn(5, (4 + 2 + 2) * 16), torch.tensor([4, 0, 1, 3, 3])
    weights, table = torch.randn(2, 16), torch.randn(6, rotated)
    heads = qkv.clone().view(5, 8, 16)
    options = {"num_heads": 4, "num_kv_heads": 2, "eps": 1e-5, "rope_layout": layout}
    assert tileops.fused_qk_norm_rope(qkv, *weights, table, positions, **options) is None
    cos, sin = table[positions][:, None].chunk(2, -1)
    parts = [
        rotate(F.rms_norm(x.double(), (16,), w.double(), 1e-5), cos, sin,
               interleaved=layout == "interleaved")
        for x, w in ((heads[:, :4], weights[0]), (heads[:, 4:6], weights[1]))
    ]  # fmt: skip
    close(qkv.view(5, 8, 16), torch.cat([*parts, heads[:, 6:].double()], 1).float())


@pytest.mark.parametrize(("base", "unit"), [("e", 1.0), ("2", 0.6931471805599453)])
def test_states_of_attention(base, unit) -> None:
    q, k, v = torch.randn(1, 4, 6, 8), torch.randn(1, 4, 9, 8), torch.randn(1, 4, 9, 8)
    parts = [attention(q, k[:, :, s], v[:, :, s], lse=True) for s in (slice(4), slice(4, 9))]
    given = []
    for out, lse in parts:
        given += [out[0].transpose(0, 1).float(), (lse[0].T / unit).float()]
    got, lse = tileops.merge_attention_states(*given, lse_base=base)
    out, want = attention(q, k, v, lse=True)
    close(got, out[0].transpose(0, 1).float())
    torch.testing.assert_close(lse.double(), want[0].T / unit, rtol=1e-5, atol=1e-5)
    nothing = torch.full_like(given[1], -torch.inf)
    got, lse = tileops.merge_attention_states(
        given[0], given[1], torch.full_like(got, torch.nan), nothing, lse_base=base
    )
    close(got, given[0])
    close(lse, given[1])
    got, lse = tileops.merge_attention_states(given[0], nothing, given[2], nothing, lse_base=base)
    assert not got.any()
    assert torch.equal(lse, nothing)
    with pytest.raises(ValueError, match="'10' is neither e nor 2"):
        tileops.merge_attention_states(*given, lse_base="10")
