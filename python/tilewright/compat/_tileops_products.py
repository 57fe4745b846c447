"""TileOPs' matrix multiplications and quantization."""

from __future__ import annotations

import torch

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._quantization import block_of
from tilewright.compat._tensors import tensor


@uses("matmul")
def gemm(
    a: torch.Tensor, b: torch.Tensor, *, trans_a: bool = False, trans_b: bool = True
) -> torch.Tensor:
    """The product of two matrices; b is [N, K] unless trans_b is False."""
    return bmm((a.mT if trans_a else a)[None], (b.mT if trans_b else b)[None])[0]


@uses("matmul")
def bmm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The products of matrices [B, M, K] and [B, K, N]."""
    return tensor(ops.matmul(a, b))


def _dtype(name: str, out_dtype: str | torch.dtype) -> torch.dtype:
    found = getattr(torch, out_dtype, None) if isinstance(out_dtype, str) else out_dtype
    if found not in (torch.bfloat16, torch.float16):
        raise ValueError(f"{name}: out_dtype must be bfloat16 or float16, not {out_dtype!r}")
    return found


def _scaled(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """X times a scale of all, of each row, or of blocks of both dimensions, the last cut short."""
    scale = scale.float()
    for d in (-2, -1) if scale.dim() >= 2 else ():
        size, count = x.shape[d], scale.shape[d]
        if count not in (1, size):
            scale = scale.repeat_interleave(block_of(size, count), d).narrow(d, 0, size)
    if scale.dim() == 1 and scale.numel() != 1:
        scale = scale.view(*scale.shape, *(1,) * (x.dim() - 1))
    if scale.dim() < x.dim():
        scale = scale.reshape((1,) * (x.dim() - scale.dim()) + tuple(scale.shape))
    return tensor(ops.mul(x.float(), scale))


@uses("mul", "linear")
def gemm_fp8(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    out_dtype: str | torch.dtype = "bfloat16",
) -> torch.Tensor:
    """A [M, K] times b [N, K], 8-bit floats with scales, in float32."""
    kind = _dtype("gemm_fp8", out_dtype)
    shift = None if bias is None else bias.float()
    return tensor(ops.linear(_scaled(a, scale_a), _scaled(b, scale_b), shift)).to(kind)


@uses("mul", "matmul")
def bmm_fp8_kn(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    out_dtype: str | torch.dtype = "bfloat16",
) -> torch.Tensor:
    """The products of [B, M, K] and [B, K, N], 8-bit floats with scales, in float32."""
    kind = _dtype("bmm_fp8_kn", out_dtype)
    return tensor(ops.matmul(_scaled(a, scale_a), _scaled(b, scale_b))).to(kind)


@uses("mul", "matmul")
def bmm_fp8_nk(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    out_dtype: str | torch.dtype = "bfloat16",
) -> torch.Tensor:
    """The products of [B, M, K] and [B, N, K], 8-bit floats with scales, in float32."""
    kind = _dtype("bmm_fp8_nk", out_dtype)
    return tensor(ops.matmul(_scaled(a, scale_a), _scaled(b, scale_b).mT)).to(kind)


@uses("quantize_fp8")
def fp8_quant(input_tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The scale of each row, and the rows as 8-bit floats."""
    codes, scale = ops.quantize_fp8(input_tensor, input_tensor.shape[-1], 1e-4)
    return scale.squeeze(-1), codes


@uses("linear_int4")
def gemm_w4a16(
    activation: torch.Tensor,
    packed_weight: torch.Tensor,
    weight_scale: torch.Tensor,
    weight_zero: torch.Tensor,
    *,
    group_size: int = 128,
) -> torch.Tensor:
    """Activation [M, K] times weights [N, K], two in a byte and the low half first."""
    codes, zero = packed_weight.view(torch.int8), weight_zero.view(torch.int8)
    scale = weight_scale.to(activation.dtype)
    return tensor(ops.linear_int4(activation, codes, scale, zero, group_size=group_size))


@uses("linear_int4", "mul")
def gemm_w4a8(
    activation: torch.Tensor,
    packed_weight: torch.Tensor,
    weight_group_scale: torch.Tensor,
    weight_channel_scale: torch.Tensor,
    activation_scale: torch.Tensor,
    *,
    group_size: int = 128,
) -> torch.Tensor:
    """8-bit floats [M, K] times signed weights [N, K], two in a byte and the low half first.

    A weight has the scale of its group and that of its row, an activation that of its row. The
    result is bfloat16.
    """
    codes = (packed_weight ^ 0x88).view(torch.int8)  # 8 more than they are
    scale = weight_group_scale.float()
    wide = tensor(ops.mul(activation.float(), activation_scale.float()[:, None]))
    eight = torch.full_like(scale, 8, dtype=torch.int8)
    made = ops.linear_int4(wide, codes, scale, eight, group_size=group_size)
    return tensor(ops.mul(made, weight_channel_scale.float())).bfloat16()


@uses("linear_int4")
def gemm_w4a16_prepacked(
    activation: torch.Tensor,
    packed_weight: torch.Tensor,
    weight_scale: torch.Tensor,
    weight_zero: torch.Tensor,
    *,
    group_size: int = 128,
) -> torch.Tensor:
    """As gemm_w4a16, of weights in the order of repack_w4a16."""
    plain = _reordered(packed_weight, (4, 4, 2, 4), (3, 5, 2, 4))
    return gemm_w4a16(activation, plain, weight_scale, weight_zero, group_size=group_size)


@uses()
def repack_w4a16(packed_weight: torch.Tensor) -> torch.Tensor:
    """Weights [N, K / 2], two in a byte, in the order of TileOPs' tensor-core fragments."""
    return _reordered(packed_weight, (4, 4, 4, 2), (4, 2, 5, 3))


def _reordered(
    packed: torch.Tensor, sizes: tuple[int, ...], order: tuple[int, ...]
) -> torch.Tensor:
    """The halves of each 64 bytes, of which there are these, in another order."""
    rows, columns = packed.shape
    if columns % 64:
        raise ValueError(f"repack_w4a16: {columns} bytes of a row must be a multiple of 64")
    halves = torch.stack([packed & 15, packed >> 4], -1).view(rows, columns // 64, *sizes)
    low, high = halves.permute(0, 1, *order).reshape(rows, columns, 2).unbind(-1)
    return low | (high << 4)


@uses("mul", "matmul")
def bmm_fp8(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    out_dtype: str | torch.dtype = "bfloat16",
    trans_b: bool = False,
) -> torch.Tensor:
    """bmm_fp8_nk with trans_b, bmm_fp8_kn without."""
    function = bmm_fp8_nk if trans_b else bmm_fp8_kn
    return function(a, b, scale_a, scale_b, out_dtype=out_dtype)


__all__ = list(provided(vars()))
