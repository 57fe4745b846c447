"""tilewright.nn.FlashAttention with what flash-attn's modules take beyond queries and keys."""

from __future__ import annotations

import pytest
import torch

from tilewright import nn

SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])
LENGTHS, KEYS = torch.tensor([0, 3, 3, 9], dtype=torch.int32), torch.tensor([0, 5, 7, 11]).int()


def with_slopes(q, k, v, causal=True):
    """Attention of one sequence [S, H, D] in PyTorch's terms."""
    i = torch.arange(len(k) - len(q), len(k))[:, None]
    j = torch.arange(len(k))[None]
    bias = -SLOPES[:, None, None] * (i - j).abs()
    bias = bias.masked_fill(j > i, -torch.inf) if causal else bias
    q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, bias).transpose(0, 1)


@pytest.mark.parametrize("records", [False, True])
def test_slopes_of_flash_attention(records) -> None:
    """In flash-attn's order of arguments; with gradients, too."""
    flash = nn.FlashAttention(True, None, 0.0, (-1, -1), SLOPES, True)
    assert not flash.state_dict()
    qkv = torch.randn(2, 9, 3, 4, 16, requires_grad=records)
    with torch.set_grad_enabled(records):
        got, want = flash(qkv), torch.stack([with_slopes(*x.unbind(1)) for x in qkv])
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
        if records:
            grads = [torch.autograd.grad(x.square().sum(), qkv)[0] for x in (got, want)]
            torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)
    narrow = flash.bfloat16()(qkv.detach().bfloat16())
    torch.testing.assert_close(narrow.float(), want.detach(), rtol=1.6e-2, atol=3e-2)


@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize("slopes", [None, SLOPES])
def test_flash_attention_of_sequences_without_padding(slopes, records) -> None:
    flash = nn.FlashAttention(softmax_scale=0.25, alibi_slopes=slopes)
    with torch.set_grad_enabled(records):
        q = torch.randn(10, 4, 16, requires_grad=records)
        k, v = torch.randn(2, 12, 4, 16, requires_grad=records)
        keys = {"cu_seqlens_k": KEYS, "max_seqlen_k": 5}
        got = flash(q, k, v, causal=True, cu_seqlens=LENGTHS, max_seqlen=6, **keys)
        alone = nn.FlashAttention(True, 0.25, alibi_slopes=slopes)
        want = [
            alone(q[None, a:b], k[None, c:d], v[None, c:d])[0]
            for a, b, c, d in zip(LENGTHS, LENGTHS[1:], KEYS, KEYS[1:], strict=False)
        ]
        want = torch.cat([*want, torch.zeros(1, 4, 16)])  # which no sequence has
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
        if records:
            grads = [torch.autograd.grad(x.square().sum(), q)[0] for x in (got, want)]
            torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)
        packed = flash(torch.stack([q] * 3, 1), cu_seqlens=LENGTHS, max_seqlen=6)
        torch.testing.assert_close(packed, flash(q, q, q, cu_seqlens=LENGTHS), rtol=0, atol=0)


def test_refusals() -> None:
    qkv = torch.randn(1, 3, 3, 2, 8)
    with pytest.raises(ValueError, match=r"q is \(1, 3, 3, 2, 8\), but without k and v \[N, 3, H"):
        nn.FlashAttention()(qkv, cu_seqlens=LENGTHS)
    with pytest.raises(ValueError, match="cu_seqlens_k needs cu_seqlens"):
        nn.FlashAttention()(qkv, cu_seqlens_k=LENGTHS)
    with pytest.raises(ValueError, match=r"alibi_slopes is \(2, 4\), but \[H\] is needed"):
        nn.FlashAttention(alibi_slopes=torch.ones(2, 4))
