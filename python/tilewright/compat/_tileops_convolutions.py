"""TileOPs' convolutions: windows of the input times the weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._tensors import tensor
from tilewright.compat._windows import Size, Windows, each


def _convolved(
    name: str,
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    axes: int,
    stride: Size,
    padding: Size | str,
    dilation: Size,
    groups: int,
) -> torch.Tensor:
    if weight.dim() != axes + 2 or groups < 1 or input.shape[1] != weight.shape[1] * groups:
        raise ValueError(
            f"{name}: weight {tuple(weight.shape)} does not fit input {tuple(input.shape)} in "
            f"{groups} groups"
        )
    size = weight.shape[2:]
    if isinstance(padding, str):
        if padding not in ("valid", "same"):
            raise ValueError(f"{name}: padding must be numbers, valid or same, not {padding!r}")
        total = [d * (k - 1) for d, k in zip(each(dilation, axes), size, strict=True)]
        if padding == "same":  # the longer side is the last one
            input = F.pad(input, [e for n in reversed(total) for e in (0, n % 2)])
        padding = [n // 2 if padding == "same" else 0 for n in total]
    windows = Windows(name, input, axes, size, stride, padding, dilation)
    parts = []
    share = weight.shape[0] // groups
    for g, part in enumerate(windows.of(input, 0).chunk(groups, 1)):
        lines = part.movedim(1, 1 + axes).flatten(-axes - 1)  # [N, *count, C * size]
        own = slice(g * share, (g + 1) * share)
        shift = None if bias is None else bias[own]
        parts.append(tensor(ops.linear(lines, weight[own].flatten(1), shift)))
    return torch.cat(parts, -1).movedim(-1, 1).contiguous()


@uses("linear")
def conv1d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> torch.Tensor:
    """The convolution of [N, C, L]."""
    return _convolved("conv1d", input, weight, bias, 1, stride, padding, dilation, groups)


@uses("linear")
def conv2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> torch.Tensor:
    """The convolution of [N, C, H, W]."""
    return _convolved("conv2d", input, weight, bias, 2, stride, padding, dilation, groups)


@uses("linear")
def conv3d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> torch.Tensor:
    """The convolution of [N, C, D, H, W]."""
    return _convolved("conv3d", input, weight, bias, 3, stride, padding, dilation, groups)


__all__ = list(provided(vars()))
