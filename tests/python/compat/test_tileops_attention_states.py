"""TileOPs' attention of release 0.1.0 against attention written out."""

from __future__ import annotations

import itertools

import pytest
import torch
from oracles import attention, close, rotate
from tilewright.compat import tileops

B, S, L, H, D = 2, 5, 9, 4, 16
Q, K, V = torch.randn(B, S, H, D), torch.randn(B, L, 2, D), torch.randn(B, L, 2, D)


def near(i, j, left, right, causal):
    place = i + L - S
    seen = torch.ones(torch.broadcast_shapes(i.shape, j.shape), dtype=torch.bool)
    if causal or right >= 0:
        seen &= j <= place + (0 if causal else right)
    return seen & (j >= place - left) if left >= 0 else seen


def written_out(q, k, v, left=-1, right=-1, causal=False, **options):
    heads_first = (x.transpose(1, 2) for x in (q, k, v))
    return attention(*heads_first, sees=lambda i, j: near(i, j, left, right, causal), **options)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("left", "right"), [(-1, -1), (3, -1), (3, 1)])
@pytest.mark.parametrize("softcap", [None, 2.0])
def test_dense(causal, left, right, softcap) -> None:
    options = {"is_causal": causal, "window_size_left": left, "window_size_right": right}
    options |= {"sm_scale": 0.3, "softcap": softcap}
    q, k, v = (x.double().requires_grad_() for x in (Q, K, V))
    oracle = {"scale": 0.3, "softcap": softcap or 0.0}
    want, sums = written_out(q, k, v, left, right, causal, lse=True, **oracle)
    want = want.transpose(1, 2)
    out, lse = tileops.gqa_dense_with_lse(Q, K, V, **options)
    close(out, want.detach().float())
    close(lse, sums.detach().float())
    close(tileops.gqa_dense(Q, K, V, **options), out)
    sinks = torch.randn(H)
    got = tileops.gqa_dense(Q, K, V, sinks=sinks, **options)
    with_sink = written_out(Q, K, V, left, right, causal, sinks=sinks, **oracle)
    close(got, with_sink.transpose(1, 2).float().contiguous())
    grad = torch.randn(B, S, H, D)
    want.backward(grad.double())
    made = tileops.gqa_dense_bwd(grad, Q, K, V, out, lse, **options)
    for x, y in zip(made, (q, k, v), strict=True):
        close(x, y.grad.float(), 1e-4)


@pytest.mark.parametrize("layout", ["neox", "interleaved"])
@pytest.mark.parametrize("width", [None, 8])
def test_dense_with_rotation(layout, width) -> None:
    pairs = (width or D) // 2
    angles = 6 * torch.rand(L + 3, pairs)
    cos, sin = angles.cos(), angles.sin()
    interleaved = layout == "interleaved"
    turned = [
        rotate(
            x, cos[first : first + n, None], sin[first : first + n, None], interleaved=interleaved
        )
        for x, first, n in ((Q, L - S, S), (K, 0, L))
    ]
    got = tileops.gqa_dense(
        Q, K, V, None, None, None, cos, sin, pos_encoding_mode="rope", rotary_dim=width,
        rope_layout=layout, is_causal=True,
    )  # fmt: skip
    want = written_out(*turned, V, causal=True)
    close(got, want.transpose(1, 2).float().contiguous())
    with pytest.raises(ValueError, match="gqa_dense: rope takes rope_cos and rope_sin"):
        tileops.gqa_dense(Q, K, V, pos_encoding_mode="rope")
    with pytest.raises(ValueError, match="pos_encoding_mode = 'alibi' is not none or rope"):
        tileops.gqa_dense(Q, K, V, pos_encoding_mode="alibi")


def test_dense_of_8_bits() -> None:
    codes = [x.to(torch.float8_e4m3fn) for x in (Q, K, V)]
    scales = [torch.rand(B, 2) + 0.5 for _ in range(3)]
    wide = [
        x.double() * s.double().repeat_interleave(x.shape[2] // 2, 1)[:, None, :, None]
        for x, s in zip(codes, scales, strict=True)
    ]
    got = tileops.gqa_dense(*codes, *scales, out_dtype="bfloat16", is_causal=True)
    assert got.dtype == torch.bfloat16
    want = written_out(*wide, causal=True)
    close(got, want.transpose(1, 2).bfloat16().contiguous(), 3e-2)
    for arguments in ((*codes, *scales), (*codes,), (Q, K, V, *scales)):
        with pytest.raises(ValueError, match="8-bit floats, and no others, take scales"):
            tileops.gqa_dense(*arguments)


@pytest.mark.parametrize("causal", [False, True])
def test_latent_attention_of_sequences(causal) -> None:
    starts = [0, 4, 4, 13]
    q, nope, rope, v = (torch.randn(13, *n) for n in ((3, 20), (3, 12), (8,), (3, 12)))
    cu = torch.tensor(starts, dtype=torch.int32)
    out, lse = tileops.mla_varlen(q, nope, rope, v, cu, is_causal=causal)
    keys = torch.cat([nope, rope[:, None].expand(13, 3, 8)], -1)
    given = [x.double().requires_grad_() for x in (q, keys, v)]
    wanted, sums = [], []
    for first, end in itertools.pairwise(starts):
        parts = (x[first:end].transpose(0, 1)[None] for x in given)
        sees = (lambda i, j: j <= i) if causal else None
        made, total = attention(*parts, sees=sees, lse=True)
        wanted.append(made[0].transpose(0, 1))
        sums.append(total[0])
    want = torch.cat(wanted)
    close(out, want.detach().float())
    close(lse, torch.cat(sums, 1).detach().float())
    grad = torch.randn(13, 3, 12)
    want.backward(grad.double())
    made = tileops.mla_varlen_bwd(grad, q, keys, v, out, lse, cu, cu, is_causal=causal)
    for x, y in zip(made, given, strict=True):
        close(x, y.grad.float(), 1e-4)
    one = (x[4:][None] for x in (grad, q, keys, v, out))
    dense = tileops.mla_dense_bwd(*one, lse[None, :, 4:].contiguous(), is_causal=causal)
    for x, y in zip(dense, given, strict=True):
        close(x[0], y.grad[4:].float(), 1e-4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", [torch.float32, torch.float8_e4m3fn])
def test_latent_attention_in_pages(causal, kind) -> None:
    pages, q = torch.randn(6, 4, 24).to(kind), torch.randn(2, 3, 5, 24)
    scale = None if kind == torch.float32 else torch.tensor([0.5])
    table = torch.tensor([[3, 0], [5, 1]], dtype=torch.int32)
    lengths = torch.tensor([7, 3], dtype=torch.int32)
    out, lse = tileops.mla_paged(
        q, pages, table, lengths, scale, kv_lora_rank=16, is_causal=causal, sm_scale=0.2
    )
    for b, n in enumerate(lengths.tolist()):
        rows = pages[table[b].long()].double().flatten(0, 1)[:n] * (1 if scale is None else 0.5)
        sees = (lambda i, j, n=n: j <= i + n - 3) if causal else None
        own = rows[None, None]
        want, sums = attention(
            q[b : b + 1].transpose(1, 2), own, own[..., :16], sees=sees, scale=0.2, lse=True
        )
        close(out[b : b + 1], want.transpose(1, 2).float().contiguous(), 1e-4)
        close(lse[b : b + 1].contiguous(), sums.float(), 1e-4)
