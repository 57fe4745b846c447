"""Composites of matrix products, and of what makes and unmakes narrow numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F

from tilewright.composites._registry import composite, split, wide
from tilewright.composites.rows import cross_entropy

Tensor = torch.Tensor

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


@composite
def matmul(a: Tensor, b: Tensor, alpha: float, addend: Tensor | None, beta: float) -> Tensor:
    out = alpha * (wide(a) @ wide(b))
    if addend is not None and beta != 0:
        out = out + beta * wide(addend)
    return out.to(a.dtype)


@composite
def int_matmul(a: Tensor, b: Tensor) -> Tensor:
    if not a.is_cuda:
        return a.to(torch.int32) @ b.to(torch.int32)
    # There PyTorch multiplies integers of few sizes alone; float64 has all digits of the sums.
    sums = (a.double() @ b.double()).to(torch.int64)
    return ((sums + 2**31) % 2**32 - 2**31).to(torch.int32)


@composite
def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    activation: str,
    row_scale: Tensor | None,
    column_scale: Tensor | None,
) -> Tensor:
    out = F.linear(wide(x), wide(weight))
    if row_scale is not None:
        out = out * row_scale[..., None]
    if column_scale is not None:
        out = out * column_scale
    out = _ACTIVATIONS[activation](out if bias is None else out + wide(bias))
    return (out if residual is None else out + wide(residual)).to(x.dtype)


def _groups(offsets: Tensor, starts: Tensor | None, most: int) -> Iterator[tuple[int, int, int]]:
    """Number, begin and end of each group that has rows."""
    begin = 0
    begins = None if starts is None else starts.tolist()
    for g, end in enumerate(offsets.tolist()):
        first = begin if begins is None else begins[g]
        if first < end:
            yield g, first, min(end, most)
        begin = end


@composite
def grouped_matmul(a: Tensor, b: Tensor, offsets: Tensor, starts: Tensor | None) -> Tensor:
    out = wide(a).new_zeros(a.shape[0], b.shape[2])
    for g, begin, end in _groups(offsets, starts, a.shape[0]):
        product = wide(a[begin:end]) @ wide(b[g])
        out = out.slice_scatter(product, 0, begin, end)
    return out.to(a.dtype)


@composite
def k_grouped_matmul(a: Tensor, b: Tensor, offsets: Tensor, starts: Tensor | None) -> Tensor:
    parts = {
        g: wide(a[:, begin:end]) @ wide(b[begin:end])
        for g, begin, end in _groups(offsets, starts, a.shape[1])
    }
    zeros = wide(a).new_zeros(a.shape[0], b.shape[1])
    made = [parts.get(g, zeros) for g in range(offsets.shape[0])]
    out = torch.stack(made) if made else zeros.new_zeros(0, *zeros.shape)
    return out.to(a.dtype)


def _spread(scale: Tensor, rows: int, columns: int, block_m: int, block_n: int) -> Tensor:
    """A scale for each element of a matrix, from one for each block."""
    out = scale.repeat_interleave(min(block_m, rows), -2)
    out = out.repeat_interleave(min(block_n, columns), -1)
    return out[..., :rows, :columns]


@composite
def dequantize(x: Tensor, scale: Tensor, block_m: int, block_n: int) -> Tensor:
    return x.float() * _spread(scale, x.shape[0], x.shape[1], block_m, block_n)


def _int4(x: Tensor) -> Tensor:
    codes = x.view(torch.uint8)
    return torch.stack((codes & 15, codes >> 4), -1).flatten(-2).float()


@composite
def dequantize_int4(x: Tensor, scale: Tensor, zero: Tensor, group_size: int) -> Tensor:
    rows, columns = x.shape[0], 2 * x.shape[1]
    spread = [_spread(t.float(), rows, columns, 1, group_size) for t in (scale, zero)]
    return ((_int4(x) - spread[1]) * spread[0]).to(scale.dtype)


def _linear_in_groups(
    x: Tensor,
    codes: Tensor,
    scale: Tensor,
    base: Tensor | float,
    bias: Tensor | None,
    group_size: int,
) -> Tensor:
    if isinstance(base, Tensor):
        base = _spread(base.float(), codes.shape[0], codes.shape[1], 1, group_size)
    weight = (codes - base) * _spread(scale.float(), codes.shape[0], codes.shape[1], 1, group_size)
    return F.linear(x.float(), weight, None if bias is None else bias.float()).to(x.dtype)


@composite
def linear_int4(
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    bias: Tensor | None,
    group_size: int,
) -> Tensor:
    base = 8.0 if zero is None else zero
    return _linear_in_groups(x, _int4(weight), scale, base, bias, group_size)


@composite
def linear_int8(
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    bias: Tensor | None,
    group_size: int,
) -> Tensor:
    base = 0.0 if zero is None else zero
    return _linear_in_groups(x, weight.float(), scale, base, bias, group_size)


@composite
def scaled_grouped_matmul(
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    offsets: Tensor | None,
    block_n: int,
    block_k: int,
    starts: Tensor | None,
    rows: Tensor | None,
) -> Tensor:
    count, depth = a.shape
    left = a.float() * _spread(a_scale, count, depth, 1, block_k)
    left = left if rows is None else left[rows.long()]
    right = b.float() * _spread(b_scale, b.shape[1], depth, block_n, block_k)
    if offsets is None:
        offsets = torch.full((b.shape[0],), len(left), dtype=torch.int32, device=a.device)
    return grouped_matmul(left, right.mT, offsets, starts)


def _quantize(
    x: Tensor, group_size: int, eps: float, power_of_two: bool, largest: float
) -> tuple[Tensor, Tensor]:
    """Numbers over their scale, not rounded, and the scales."""
    count = x.shape[-1] // group_size
    if x.numel() == 0:
        return x.float(), x.new_zeros(*x.shape[:-1], count).float()
    groups = split(x.float(), -1, (count, group_size))
    scale = groups.abs().amax(-1).clamp(min=eps) / largest
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    if power_of_two:
        rounded = torch.exp2(torch.ceil(torch.log2(scale.double()))).float()
        scale = torch.where(scale.isfinite(), rounded, scale)
    return (groups / scale[..., None]).flatten(-2), scale


@composite
def quantize_fp8(
    x: Tensor, group_size: int, eps: float, power_of_two: bool
) -> tuple[Tensor, Tensor]:
    codes, scale = _quantize(x, group_size, eps, power_of_two, 448.0)
    return codes.clamp(-448, 448).to(torch.float8_e4m3fn), scale


@composite
def quantize_int8(
    x: Tensor, group_size: int, eps: float, power_of_two: bool, truncate: bool
) -> tuple[Tensor, Tensor]:
    codes, scale = _quantize(x, group_size, eps, power_of_two, 127.0)
    codes = torch.nan_to_num(codes.clamp(-127, 127), 0.0)
    return (codes.trunc() if truncate else codes.round()).to(torch.int8), scale


@composite
def embedding(weight: Tensor, indices: Tensor) -> Tensor:
    return F.embedding(indices.long(), weight)


@composite
def fused_linear_cross_entropy(
    x: Tensor,
    weight: Tensor,
    target: Tensor,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
    z_loss: float,
) -> Tensor:
    logits = wide(x) @ wide(weight).T
    rest = (ignore_index, reduction, label_smoothing, z_loss)
    return cross_entropy(logits, target, *rest).to(x.dtype)
