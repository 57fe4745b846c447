"""TileOPs' quantizations: 8 and 4 bits, by tensor, row, group and block."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._tensors import dtype_of, tensor
from tilewright.compat._tileops_products import repack_w4a16

Codes = tuple[torch.Tensor, torch.Tensor]
_GROUP = 128


def _matrix(name: str, x: torch.Tensor) -> None:
    if x.dim() != 2:
        raise ValueError(f"{name}: {tuple(x.shape)} must be a matrix")


def _padded(x: torch.Tensor) -> torch.Tensor:
    """Rows to whole groups, by zeros."""
    return F.pad(x, (0, -x.shape[-1] % _GROUP))


@uses("quantize_int8")
def int8_quant_per_tensor(x: torch.Tensor) -> Codes:
    """X [M, K] as int8, and its scale [1]."""
    _matrix("int8_quant_per_tensor", x)
    codes, scale = ops.quantize_int8(x.reshape(1, -1), x.numel(), 0.0)
    return codes.view(x.shape), scale.view(1)


@uses("quantize_int8")
def int8_quant_per_channel(w: torch.Tensor) -> Codes:
    """W [N, K] as int8, and the scale of each row."""
    _matrix("int8_quant_per_channel", w)
    codes, scale = ops.quantize_int8(w, w.shape[1], 0.0)
    return codes, scale.squeeze(-1)


@uses("quantize_int8")
def int8_quant_per_token_group(x: torch.Tensor) -> Codes:
    """X [M, K] as int8, and the scale of each 128 columns, the last ones perhaps fewer."""
    _matrix("int8_quant_per_token_group", x)
    codes, scale = ops.quantize_int8(_padded(x), _GROUP, 0.0)
    return codes[:, : x.shape[1]].contiguous(), scale


@uses("quantize_int8")
def smooth_quant(x: torch.Tensor, smooth: torch.Tensor) -> Codes:
    """X [M, K] / smooth [K] as int8, and the scale of each row."""
    _matrix("smooth_quant", x)
    codes, scale = ops.quantize_int8(x.float() / smooth.float(), x.shape[1], 0.0)
    return codes, scale.squeeze(-1)


@uses("quantize_fp8")
def fp8_quant_per_token_group(x: torch.Tensor) -> Codes:
    """Rows as 8-bit floats, and their scales."""
    codes, scale = ops.quantize_fp8(x, x.shape[-1], 1e-4)
    return codes, scale.squeeze(-1)


@uses("quantize_fp8")
def fp8_quant_per_block(w: torch.Tensor) -> Codes:
    """W [N, K] as 8-bit floats, and the scale of each block of 128 x 128, the last ones cut."""
    _matrix("fp8_quant_per_block", w)
    rows, columns = (-(-size // _GROUP) for size in w.shape)
    whole = F.pad(_padded(w), (0, 0, 0, -w.shape[0] % _GROUP))
    blocks = whole.view(rows, _GROUP, columns, _GROUP).transpose(1, 2).reshape(rows, columns, -1)
    codes, scale = ops.quantize_fp8(blocks, _GROUP * _GROUP, 0.0)
    back = codes.view(rows, columns, _GROUP, _GROUP).transpose(1, 2).reshape(whole.shape)
    return back[: w.shape[0], : w.shape[1]].contiguous(), scale.view(rows, columns)


@uses("amax")
def int4_quant_per_group(w: torch.Tensor, *, group_size: int = _GROUP) -> Codes:
    """W [N, K] in steps of 1/16 of each group's range, two in a byte and the high half first.

    Returns:
        The bytes, and each group's step and middle.
    """
    _matrix("int4_quant_per_group", w)
    if w.shape[1] % 2 or group_size <= 0 or w.shape[1] % group_size:
        raise ValueError(
            f"int4_quant_per_group: {w.shape[1]} columns of w must be even and whole groups of "
            f"{group_size}"
        )
    groups = w.float().reshape(-1, group_size)
    high, low = tensor(ops.amax(groups)), -tensor(ops.amax(-groups))
    spread, middle = high - low, (high + low) / 2
    factor = torch.where(spread > 0, 16 / spread, 1)
    steps = ((groups - middle[:, None]) * factor[:, None]).round().clamp(-8, 7).to(torch.int8)
    first, second = steps.view(len(w), -1, 2).unbind(-1)
    return (first << 4) | (second & 15), torch.stack([1 / factor, middle], -1)


@uses("amax")
def int4_quant_per_group_with_zeros(
    w: torch.Tensor, *, group_size: int = _GROUP
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """W [N, K] in steps of 1/15 of each group's range with 0, as gemm_w4a16_prepacked takes it.

    Returns:
        The bytes, each group's step in w's dtype, and its number that stands for 0.
    """
    _matrix("int4_quant_per_group", w)
    if w.shape[1] % _GROUP or group_size <= 0 or w.shape[1] % group_size:
        raise ValueError(
            f"int4_quant_per_group: {w.shape[1]} columns of w must be multiples of {_GROUP} and of "
            f"group_size = {group_size}"
        )
    groups = w.float().reshape(len(w), -1, group_size)
    high = tensor(ops.amax(groups)).clamp(min=0)
    low = -tensor(ops.amax(-groups)).clamp(min=0)
    step = torch.where(high > low, ((high - low) / 15).clamp(min=torch.finfo(w.dtype).tiny), 1.0)
    step = step.to(w.dtype)
    zero = (-low / step.float()).round()
    codes = (groups / step.float()[..., None]).round() + zero[..., None]
    first, second = codes.clamp(0, 15).to(torch.uint8).view(len(w), -1, 2).unbind(-1)
    return repack_w4a16(first | (second << 4)), step, zero.to(torch.uint8)


def _restored(
    q: torch.Tensor, scale: torch.Tensor, out_dtype: str | torch.dtype, *block: int
) -> torch.Tensor:
    return tensor(ops.dequantize(q, scale.float(), *block)).to(dtype_of(out_dtype))


@uses("dequantize")
def int8_dequant_per_tensor(
    q: torch.Tensor, scale: torch.Tensor, *, out_dtype: str | torch.dtype
) -> torch.Tensor:
    """Q [M, K] times its scale [1]."""
    _matrix("int8_dequant_per_tensor", q)
    return _restored(q, scale.view(1, 1), out_dtype, *q.shape)


@uses("dequantize")
def int8_dequant_per_channel(
    q: torch.Tensor, scale: torch.Tensor, *, out_dtype: str | torch.dtype
) -> torch.Tensor:
    """Q [M, K] times the scale of each row."""
    _matrix("int8_dequant_per_channel", q)
    return _restored(q, scale[:, None], out_dtype, 1, q.shape[1])


@uses("dequantize")
def int8_dequant_per_block(
    q: torch.Tensor, scale: torch.Tensor, *, out_dtype: str | torch.dtype
) -> torch.Tensor:
    """Q [M, K] times the scale of each 128 columns, the last ones perhaps fewer."""
    _matrix("int8_dequant_per_block", q)
    return _restored(q, scale, out_dtype, 1, _GROUP)


@uses("int_matmul")
def gemm_int8_w8a8(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor,
    b_scale: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    out_dtype: str | torch.dtype = "bfloat16",
) -> torch.Tensor:
    """Int8 a [M, K] times b [N, K], times the scales of all or of rows [M, 1] and [1, N]."""
    product = tensor(ops.int_matmul(a[None], b.mT[None]))[0].float() * a_scale * b_scale
    return (product if bias is None else product + bias.float()).to(dtype_of(out_dtype))


@uses("add", "rms_norm", "amax")
def fused_add_rms_norm_per_token_quant(
    input: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    *,
    quant_dtype: str | torch.dtype = "float8_e4m3fn",
    eps: float = 1e-6,
    scale_ub: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The RMS normalization of a sum, in 8 bits, the scale of each row, and the sum.

    scale_ub bounds the magnitude that a row's scale is made for.
    """
    kind = dtype_of(quant_dtype)
    if kind not in (torch.float8_e4m3fn, torch.int8):
        raise ValueError(
            f"fused_add_rms_norm_per_token_quant: quant_dtype must be float8_e4m3fn or int8, not "
            f"{quant_dtype!r}"
        )
    is_float = kind == torch.float8_e4m3fn
    most = torch.finfo(kind).max if is_float else 127.0
    least = 1 / (most * 512) if is_float else torch.finfo(torch.float32).eps
    total = tensor(ops.add(input, residual))
    normal = tensor(ops.rms_norm(total.float(), weight.float(), eps))
    largest = tensor(ops.amax(normal.abs()))[..., None]
    bound = torch.inf if scale_ub is None else scale_ub
    scale = (largest.clamp(max=bound) / most).clamp(min=least)
    codes = (normal / scale).clamp(-most, most)
    return (codes if is_float else codes.round()).to(kind), scale, total


__all__ = list(provided(vars()))
