"""Quantization and products with scales against PyTorch."""

from __future__ import annotations

import pytest
import torch
from oracles import close, rotate
from tilewright.compat import tileops
from tilewright.compat.tilegym import flashinfer, nvfp4_quantize, unsloth

F8 = torch.float8_e4m3fn


def expanded(scale, shape, block):
    """A scale for every element of a matrix."""
    rows = scale.repeat_interleave(block[0], -2)[..., : shape[0], :]
    return rows.repeat_interleave(block[1], -1)[..., : shape[1]].double()


@pytest.mark.parametrize(("rows", "cols", "group"), [(5, 256, 128), (1, 32, 16), (3, 90, 9)])
@pytest.mark.parametrize("kind", [F8, torch.int8])
@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_groups_of_a_token(rows, cols, group, kind, power, dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(rows, cols).to(dtype)
    info = torch.iinfo(kind) if kind == torch.int8 else torch.finfo(kind)
    parts = x.float().cpu().view(rows, -1, group)  # CUDA divides by a number inexactly
    scale = parts.abs().amax(-1).clamp(min=1e-10) / info.max
    scale = torch.exp2(torch.ceil(torch.log2(scale))) if power else scale
    codes = (parts / scale[..., None]).clamp(info.min, info.max).to(kind).view(rows, cols)
    for by_column, aligned in ((False, False), (True, False), (True, True)):
        options = {"column_major_scales": by_column, "scale_tma_aligned": aligned}
        got, scales = flashinfer.per_token_group_quant_8bit(
            x, group, dst_dtype=kind, scale_ue8m0=power, **options
        )
        assert got.dtype == kind
        assert torch.equal(got.float().cpu(), codes.float())
        torch.testing.assert_close(scales.contiguous().cpu(), scale, rtol=1e-6, atol=0)
        if by_column:
            assert scales.stride() == (1, -(-rows // 4) * 4 if aligned else rows)


def test_rows_and_activations() -> None:
    torch.manual_seed(1)
    x = torch.randn(2, 5, 3, 64, dtype=torch.float16)
    x[0, 0, 0] = 0
    scale, codes = tileops.fp8_quant(x)
    assert scale.shape == (2, 5, 3)
    assert codes.dtype == F8
    want = x.float().abs().amax(-1).clamp(min=1e-4) / 448
    close(scale, want)
    assert torch.equal(codes.float(), (x.float() / want[..., None]).to(F8).float())
    y = torch.randn(6, 384, dtype=torch.bfloat16)
    y[2, 128:256] = 0
    codes, scale = unsloth.act_quant(y)
    parts = y.float().view(6, 3, 128)
    want = parts.abs().amax(-1) / 448
    want[want == 0] = 1
    close(scale, want)
    assert torch.equal(codes.float(), (parts / want[..., None]).to(F8).float().view(6, 384))


@pytest.mark.parametrize(("m", "n"), [(256, 256), (130, 300), (1, 1)])
def test_weights_of_blocks(m, n) -> None:
    torch.manual_seed(2)
    x = torch.randn(m, n).to(F8)
    s = torch.rand(-(-m // 128), -(-n // 128)) + 0.1
    want = x.double() * expanded(s, (m, n), (128, 128))
    got = unsloth.weight_dequant(x, s)
    assert got.dtype == torch.bfloat16
    close(got, want.to(torch.bfloat16))
    close(unsloth.weight_dequant(x, s, 128, torch.float32), want)


@pytest.mark.parametrize(("m", "n", "k"), [(128, 128, 128), (7, 300, 260), (1, 40, 512)])
@pytest.mark.parametrize("given", [None, [128, 128]])
def test_product_of_8_bit_floats(m, n, k, given) -> None:
    torch.manual_seed(3)
    a, b = (torch.randn(m, k) / 8).to(F8), (torch.randn(n, k) / 8).to(F8)
    a_scale = torch.rand(m, -(-k // 128)) + 0.1
    b_scale = torch.rand(-(-n // 128), -(-k // 128)) + 0.1
    wide_a = a.double() * expanded(a_scale, (m, k), (1, 128))
    wide_b = b.double() * expanded(b_scale, (n, k), (128, 128))
    # Tensor cores add up products of e4m3 in fewer bits than float32 has.
    bound = 1e-4 if a.is_cuda else None
    close(unsloth.w8a8_block_fp8_matmul(a, b, a_scale, b_scale, given), wide_a @ wide_b.T, bound)
    got = unsloth.w8a8_block_fp8_matmul(
        a[None], b, a_scale[None], b_scale, given, output_dtype=torch.bfloat16
    )
    close(got, (wide_a @ wide_b.T)[None].to(torch.bfloat16))


@pytest.mark.parametrize("sizes", [(64, 130), (5, 0, 9), (1,)])
def test_product_of_groups(sizes) -> None:
    torch.manual_seed(4)
    n, k = 140, 256
    bounds = torch.tensor([0, *sizes]).cumsum(0).to(torch.int32)
    a, b = torch.randn(sum(sizes), k).to(F8), torch.randn(len(sizes), n, k).to(F8)
    a_scale, b_scale = torch.rand(sum(sizes), 2) / 100, torch.rand(len(sizes), 2, 2) / 100
    got = flashinfer.ragged_block_scaled_bmm(
        a, b, a_scale, b_scale, bounds, max(sizes), out_dtype=torch.float32
    )
    wide = a.double() * expanded(a_scale, a.shape, (1, 128))
    weights = b.double() * expanded(b_scale, (n, k), (128, 128))
    parts = wide.split(list(sizes))
    close(got, torch.cat([part @ w.T for part, w in zip(parts, weights, strict=True)]))
    assert (
        flashinfer.ragged_block_scaled_bmm(a, b, a_scale, b_scale, bounds, max(sizes)).dtype
        == torch.bfloat16
    )


@pytest.mark.parametrize(("m", "n", "k", "group"), [(1, 64, 256, 128), (5, 7, 96, 32)])
@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
def test_weights_of_4_bits(m, n, k, group, kind) -> None:
    torch.manual_seed(5)
    codes = torch.randint(0, 16, (n, k), dtype=torch.uint8)
    packed = codes[:, ::2] | codes[:, 1::2] << 4
    scale = (torch.rand(n, k // group) / 16).to(kind)
    zero = torch.randint(0, 16, (n, k // group), dtype=torch.uint8)
    x = torch.randn(m, k, dtype=torch.float16)
    weight = codes.double() - zero.double().repeat_interleave(group, 1)
    weight = (weight * scale.double().repeat_interleave(group, 1)).to(torch.float16)
    got = tileops.gemm_w4a16(x, packed, scale, zero, group_size=group)
    assert got.dtype == torch.float16
    torch.testing.assert_close(got.double(), x.double() @ weight.double().T, rtol=2e-3, atol=5e-3)


@pytest.mark.parametrize("neox", [False, True])
@pytest.mark.parametrize("kind", [F8, torch.float8_e5m2])
def test_rotation_to_8_bits(neox, kind) -> None:
    torch.manual_seed(6)
    tokens, heads, rotary = 19, 4, 64
    q, k = torch.randn(tokens, heads, 96).to(torch.bfloat16), torch.randn(tokens, 96).bfloat16()
    angles = torch.arange(40)[:, None] / 100 ** (torch.arange(rotary // 2) / 32)
    cache = torch.cat([angles.cos(), angles.sin()], -1)
    at = torch.randint(0, 40, (tokens,))
    outs = torch.empty(q.shape, dtype=kind), torch.empty(k.shape, dtype=kind)
    flashinfer.rope_quantize_fp8(
        q[..., :rotary], k[..., :rotary], q[..., rotary:], k[..., rotary:], cache, at, neox,
        quant_scale_q=0.5, q_rope_out=outs[0][..., :rotary], k_rope_out=outs[1][..., :rotary],
        q_nope_out=outs[0][..., rotary:], k_nope_out=outs[1][..., rotary:],
    )  # fmt: skip
    cos, sin = cache[at].chunk(2, -1)
    for got, x, scale in ((outs[0], q, 0.5), (outs[1], k[:, None], 1.0)):
        want = rotate(x, cos[:, None], sin[:, None], interleaved=not neox) * scale
        torch.testing.assert_close(got.float().view(want.shape).double(), want, rtol=0.2, atol=0.02)
    made = flashinfer.rope_quantize_fp8(
        q[..., :rotary], k[..., :rotary], None, None, cache, at, neox
    )
    assert made[0].dtype == F8
    assert made[2] is None


@pytest.mark.parametrize(("rows", "cols"), [(128, 64), (130, 80), (1, 16)])
@pytest.mark.parametrize("s_enc", [1.0, 3.5])
def test_4_bit_floats(rows, cols, s_enc) -> None:
    torch.manual_seed(7)
    x = torch.randn(rows, cols) * 5
    packed, scales = nvfp4_quantize(x, s_enc)
    assert packed.shape == (rows, cols // 2)
    wide = -(-cols // 64)
    assert scales.shape == (-(-rows // 128) * wide * 512,)
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    codes = torch.stack([packed & 15, packed >> 4], -1).flatten(1).long()
    got = values[codes & 7] * torch.where(codes >= 8, -1, 1)
    for r in {0, rows // 2, rows - 1}:
        for g in range(cols // 16):
            at = (r // 128 * wide + g // 4) * 512 + r % 32 * 16 + r % 128 // 32 * 4 + g % 4
            scale = scales[at : at + 1].view(F8).float()
            part = x[r, g * 16 : (g + 1) * 16]
            assert torch.equal(scale, (part.abs().max() / 6 * s_enc).reshape(1).to(F8).float())
            exact = part * (s_enc / scale)
            nearest = (exact[:, None].abs() - values).abs().amin(1)
            mine = (exact - got[r, g * 16 : (g + 1) * 16]).abs()
            torch.testing.assert_close(mine, nearest, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="groups of 16"):
        nvfp4_quantize(x[:, :9])
