"""TileGym's attention of variants, layer norms of any dimensions, and products in blocks."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from oracles import attention, close
from tilewright.compat import tilegym

Q, K, V = torch.randn(2, 4, 5, 16), torch.randn(2, 2, 9, 16), torch.randn(2, 2, 9, 12)
MASK = torch.rand(2, 4, 5, 9) < 0.3
MATRIX, VECTOR, SLOPES = torch.randn(2, 4, 5, 9), torch.randn(2, 4, 1, 9), torch.rand(4)
LENGTHS = torch.tensor([5, 3]), torch.tensor([7, 9])


def expected(*, causal, window=0, kind=None, mask=None, lengths=None):
    """Each sequence by itself; queries beyond its length are zero."""
    out = torch.zeros(2, 4, 5, 12, dtype=torch.float64)
    for b in range(2):
        n, m = (5, 9) if lengths is None else (int(x[b]) for x in lengths)
        q, k, v = Q[b, :, :n].double(), K[b, :, :m].double(), V[b, :, :m].double()
        scores = q @ k.repeat_interleave(2, 0).mT / 4
        ahead = torch.arange(m)[None] - torch.arange(n)[:, None] - (m - n)
        if kind == "alibi":
            scores -= SLOPES[:, None, None] * ahead.abs()
        elif kind:
            scores += {"matrix": MATRIX, "vector": VECTOR}[kind].expand(2, 4, 5, 9)[b, :, :n, :m]
        hidden = ahead > (0 if causal else m)
        if window:
            hidden = hidden | (ahead.abs() > window)
        if mask is not None:
            hidden = hidden | mask[b, :, :n, :m]
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1).nan_to_num()
        out[b, :, :n] = weights @ v.repeat_interleave(2, 0)
    return out


@pytest.mark.parametrize("layout", ["bnsd", "nsbd"])
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["padded", "lengths"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("kind", "window", "mask"),
    [
        (None, 0, None), (None, 3, None), (None, 0, MASK), ("vector", 0, None), ("matrix", 0, None),
        ("alibi", 0, None), ("matrix", 3, MASK), ("alibi", 2, None),
    ],
)  # fmt: skip
def test_variants(layout, lengths, causal, kind, window, mask) -> None:
    order = (2, 0, 1, 3) if layout == "bnsd" else (0, 1, 2, 3)  # from heads, positions, batch
    given = [x.permute(1, 2, 0, 3).permute(order).contiguous() for x in (Q, K, V)]
    options = {
        "is_causal": causal,
        "q_lens": None if lengths is None else lengths[0],
        "kv_lens": None if lengths is None else lengths[1],
        "bias_type": kind,
        "bias": {"vector": VECTOR, "matrix": MATRIX, "alibi": SLOPES}.get(kind),
        "window_size": window,
        "random_mask": None if mask is None else mask.to(torch.int8),
        "layout": layout,
    }
    want = expected(causal=causal, window=window, kind=kind, mask=mask, lengths=lengths)
    want = want.permute(1, 2, 0, 3).permute(order)
    close(tilegym.fmha_variant(*given, **options), want)
    close(tilegym.fmha_variant(*given, dropout=1e-12, **options), want)  # drops nothing


def test_variants_of_plain_attention() -> None:
    close(tilegym.fmha_variant(Q, K, V, 0.5, False), attention(Q, K, V, scale=0.5))
    for wrong in ({"layout": "bsnd"}, {"bias_type": "tensor"}):
        with pytest.raises(ValueError, match=r"fmha_variant: .* is none of"):
            tilegym.fmha_variant(Q, K, V, **wrong)
    with pytest.raises(ValueError, match="dropout must be 0 or more and less than 1, not 1"):
        tilegym.fmha_variant(Q, K, V, dropout=1)


def test_dropout_of_weights() -> None:
    keys = torch.randn(2, 2, 64, 16)
    each = torch.eye(64).expand(2, 2, 64, 64).contiguous()  # values that show the weights
    whole = tilegym.fmha_variant(Q, keys, each, is_causal=False)
    made = tilegym.fmha_variant(Q, keys, each, is_causal=False, dropout=0.25, seed=-7)
    kept = made != 0
    assert 0.7 < kept.float().mean() < 0.8
    torch.testing.assert_close(made, torch.where(kept, whole / 0.75, 0.0))
    again = tilegym.fmha_variant(Q, keys, each, is_causal=False, dropout=0.25, seed=-7)
    other = tilegym.fmha_variant(Q, keys, each, is_causal=False, dropout=0.25, seed=8)
    assert torch.equal(made, again)
    assert not torch.equal(made, other)


@pytest.mark.parametrize("dims", [(1, 2), (1, 3), (2, 4), (0, 1), (-1, 4)])
def test_layer_norm_of_dimensions(dims) -> None:
    x = torch.randn(3, 4, 5, 6)
    inside = list(range(4))[dims[0] : dims[1]]
    weight, bias = (torch.randn([x.shape[d] for d in inside]) for _ in range(2))
    got = tilegym.layer_norm(x, *dims, weight, bias, 1e-5, weight_shift=0.5)
    last = list(range(-len(inside), 0))
    want = F.layer_norm(x.movedim(inside, last), weight.shape, weight + 0.5, bias, 1e-5)
    close(got, want.movedim(last, inside))
    with pytest.raises(ValueError, match=r"layer_norm: weight \(7,\) must be x \(3, 4, 5, 6\)"):
        tilegym.layer_norm(x, 1, 2, torch.ones(7), torch.ones(7), 1e-5)


def test_transpose_into() -> None:
    x = torch.randn(3, 5)
    into = torch.empty(5, 3)
    assert tilegym.transpose(x, into, static_persistent=True) is into
    assert torch.equal(into, x.T)


def test_product_in_blocks() -> None:
    """By default in blocks of 128 x 128, the last one narrower, and in float16."""
    a, b = (torch.randn(n, 200).to(torch.float8_e4m3fn) for n in (3, 130))
    a_scale, b_scale = torch.rand(3, 2) + 0.5, torch.rand(2, 2) + 0.5
    columns = torch.arange(200) // 128
    left = a.double() * a_scale[:, columns]
    right = b.double() * b_scale[torch.arange(130) // 128][:, columns]
    got = tilegym.w8a8_block_fp8_matmul(a, b, a_scale, b_scale)
    assert got.dtype == torch.float16
    torch.testing.assert_close(got.double(), left @ right.T, rtol=1e-3, atol=5e-2)
    got = tilegym.w8a8_block_fp8_matmul(a, b, a_scale, b_scale, [128, 128], torch.float32)
    torch.testing.assert_close(got.double(), left @ right.T, rtol=1e-4, atol=1e-3)
