"""What the mappings share: dtypes that the catalog lacks, dimensions, scalars as tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from tilewright import _functions, ops

Dims = int | Sequence[int] | None
Kind = str | torch.dtype | None

_BYTES = (torch.float8_e4m3fn, torch.float8_e5m2)

# Integers that the catalog computes with as int32; taken back, they wrap as their own would.
_NARROW = (torch.bool, torch.uint8, torch.int8, torch.int16)


def tensor(x: Any) -> torch.Tensor:
    """The result of one operator."""
    out: torch.Tensor = x
    return out


def dtype_of(name: str | torch.dtype) -> torch.dtype:
    """A dtype by its name, or itself."""
    found: torch.dtype = getattr(torch, name) if isinstance(name, str) else name
    return found


def as_dtype(x: torch.Tensor, kind: Kind) -> torch.Tensor:
    """X in a dtype; as it is without one."""
    return x if kind is None else x.to(dtype_of(kind))


def widened(x: torch.Tensor) -> torch.Tensor:
    """The same numbers in a dtype that the catalog has."""
    return x.to(torch.int32) if x.dtype in _NARROW else x


def packed(x: torch.Tensor) -> torch.Tensor:
    """X contiguous, and with the stride of a dimension of size 1 that this implies."""
    return x.contiguous().view(x.shape)


def computable(x: torch.Tensor) -> torch.Tensor:
    """The same numbers in a dtype that products take: floats of 8 bits are halves, exactly."""
    return x.to(torch.float16) if x.dtype in _BYTES else x


def call(operator: str, *arguments: Any) -> torch.Tensor:
    """An operator whose result has the dtype of its first argument, in any dtype of integers."""
    dtype = arguments[0].dtype
    given = (widened(a) if isinstance(a, torch.Tensor) else a for a in arguments)
    return tensor(getattr(ops, operator)(*given)).to(dtype)


def in_place(operator: str, input: torch.Tensor, *arguments: Any) -> torch.Tensor:
    """An operator that writes its result to its first argument."""
    return tensor(_functions.into(operator, input, input, *arguments))


def constant(x: torch.Tensor, value: float) -> torch.Tensor:
    """A number that broadcasts to x, in its dtype."""
    return x.new_full((1,) * x.dim(), value)


def check_representable(name: str, value: float, dtype: torch.dtype) -> None:
    """Refuses a number that x's dtype cannot hold.

    Raises:
        ValueError: it is out of range, or a fraction where the dtype has none.
    """
    if dtype == torch.bool or not math.isfinite(value):
        fits = dtype == torch.bool or dtype.is_floating_point
    elif dtype.is_floating_point:
        fits = abs(value) <= torch.finfo(dtype).max
    else:
        info = torch.iinfo(dtype)
        fits = value == int(value) and info.min <= value <= info.max
    if not fits:
        raise ValueError(f"{name}: {value} is not representable in {dtype}")


def dimensions(name: str, x: torch.Tensor, dim: Dims) -> list[int]:
    """The dimensions that `dim` names, in order; all of them for none.

    Raises:
        IndexError: x has no such dimension.
        ValueError: a dimension is named twice.
    """
    rank = max(x.dim(), 1)
    given = [dim] if isinstance(dim, int) else list(dim or range(x.dim()))
    for d in given:
        if not -rank <= d < rank:
            raise IndexError(f"{name}: {tuple(x.shape)} has no dimension {d}")
    found = sorted({d % rank for d in given})
    if len(found) != len(given):
        raise ValueError(f"{name}: a dimension stands twice in {given}")
    return found


def rows(x: torch.Tensor, dims: list[int]) -> tuple[torch.Tensor, int]:
    """X with these dimensions as one, and which one that is."""
    if x.dim() == 0:
        return x.reshape(1), 0
    if len(dims) == 1:
        return x, dims[0]
    return x.movedim(dims, list(range(-len(dims), 0))).flatten(-len(dims)), -1


def kept(out: torch.Tensor, x: torch.Tensor, dims: list[int], keepdim: bool) -> torch.Tensor:
    """The result of a reduction with its dimensions of size 1, if they are kept."""
    for d in dims if keepdim and x.dim() else ():
        out = out.unsqueeze(d)
    return out


def unflatten(x: torch.Tensor, dim: int, *sizes: int) -> torch.Tensor:
    """X with dimension `dim` as several of these sizes, of which one may be -1."""
    out: torch.Tensor = x.unflatten(dim, sizes)  # type: ignore[no-untyped-call]
    return out


def affine(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
    """X [N, C, ...] times weight [C] plus bias [C]."""
    shape = (1, -1) + (1,) * (x.dim() - 2)
    if weight is not None:
        x = tensor(ops.mul(x, weight.to(x.dtype).view(shape)))
    if bias is not None:
        x = tensor(ops.add(x, bias.to(x.dtype).view(shape)))
    return x


def segments_of(ends: torch.Tensor, count: int) -> torch.Tensor:
    """The segment of each of so many rows, of segments that end at these [B].

    What comes behind the last one counts for it. No device waits for the host.
    """
    rows = torch.arange(count, device=ends.device, dtype=ends.dtype)
    return torch.searchsorted(ends.contiguous(), rows, right=True).clamp_(max=len(ends) - 1)


def places_of(starts: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Each of so many tokens' request, and its place there; requests start at these [B + 1]."""
    request = segments_of(starts[1:], count)
    return request, torch.arange(count, device=starts.device) - starts[request].long()
