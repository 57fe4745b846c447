"""TileOPs' quantizations against their definitions."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from oracles import close, seeded
from tilewright.compat import tileops

F8 = torch.float8_e4m3fn


def rounded(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (x / scale).round().clamp(-127, 127).to(torch.int8)


def steps(got: torch.Tensor, want: torch.Tensor) -> None:
    """The same codes, but where a quotient stands between two of them."""
    apart = (got.int() - want.int()).abs()
    assert apart.max() <= 1
    assert (apart > 0).float().mean() < 0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(5, 256), (3, 200), (1, 7)])
def test_eight_bits(dtype, shape) -> None:
    x = seeded(*shape, dtype=dtype)
    x[0] = 0
    wide = x.float()
    rows = wide.abs().amax(1) / 127
    rows[rows == 0] = 1
    codes, scale = tileops.int8_quant_per_channel(x)
    close(scale, rows)
    steps(codes, rounded(wide, rows[:, None]))
    assert not codes[0].any()
    back = tileops.int8_dequant_per_channel(codes, scale, out_dtype="float16")
    close(back, (codes.float() * scale[:, None]).half())

    codes, scale = tileops.int8_quant_per_tensor(x)
    most = wide.abs().max() / 127
    close(scale, (most if most else torch.ones(())).view(1))
    steps(codes, rounded(wide, scale))
    back = tileops.int8_dequant_per_tensor(codes, scale, out_dtype=torch.float32)
    close(back, codes.float() * scale)

    codes, scale = tileops.int8_quant_per_token_group(x)
    padded = F.pad(wide, (0, -shape[1] % 128)).view(shape[0], -1, 128)
    parts = padded.abs().amax(-1) / 127
    parts[parts == 0] = 1
    close(scale, parts)
    each = parts.repeat_interleave(128, 1)[:, : shape[1]]
    steps(codes, rounded(wide, each))
    back = tileops.int8_dequant_per_block(codes, scale, out_dtype=torch.bfloat16)
    close(back, (codes.float() * each).bfloat16())

    smooth = torch.rand(shape[1]) + 0.5
    codes, scale = tileops.smooth_quant(x, smooth)
    evened = wide / smooth
    rows = evened.abs().amax(1) / 127
    rows[rows == 0] = 1
    close(scale, rows)
    steps(codes, rounded(evened, rows[:, None]))


@pytest.mark.parametrize("shape", [(128, 256), (130, 200), (1, 5)])
def test_floats_in_blocks(shape) -> None:
    w = seeded(*shape)
    codes, scale = tileops.fp8_quant_per_block(w)
    assert (codes.dtype, codes.shape) == (F8, w.shape)
    for i in range(scale.shape[0]):
        for j in range(scale.shape[1]):
            block = tuple(slice(128 * n, 128 * n + 128) for n in (i, j))
            want = w[block].abs().max() / 448
            torch.testing.assert_close(scale[i, j], want, rtol=1e-6, atol=0)
            assert torch.equal(codes[block].float(), (w[block] / want).to(F8).float())
    assert scale.shape == (-(-shape[0] // 128), -(-shape[1] // 128))


def test_floats_in_rows() -> None:
    x = seeded(2, 3, 4, 64, dtype=torch.bfloat16)
    codes, scale = tileops.fp8_quant_per_token_group(x)
    want_scale, want = tileops.fp8_quant(x)
    assert torch.equal(scale, want_scale)
    assert torch.equal(codes.float(), want.float())


def test_four_bits() -> None:
    w = seeded(6, 96, dtype=torch.float16)
    w[1, :32] = 0.5
    packed, params = tileops.int4_quant_per_group(w, group_size=32)
    assert (packed.shape, packed.dtype, params.shape) == ((6, 48), torch.int8, (18, 2))
    groups = w.float().view(18, 32)
    high, low = groups.amax(1), groups.amin(1)
    step = torch.where(high > low, (high - low) / 16, 1)
    close(params, torch.stack([step, (high + low) / 2], 1))
    codes = torch.stack([packed >> 4, ((packed & 15) ^ 8) - 8], -1).view(18, 32)
    want = ((groups - params[:, 1:]) / params[:, :1]).round().clamp(-8, 7)
    assert torch.equal(codes.float(), want)
    with pytest.raises(ValueError, match="int4_quant_per_group: 96 columns"):
        tileops.int4_quant_per_group(w, group_size=36)


@pytest.mark.parametrize("scales", ["all", "rows"])
def test_product_of_integers(scales) -> None:
    a, b = (torch.randint(-128, 128, (n, 33), dtype=torch.int8) for n in (5, 7))
    rows, columns = (torch.rand(n) for n in ((5, 1), (1, 7)))
    if scales == "all":
        rows, columns = rows[:1], columns[:, :1]
    bias = torch.randn(7, dtype=torch.bfloat16)
    want = (a.double() @ b.double().T) * rows.double() * columns.double()
    close(tileops.gemm_int8_w8a8(a, b, rows, columns), want.bfloat16())
    got = tileops.gemm_int8_w8a8(a, b, rows, columns, bias.half(), out_dtype="float16")
    close(got, (want + bias.double()).half(), 2e-3)


@pytest.mark.parametrize("kind", [F8, torch.int8])
@pytest.mark.parametrize("bound", [None, 1.5])
def test_norm_in_eight_bits(kind, bound) -> None:
    x, residual = seeded(2, 3, 40, dtype=torch.bfloat16), torch.randn(2, 3, 40).bfloat16()
    x[0, 0], residual[0, 0] = 0, 0
    weight = torch.randn(40).bfloat16()
    got, scale, total = tileops.fused_add_rms_norm_per_token_quant(
        x, residual, weight, quant_dtype=kind, scale_ub=bound
    )
    close(total, x + residual)
    wide = total.double()
    normal = wide * (wide.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight.double()
    most, least = (448, 1 / 448 / 512) if kind == F8 else (127, torch.finfo(torch.float32).eps)
    largest = normal.abs().amax(-1, keepdim=True).clamp(max=bound or torch.inf)
    close(scale, (largest / most).clamp(min=least).float())
    assert got.dtype == kind
    back = got.double() * scale.double()
    limit = largest * (1 / 14 if kind == F8 else 1 / 200)
    assert ((back - normal.clamp(-largest, largest)).abs() <= limit + 1e-6).all()
    with pytest.raises(ValueError, match="quant_dtype must be float8_e4m3fn or int8"):
        tileops.fused_add_rms_norm_per_token_quant(x, residual, weight, quant_dtype="float16")
