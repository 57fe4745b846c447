"""What TileGym's interfaces have beside its operators, in PyTorch's terms."""

from __future__ import annotations

import types

import pytest
import torch
import torch.nn.functional as F
from oracles import attention, close
from tilewright.compat import tilegym
from tilewright.compat.tilegym.ops.attn_interface import repeat_kv
from tilewright.compat.tilegym.ops.moe_interface import fused_experts_impl

Q, K, V = torch.randn(2, 4, 5, 16), torch.randn(2, 2, 9, 16), torch.randn(2, 2, 9, 16)
IDS = torch.tensor([[0, 2], [1, 0], [2, 1], [2, 0]], dtype=torch.int32)
SHARES = torch.rand(4, 2)


def test_repeat_kv() -> None:
    assert torch.equal(repeat_kv(K, 3), K.repeat_interleave(3, 1))


def test_attention_sink_ref() -> None:
    sinks = torch.randn(4)
    query = Q.view(2, 2, 2, 5, 16).permute(0, 3, 1, 2, 4)
    keys, values = K.transpose(1, 2), V.transpose(1, 2)
    got = tilegym.attention_sink_ref(query, keys, values, sinks, 0.3, 6, 4)
    want = attention(
        Q, K, V, sees=lambda i, j: (j <= i + 4) & (j > i + 4 - 6), scale=0.3, sinks=sinks
    )
    close(got, want.transpose(1, 2).flatten(2).bfloat16())


@pytest.mark.parametrize("softcap", [None, 2.0])
def test_gemma3_eager_attention_forward(softcap) -> None:
    module = types.SimpleNamespace(head_dim=16, num_key_value_groups=2, training=True)
    mask = torch.where(torch.rand(2, 1, 5, 12) < 0.3, -1e9, 0.0)
    out, weights = tilegym.gemma3_eager_attention_forward(module, Q, K, V, mask, softcap=softcap)
    scores = Q @ K.repeat_interleave(2, 1).mT / 4
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    want = (scores + mask[..., :9]).softmax(-1)
    close(weights, want)
    close(out, (want @ V.repeat_interleave(2, 1)).transpose(1, 2).contiguous())
    _, dropped = tilegym.gemma3_eager_attention_forward(module, Q, K, V, mask, dropout=0.5)
    assert (dropped == 0).sum() > (want < 1e-30).sum()


def test_moe_align_block_size_torch() -> None:
    order, blocks, count, begins, most = tilegym.moe_align_block_size_torch(IDS, 4, 3)
    assert blocks.tolist() == [0, 1, 2]
    assert order.tolist() == [0, 3, 7, 8, 2, 5, 8, 8, 1, 4, 6, 8]
    assert begins.tolist() == [0, 4, 8, 12]
    assert (int(count), int(most), count.dim()) == (12, 3, 0)


def test_fused_moe_torch() -> None:
    x, w = torch.randn(4, 16), torch.randn(3, 8, 16)
    want = torch.einsum("tk,tenk->ten", x, w[IDS.long()])
    close(tilegym.fused_moe_torch(x, w, None, SHARES, IDS, False), want)
    close(tilegym.fused_moe_torch(x, w, None, SHARES, IDS, True), want * SHARES[..., None])


def layer(x, w1, w2) -> torch.Tensor:
    gate, up = torch.einsum("tk,tenk->ten", x.double(), w1.double()[IDS.long()]).chunk(2, -1)
    inner = F.silu(gate) * up
    made = torch.einsum("ten,tekn->tek", inner, w2.double()[IDS.long()])
    return (made * SHARES.double()[..., None]).sum(1)


def test_fused_experts_impl() -> None:
    x, w1, w2 = torch.randn(4, 16).half(), torch.randn(3, 24, 16) / 4, torch.randn(3, 16, 12) / 4
    given = (w1.half(), w2.half(), SHARES, IDS)
    close(fused_experts_impl(x, *given), layer(x, *given[:2]).half(), 5e-3)
    kept = x.clone()
    assert fused_experts_impl(kept, *given, inplace=True) is kept
    close(kept, layer(x, *given[:2]).half(), 5e-3)


def test_experts_of_8_bits() -> None:
    x = torch.randn(4, 256).half() / 8
    scales = [torch.rand(3, n) / 64 for n in (256, 256)]
    whole = [torch.randint(-127, 128, s, dtype=torch.int8) for s in ((3, 256, 256), (3, 256, 128))]
    wide = [w.double() * s.double()[..., None] for w, s in zip(whole, scales, strict=True)]
    options = {"w1_scale": scales[0], "w2_scale": scales[1]}
    got = fused_experts_impl(x, *whole, SHARES, IDS, use_int8_w8a16=True, **options)
    want = layer(x, *wide)
    assert (got - want).abs().max() < 5e-3 * want.abs().max()
    floats = [(torch.randn(s) / 8).to(torch.float8_e4m3fn) for s in ((3, 256, 256), (3, 256, 128))]
    scales = [torch.rand(3, 2, 2) + 0.5, torch.rand(3, 2, 1) + 0.5]
    wide = [
        w.double() * s.double().repeat_interleave(128, 1).repeat_interleave(128, 2)
        for w, s in zip(floats, scales, strict=True)
    ]
    narrow, left = x.to(torch.float8_e4m3fn), torch.rand(4, 2) + 0.5
    options = {"w1_scale": scales[0], "w2_scale": scales[1], "a1_scale": left}
    got = fused_experts_impl(narrow, *floats, SHARES, IDS, use_fp8_w8a8=True, **options)
    want = layer(narrow.double() * left.double().repeat_interleave(128, 1), *wide)
    assert got.dtype == torch.float16
    assert (got - want).abs().max() < 0.05 * want.abs().max()
