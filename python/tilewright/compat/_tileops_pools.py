"""TileOPs' pools: windows of the input, reduced."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._tensors import tensor
from tilewright.compat._windows import Size, Windows


def _averages(
    name: str,
    input: torch.Tensor,
    axes: int,
    size: Size,
    stride: Size | None,
    padding: Size,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None = None,
) -> torch.Tensor:
    windows = Windows(name, input, axes, size, stride, padding, 1, ceil_mode)
    total = tensor(ops.sum(windows.of(input.float(), 0).flatten(-axes)))
    if divisor is not None:
        counts = torch.full((1,), float(divisor), device=input.device)
    else:
        counts = windows.elements(count_include_pad).to(input.device)
    return tensor(ops.binary(total, counts, "div")).to(input.dtype)


@uses("sum", "binary")
def avg_pool1d(
    input: torch.Tensor,
    *,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> torch.Tensor:
    """The means of windows of [N, C, L]."""
    options = (kernel_size, stride, padding, ceil_mode, count_include_pad)
    return _averages("avg_pool1d", input, 1, *options)


@uses("sum", "binary")
def avg_pool2d(
    input: torch.Tensor,
    *,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> torch.Tensor:
    """The means of windows of [N, C, H, W]."""
    options = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _averages("avg_pool2d", input, 2, *options)


@uses("sum", "binary")
def avg_pool3d(
    input: torch.Tensor,
    *,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> torch.Tensor:
    """The means of windows of [N, C, D, H, W]."""
    options = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _averages("avg_pool3d", input, 3, *options)


def _largest(
    name: str,
    input: torch.Tensor,
    axes: int,
    size: Size,
    stride: Size | None,
    padding: Size,
    dilation: Size,
    ceil_mode: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    windows = Windows(name, input, axes, size, stride, padding, dilation, ceil_mode)
    flat = windows.of(input, -math.inf).flatten(-axes)
    chosen = tensor(ops.argmax(flat))
    return flat.gather(-1, chosen[..., None])[..., 0], windows.positions(chosen)


@uses("argmax")
def max_pool1d_indices(
    input: torch.Tensor,
    *,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest values of windows of [N, C, L], and where they are."""
    options = (kernel_size, stride, padding, dilation, ceil_mode)
    return _largest("max_pool1d", input, 1, *options)


@uses("argmax")
def max_pool2d_indices(
    input: torch.Tensor,
    *,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest values of windows of [N, C, H, W], and where they are."""
    options = (kernel_size, stride, padding, dilation, ceil_mode)
    return _largest("max_pool2d", input, 2, *options)


@uses("argmax")
def max_pool3d_indices(
    input: torch.Tensor,
    *,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest values of windows of [N, C, D, H, W], and where they are."""
    options = (kernel_size, stride, padding, dilation, ceil_mode)
    return _largest("max_pool3d", input, 3, *options)


@uses("argmax")
def max_pool1d(
    input: torch.Tensor,
    *,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> torch.Tensor:
    """The largest values of windows of [N, C, L]."""
    options = (kernel_size, stride, padding, dilation, ceil_mode)
    return _largest("max_pool1d", input, 1, *options)[0]


@uses("argmax")
def max_pool2d(
    input: torch.Tensor,
    *,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> torch.Tensor:
    """The largest values of windows of [N, C, H, W]."""
    options = (kernel_size, stride, padding, dilation, ceil_mode)
    return _largest("max_pool2d", input, 2, *options)[0]


@uses("argmax")
def max_pool3d(
    input: torch.Tensor,
    *,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> torch.Tensor:
    """The largest values of windows of [N, C, D, H, W]."""
    options = (kernel_size, stride, padding, dilation, ceil_mode)
    return _largest("max_pool3d", input, 3, *options)[0]


def _bins(length: int, count: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Each bin's indices, the last one repeated, and which of them are its own."""
    i = torch.arange(count, device=device)
    begin, end = i * length // count, -(-(i + 1) * length // count)
    offsets = torch.arange(int((end - begin).max()), device=device)
    index = begin[:, None] + offsets
    return index.minimum(end[:, None] - 1), index < end[:, None]


Output = int | Sequence[int | None]


def _adaptive(
    input: torch.Tensor, output_size: Output
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The windows [N, C, H, W, all], which of their elements count, and where these are."""
    if input.dim() not in (3, 4):
        raise ValueError(f"adaptive pooling: input must have 3 or 4 dimensions, not {input.dim()}")
    sizes = [output_size] * 2 if isinstance(output_size, int) else list(output_size)
    length = list(input.shape[-2:])
    wanted = [n if s is None else s for n, s in zip(length, sizes, strict=True)]
    (rows, own_rows), (cols, own_cols) = (
        _bins(n, s, input.device) for n, s in zip(length, wanted, strict=True)
    )
    at = rows[:, None, :, None] * length[1] + cols[None, :, None, :]
    own = own_rows[:, None, :, None] & own_cols[None, :, None, :]
    flat = input.flatten(-2)[..., at.flatten(-2)]
    return flat, own.flatten(-2), at.flatten(-2)


@uses("sum", "mul", "binary")
def adaptive_avg_pool2d(input: torch.Tensor, *, output_size: Output) -> torch.Tensor:
    """The means of as many windows of [N, C, H, W] as are asked for."""
    flat, own, _ = _adaptive(input.float(), output_size)
    total = tensor(ops.sum(ops.mul(flat, own.float())))
    return tensor(ops.binary(total, own.sum(-1).float(), "div")).to(input.dtype)


@uses("argmax")
def adaptive_max_pool2d_indices(
    input: torch.Tensor, *, output_size: Output
) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest values of as many windows as are asked for, and where they are."""
    flat, _, at = _adaptive(input, output_size)
    chosen = tensor(ops.argmax(flat))[..., None]
    return flat.gather(-1, chosen)[..., 0], at.expand(flat.shape).gather(-1, chosen)[..., 0]


@uses("argmax")
def adaptive_max_pool2d(input: torch.Tensor, *, output_size: Output) -> torch.Tensor:
    """The largest values of as many windows of [N, C, H, W] as are asked for."""
    return adaptive_max_pool2d_indices(input, output_size=output_size)[0]


__all__ = list(provided(vars()))
