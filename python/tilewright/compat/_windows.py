"""Where the windows of pools and convolutions are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

Size = int | Sequence[int]


def each(value: Size, axes: int) -> list[int]:
    """One number per axis."""
    out = [value] * axes if isinstance(value, int) else list(value)
    if len(out) == 1:
        out *= axes
    if len(out) != axes:
        raise ValueError(f"{axes} numbers were expected, not {value}")
    return out


class Windows:
    """Where the windows of a pool or a convolution are."""

    def __init__(
        self,
        name: str,
        x: torch.Tensor,
        axes: int,
        size: Size,
        stride: Size | None,
        padding: Size,
        dilation: Size = 1,
        ceil_mode: bool = False,
    ) -> None:
        if x.dim() != axes + 2:
            raise ValueError(f"{name}: input must have {axes + 2} dimensions, not {x.dim()}")
        self.size, self.padding = each(size, axes), each(padding, axes)
        self.stride = self.size if stride is None else each(stride, axes)
        self.dilation = each(dilation, axes)
        self.reach = [(k - 1) * d + 1 for k, d in zip(self.size, self.dilation, strict=True)]
        self.inner = list(x.shape[2:])
        self.count: list[int] = []
        for n, reach, s, p in zip(self.inner, self.reach, self.stride, self.padding, strict=True):
            if reach < 1 or s < 1 or p < 0:
                raise ValueError(f"{name}: kernel {size}, stride {stride}, padding {padding}")
            free = n + 2 * p - reach
            count = (-(-free // s) if ceil_mode else free // s) + 1
            if ceil_mode and (count - 1) * s >= n + p:  # a window must begin within the input
                count -= 1
            if count < 1:
                raise ValueError(f"{name}: input {tuple(x.shape)} is smaller than a window")
            self.count.append(count)

    def of(self, x: torch.Tensor, fill: float) -> torch.Tensor:
        """The windows [N, C, *count, *size] of x, which ends in `fill` on all sides."""
        edges: list[int] = []
        axes = zip(self.inner, self.reach, self.stride, self.padding, self.count, strict=True)
        for n, reach, s, p, count in axes:
            edges = [p, max((count - 1) * s + reach - n - p, 0), *edges]
        x = F.pad(x, edges, value=fill)
        for i, (reach, s, d) in enumerate(zip(self.reach, self.stride, self.dilation, strict=True)):
            x = x.unfold(2 + i, reach, s).narrow(2 + i, 0, self.count[i])[..., ::d]
        return x

    def elements(self, with_padding: bool) -> torch.Tensor:
        """How many elements each window has that are not beyond the padding, or the input."""
        out = torch.ones(())
        axes = zip(self.inner, self.reach, self.stride, self.padding, self.count, strict=True)
        for n, reach, s, p, count in axes:
            begin = torch.arange(count) * s - p
            end = (begin + reach).clamp(max=n + p)
            if not with_padding:
                begin, end = begin.clamp(min=0), end.clamp(max=n)
            out = out[..., None] * (end - begin).float()
        return out[None, None]

    def positions(self, chosen: torch.Tensor) -> torch.Tensor:
        """In the input without its padding, of element number `chosen` of each window."""
        out = torch.zeros_like(chosen)
        rest = chosen
        scale = 1
        for i in reversed(range(len(self.size))):
            step = rest % self.size[i] * self.dilation[i] - self.padding[i]
            begin = torch.arange(self.count[i], device=chosen.device) * self.stride[i]
            shape = [1] * chosen.dim()
            shape[2 + i] = -1
            out = out + (step + begin.view(shape)) * scale
            rest = rest // self.size[i]
            scale *= self.inner[i]
        return out
