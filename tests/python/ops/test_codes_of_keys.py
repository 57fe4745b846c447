"""Every number of 8 bits as a key and as a value, exactly: queries that see one key each."""

from __future__ import annotations

import pytest
import tilewright.torch  # noqa: F401 - makes torch.ops.tilewright
import torch
from cases import DEVICES

OPS = torch.ops.tilewright
Tensor = torch.Tensor
BATCH, HEADS, DIMS = 4, 2, 64  # all of 256 codes in every head


def codes(keys: int, kind: torch.dtype, seed: int) -> Tensor:
    """[B, L, H, D], of which no key has another's order."""
    b, key, h, d = (torch.arange(n) for n in (BATCH, keys, HEADS, DIMS))
    at = 64 * b.view(-1, 1, 1, 1) + 7 * key.view(-1, 1, 1) + 13 * h.view(-1, 1) + d + seed
    return (at % 256).to(torch.uint8).view(kind)


def lay(x: Tensor, layout: str) -> Tensor:
    """The same numbers: all heads of a key, all keys of a head or all keys of a dim together."""
    order = {"BLHD": (0, 1, 2, 3), "BHLD": (0, 2, 1, 3), "BHDL": (0, 2, 3, 1)}[layout]
    back = [order.index(i) for i in range(4)]
    return x.permute(order).contiguous().permute(back)


@pytest.mark.parametrize("layout", ["BLHD", "BHLD", "BHDL"])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 3), (2, 40), (50, 50), (200, 333)])
@pytest.mark.parametrize("kind", [torch.int8, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_codes(
    dtype: torch.dtype, kind: torch.dtype, queries: int, keys: int, layout: str, device: str
) -> None:
    k, v = codes(keys, kind, 0), codes(keys, kind, 100)
    seen = slice(keys - queries, keys)  # by one query each: its own position's
    for x in (k,) if keys == 1 else (k, v):  # zero times a value that is not seen may be NaN
        x.view(torch.uint8)[x.double().isnan()] = 0
    q = (torch.arange(DIMS) % 5 - 2).to(dtype).expand(BATCH, queries, 3 * HEADS, DIMS)
    out, lse = OPS.attention.full(
        *(x.to(device) for x in (q, lay(k, layout), lay(v, layout))),
        scale=0.25,
        window_left=0,
        window_right=0,
    )
    of_head = torch.arange(3 * HEADS) // 3
    want = v.double()[:, seen][:, :, of_head]
    rtol = 2e-6 if device == "cuda" and dtype == torch.float32 else 0  # a weight over itself
    torch.testing.assert_close(out.cpu().double(), want, rtol=rtol, atol=0, equal_nan=True)
    scores = (q.double() * k.double()[:, seen][:, :, of_head]).sum(-1) / 4
    torch.testing.assert_close(lse.cpu().double(), scores.mT, rtol=1e-6, atol=1e-4)
