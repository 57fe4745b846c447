"""TileOPs' Fourier transform, means of chunks and Engram against PyTorch in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from oracles import close
from tilewright.compat import tileops

LENGTHS = [1, 2, 3, 4, 5, 8, 12, 30, 49, 64, 97, 100, 210, 256, 1000, 2048, 4096]


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.complex64, 2e-6), (torch.complex128, 1e-13)])
def test_fft(dtype, bound, n) -> None:
    for lead in ((), (3,), (2, 2)):
        x = torch.randn(*lead, n, dtype=dtype)
        got, want = tileops.fft_c2c(x), torch.fft.fft(x.to(torch.complex128))
        assert (got.shape, got.dtype, got.is_contiguous()) == (x.shape, dtype, True)
        assert (got - want).abs().max() <= 4 * bound * want.abs().max()
    assert tileops.fft_c2c(torch.randn(0, n, dtype=dtype)).shape == (0, n)


def test_fft_of_views() -> None:
    x = torch.randn(6, 40, dtype=torch.complex64)
    for view in (x.conj(), x.T, x[:, ::2], x.expand(2, 6, 40)):
        got = tileops.fft_c2c(view)
        torch.testing.assert_close(got, torch.fft.fft(view), rtol=1e-5, atol=1e-4)
    with pytest.raises(ValueError, match="complex"):
        tileops.fft_c2c(torch.randn(4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_mean_pooling(dtype) -> None:
    x = torch.randn(2, 37, 3, 10).to(dtype)
    shape = {"batch_size": 2, "seq_len": 37, "heads": 3, "dim": 10, "chunk_size": 8}
    any_offsets, none = torch.tensor([0, 37, 74], dtype=torch.int32), torch.zeros(5, 2).int()
    got = tileops.mean_pooling(
        x, any_offsets, none, **shape, chunks_per_batch=5, seq_num=2, use_offsets=0
    )
    close(got, torch.stack([part.double().mean(1) for part in x.split(8, 1)], 1).to(dtype))
    offsets = torch.tensor([0, 5, 21, 37], dtype=torch.int32)
    indices = torch.tensor([[0, 0], [1, 0], [1, 1], [2, 0], [2, 1]], dtype=torch.int32)
    got = tileops.mean_pooling(
        x, offsets, indices, **shape, chunks_per_batch=5, seq_num=3, use_offsets=1
    )
    ends = [(0, 5), (5, 13), (13, 21), (21, 29), (29, 37)]
    close(got, torch.stack([x[:, a:b].double().mean(1) for a, b in ends], 1).to(dtype))


def engram(h, k, v, w_h, w_v, conv, eps):
    """The forward pass in float64, and what it keeps."""
    d = h.shape[-1]
    inverse = [(x.square().mean(-1) + eps).rsqrt() for x in (h, k)]
    dot = (h * inverse[0][..., None] * w_h * k * inverse[1][..., None] * w_h).sum(-1)
    alpha = torch.sigmoid(dot / d**0.5)
    vhat = alpha[..., None] * v
    inverse.append((vhat.square().mean(-1) + eps).rsqrt())
    padded = F.pad((vhat * inverse[2][..., None] * w_v).mT, (conv.shape[0] - 1, 0))
    mixed = F.conv1d(padded, conv.T[:, None], groups=d).mT
    return F.silu(mixed) + vhat, vhat, alpha, *inverse


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("rows", "steps", "d"), [(2, 11, 24), (1, 1, 8), (3, 2, 40)])
def test_engram_gate_conv(rows, steps, d, dtype) -> None:
    h, k, v, dy = (torch.randn(rows, steps, d).to(dtype) for _ in range(4))
    w_h, w_v, conv = torch.rand(d).to(dtype), torch.rand(d).to(dtype), torch.randn(4, d).to(dtype)
    given, shape = (h, k, v, w_h, w_v, conv), {"M": rows, "seq_len": steps, "d": d, "eps": 1e-5}
    leaves = [x.double().requires_grad_() for x in given]
    want = engram(*leaves, 1e-5)
    got = tileops.engram_gate_conv(*given, **shape)
    bound = {torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}[dtype]
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(a.double(), b.detach(), rtol=bound, atol=bound)
    assert [x.dtype for x in got] == [dtype, dtype, *[torch.float32] * 4]
    (want[0] * dy.double()).sum().backward()
    grads = tileops.engram_gate_conv_bwd(dy, *given, *got[1:], **shape)
    for a, leaf in zip(grads, leaves, strict=True):
        assert a.shape == leaf.shape
        size = max(1.0, leaf.grad.abs().max().item())
        torch.testing.assert_close(a.double() / size, leaf.grad / size, rtol=bound, atol=bound)
    assert [x.dtype for x in grads] == [*[dtype] * 3, *[torch.float32] * 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_engram_decode_goes_on_where_the_sequence_ends(dtype) -> None:
    batch, memory, d, steps, dilation, kept = 2, 12, 16, 9, 3, 10
    w_k, w_v = (torch.randn(memory, d) / 4 for _ in range(2))
    norms, conv = (torch.rand(d), torch.rand(d)), torch.randn(4, d)
    weights = [x.to(dtype) for x in (w_k, w_v, *norms, conv)]
    e, h = torch.randn(batch, steps, memory).to(dtype), torch.randn(batch, steps, d).to(dtype)
    state = torch.zeros(batch, kept, d).to(dtype)
    sizes = {"batch": batch, "d_mem": memory, "d": d, "max_conv_len": kept}
    wide = [x.double() for x in weights]
    dilated = torch.zeros(3 * dilation + 1, d).double()
    dilated[::dilation] = wide[4]
    k, v = e.double() @ wide[0], e.double() @ wide[1]
    want = engram(h.double(), k, v, wide[2], wide[3], dilated, 1e-6)[0]
    for t in range(steps):
        y, state = tileops.engram_decode(
            e[:, t], h[:, t], state, *weights, **sizes, conv_kernel_size=4, dilation=dilation
        )
        bound = 2e-5 if dtype == torch.float32 else 4e-2
        torch.testing.assert_close(y.double(), want[:, t], rtol=bound, atol=bound)
    assert state.shape == (batch, kept, d)
