"""Masks that hide whole blocks of keys, of many tiles and blocks, against attention written out."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import pytest
import tilewright.torch  # noqa: F401 - makes torch.ops.tilewright
import torch
from attention_definition import on_pages
from cases import DEVICES

OPS = torch.ops.tilewright
Tensor = torch.Tensor

# Integers that the masks read: documents of different lengths.
DOCUMENTS = torch.repeat_interleave(torch.arange(200), torch.randint(1, 700, (200,),
    generator=torch.Generator().manual_seed(3))).int()  # fmt: skip
MASKS = {
    "documents": "mod_i32[q] == mod_i32[k]",
    "prefix": "k < 130 or q + kv_len - q_len >= k",
    "window": "abs(q + kv_len - q_len - k) < 200",
    "islands": "k // 128 % 37 == 5",
    "first": "k == 0",
    "last": "k == kv_len - 1",
    "none": "k < 0",
    "heads": "k // 100 % 5 == h and k != 3 * q",
    "batch": "(k + 1000 * b) // 300 % 4 == 1",
    "rows": "q // 64 % 3 != 0 and k % 1000 < 40",
}


def of_heads(x: Tensor, heads: int) -> Tensor:
    return x.repeat_interleave(heads // x.shape[1], 1).double()


def scores_of(q: Tensor, k: Tensor) -> Tensor:
    k = of_heads(k, q.shape[1])
    return torch.einsum("shd,lhd->hsl", q.double(), k) * q.shape[-1] ** -0.5


def written_out(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: str,
    batch: int = 0,
    causal: bool = False,
    scores: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One sequence, q [S, Hq, D], k and v [L, H, D], in float64; a row without keys is 0."""
    heads, queries, keys = q.shape[1], q.shape[0], k.shape[0]
    at = {
        "b": batch,
        "h": torch.arange(heads).view(-1, 1, 1),
        "q": torch.arange(queries).view(-1, 1),
    }
    at |= {"k": torch.arange(keys), "q_len": queries, "kv_len": keys, "mod_i32": DOCUMENTS}
    at = {name: x.to(q.device) if isinstance(x, Tensor) else x for name, x in at.items()}
    text = " & ".join(f"({part})" for part in mask.split(" and "))
    text = " | ".join(f"({part})" for part in text.split(" or "))
    sees = eval(text, {"abs": torch.abs}, at).expand(heads, queries, keys)
    if causal:
        sees = sees & (at["k"] <= at["q"] + keys - queries)
    scores = (scores_of(q, k) if scores is None else scores).masked_fill(~sees, -math.inf)
    out = torch.einsum("hsl,lhd->shd", scores.softmax(-1).nan_to_num(0), of_heads(v, heads))
    return out, scores.logsumexp(-1)


def tensors(queries: int, keys: int, heads: tuple[int, int], dims: int, device: str) -> Any:
    torch.manual_seed(queries + keys)
    of = {"dtype": torch.bfloat16, "device": device}
    sizes = [(queries, heads[0], dims), (keys, heads[1], dims), (keys, heads[1], dims)]
    return [torch.randn(s, **of) for s in sizes]


def close(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got.double(), want, rtol=2e-2, atol=2e-2)


# Many tiles of queries; more than 32 blocks of keys; few queries, whose keys are shared out.
SIZES = [(700, 700, 64), (257, 5000, 128), (130, 4300, 256), (1, 9000, 128), (5, 4500, 64)]


@functools.lru_cache(maxsize=1)  # all masks in turn
def two_sequences(size: tuple[int, int, int], device: str) -> tuple[list[Tensor], list[Tensor]]:
    """q, k and v, and the scores of each sequence."""
    queries, keys, dims = size
    drawn = (tensors(queries, keys, (4, 2), dims, device) for _ in "ab")
    q, k, v = map(torch.stack, zip(*drawn, strict=True))
    q[1] += 1
    return [q, k, v], [scores_of(*pair) for pair in zip(q, k, strict=True)]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_attention(mask: str, size: tuple[int, int, int], device: str) -> None:
    (q, k, v), scores = two_sequences(size, device)
    for causal in (False, True):
        got, lse = OPS.attention.full(
            q, k, v, causal=causal, mask_mod=MASKS[mask], mod_i32=DOCUMENTS.to(device)
        )
        for b in range(2):
            want, want_lse = written_out(q[b], k[b], v[b], MASKS[mask], b, causal, scores[b])
            close(got[b], want)
            close(lse[b], want_lse)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mask", MASKS)
def test_sequences_of_any_lengths(mask: str, device: str) -> None:
    lengths = [(300, 300), (1, 4200), (0, 7), (129, 640), (64, 5000), (3, 0)]
    parts = [tensors(s, n, (4, 4), 128, device) for s, n in lengths]
    given = [torch.cat(x) for x in zip(*parts, strict=True)]
    ends = [
        torch.tensor([0, *itertools.accumulate(x)], dtype=torch.int32, device=device)
        for x in zip(*lengths, strict=True)
    ]
    got = OPS.attention_varlen(*given, *ends, mask_mod=MASKS[mask], mod_i32=DOCUMENTS.to(device))
    want = [written_out(*part, MASKS[mask], b)[0] for b, part in enumerate(parts)]
    close(got, torch.cat(want))


LENGTHS = [4500, 1, 777]  # of sequences whose keys lie on pages


def parts_on_pages(queries: int, device: str) -> list[list[Tensor]]:
    return [tensors(queries, n, (8, 2), 128, device) for n in LENGTHS]


@functools.lru_cache(maxsize=1)  # for all sizes of pages
def wanted_on_pages(mask: str, queries: int, device: str) -> Tensor:
    parts = parts_on_pages(queries, device)
    return torch.cat([written_out(*part, MASKS[mask], b)[0] for b, part in enumerate(parts)])


@pytest.mark.parametrize("keys_of_page", [16, 256])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("queries", [1, 200])
@pytest.mark.parametrize("mask", MASKS)
def test_pages(mask: str, queries: int, keys_of_page: int, device: str) -> None:
    parts = parts_on_pages(queries, device)
    count = 5000 // keys_of_page + 1
    order = torch.randperm(3 * count).int().view(3, count)
    pages = [on_pages([part[i].cpu() for part in parts], keys_of_page, order, 3 * count)
             for i in (1, 2)]  # fmt: skip
    got = OPS.attention_paged(
        torch.cat([q for q, *_ in parts]), *(x.to(device) for x in pages), order.to(device),
        torch.tensor(LENGTHS, dtype=torch.int32, device=device),
        mask_mod=MASKS[mask], mod_i32=DOCUMENTS.to(device),
    )  # fmt: skip
    close(got, wanted_on_pages(mask, queries, device))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mask", MASKS)
def test_narrow_keys(mask: str, device: str) -> None:
    """Keys and values of 8 bits, whose scales go along."""
    q, *kv = tensors(3, 4500, (4, 2), 128, device)
    narrow = [(x * 32).round().clamp(-127, 127).to(torch.int8) for x in kv]
    scales = [torch.rand(x.shape[:2], device=device) / 16 for x in kv]
    got = OPS.attention(
        q[None], *(x[None] for x in narrow), k_scale=scales[0][None], v_scale=scales[1][None],
        mask_mod=MASKS[mask], mod_i32=DOCUMENTS.to(device),
    )  # fmt: skip
    wide = [x.double() * s[..., None] for x, s in zip(narrow, scales, strict=True)]
    close(got[0], written_out(q, *wide, MASKS[mask])[0])
