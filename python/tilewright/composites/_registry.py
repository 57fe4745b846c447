"""How composites are added, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from tilewright.composites import COMPOSITES

_F = TypeVar("_F", bound=Callable[..., Any])


def composite(function: _F) -> _F:
    """Keeps a function under its name, without an underscore at its end."""
    COMPOSITES[function.__name__.rstrip("_")] = function
    return function


def composite_full(function: _F) -> _F:
    """Keeps a function that returns an optional output after the one that each call has."""

    def first(*arguments: Any) -> Any:
        return function(*arguments)[0]

    COMPOSITES[f"{function.__name__}.full"] = function
    COMPOSITES[function.__name__] = first
    return function


def wide(x: torch.Tensor) -> torch.Tensor:
    """In the type that is computed with: float32 for what is narrower."""
    return x if x.dtype == torch.float64 or not x.is_floating_point() else x.float()


def split(x: torch.Tensor, dim: int, sizes: tuple[int, int]) -> torch.Tensor:
    """A dimension as two."""
    shape = list(x.shape)
    at = dim % x.dim()
    return x.reshape(*shape[:at], *sizes, *shape[at + 1 :])
