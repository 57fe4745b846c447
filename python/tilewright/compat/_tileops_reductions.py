"""TileOPs' reductions, scans and norms of vectors."""

from __future__ import annotations

import math
import warnings
from typing import Literal

import torch

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._tensors import (
    Dims,
    Kind,
    as_dtype,
    constant,
    dimensions,
    kept,
    rows,
    tensor,
    widened,
)


def _reduced(
    operator: str, x: torch.Tensor, dim: Dims, keepdim: bool, function: str = ""
) -> torch.Tensor:
    dims = dimensions(function or operator, x, dim)
    flat, at = rows(x, dims)
    arguments = (function, at) if function else (at,)
    return kept(tensor(getattr(ops, operator)(flat, *arguments)), x, dims, keepdim)


@uses("sum")
def sum(
    x: torch.Tensor, *, dim: Dims = None, keepdim: bool = False, dtype: Kind = None
) -> torch.Tensor:
    """The sums along some dimensions, or of everything, of x in this dtype."""
    return _reduced("sum", as_dtype(x, dtype), dim, keepdim)


@uses("mean")
def mean(
    x: torch.Tensor, *, dim: Dims = None, keepdim: bool = False, dtype: Kind = None
) -> torch.Tensor:
    """The means along some dimensions, or of everything, of x in this dtype."""
    return _reduced("mean", as_dtype(x, dtype), dim, keepdim)


@uses("amax")
def amax(x: torch.Tensor, *, dim: Dims = None, keepdim: bool = False) -> torch.Tensor:
    """The largest values along some dimensions, or of everything."""
    return _reduced("amax", x, dim, keepdim)


@uses("reduce")
def amin(x: torch.Tensor, *, dim: Dims = None, keepdim: bool = False) -> torch.Tensor:
    """The smallest values along some dimensions, or of everything."""
    return _reduced("reduce", x, dim, keepdim, "amin")


@uses("reduce")
def prod(
    x: torch.Tensor, *, dim: int = -1, keepdim: bool = False, dtype: Kind = None
) -> torch.Tensor:
    """The products along a dimension, of x in this dtype."""
    return _reduced("reduce", as_dtype(x, dtype), dim, keepdim, "prod")


@uses("reduce")
def log_sum_exp(x: torch.Tensor, *, dim: Dims = -1, keepdim: bool = False) -> torch.Tensor:
    """The logarithms of the sums of exponentials along some dimensions."""
    return _reduced("reduce", x, dim, keepdim, "logsumexp")


def _norm(
    name: str, order: float, x: torch.Tensor, ord: float, dim: Dims, keepdim: bool
) -> torch.Tensor:
    if ord != order:
        raise ValueError(f"{name}: ord must be {order}, not {ord}")
    function = "norm_inf" if math.isinf(order) else f"norm{order}"
    return _reduced("reduce", x, dim, keepdim, function)


@uses("reduce")
def l1_norm(
    x: torch.Tensor, *, ord: float = 1, dim: Dims = None, keepdim: bool = False
) -> torch.Tensor:
    """The sums of magnitudes along some dimensions, or of everything."""
    return _norm("l1_norm", 1, x, ord, dim, keepdim)


@uses("reduce")
def l2_norm(
    x: torch.Tensor, *, ord: float = 2, dim: Dims = None, keepdim: bool = False
) -> torch.Tensor:
    """The roots of the sums of squares along some dimensions, or of everything."""
    return _norm("l2_norm", 2, x, ord, dim, keepdim)


@uses("reduce")
def inf_norm(
    x: torch.Tensor, *, ord: float = math.inf, dim: Dims = None, keepdim: bool = False
) -> torch.Tensor:
    """The largest magnitudes along some dimensions, or of everything."""
    return _norm("inf_norm", math.inf, x, ord, dim, keepdim)


def _index(x: torch.Tensor, dim: int | None, keepdim: bool) -> torch.Tensor:
    if dim is None:
        out = tensor(ops.argmax(x.flatten()))
        return out.reshape([1] * x.dim()) if keepdim else out
    return _reduced("argmax", x, dim, keepdim)


@uses("argmax")
def argmax(x: torch.Tensor, *, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
    """Where the largest value along a dimension, or of everything, is."""
    return _index(x, dim, keepdim)


@uses("unary", "argmax")
def argmin(x: torch.Tensor, *, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
    """Where the smallest value along a dimension, or of everything, is."""
    return _index(tensor(ops.unary(x, "neg")), dim, keepdim)


def _truth(x: torch.Tensor) -> torch.Tensor:
    """X, or for complex numbers whether they are not 0, in a dtype that the catalog has."""
    if x.is_complex():
        x = tensor(ops.compare(x.real.contiguous(), x.imag.contiguous(), "or"))
    return widened(x)


@uses("count_nonzero")
def count_nonzero(x: torch.Tensor, *, dim: Dims = None) -> torch.Tensor:
    """How many are not 0 along some dimensions, or of everything."""
    return _reduced("count_nonzero", _truth(x), dim, False)


def _compared(
    x: torch.Tensor, dim: Dims, keepdim: bool, relation: Literal["eq", "ne"], every: bool
) -> torch.Tensor:
    """Whether the numbers that are not 0 are some, or all."""
    x = _truth(x)
    if not isinstance(dim, int) and dim is not None and len(dim) == 0:
        return tensor(ops.compare(x, constant(x, 0), "ne"))
    found = _reduced("count_nonzero", x, dim, keepdim)
    shape = x.shape or (1,)
    count = math.prod(shape[d] for d in dimensions("count_nonzero", x, dim)) if every else 0
    return tensor(ops.compare(found, constant(found, count), relation))


@uses("count_nonzero", "compare")
def any(x: torch.Tensor, *, dim: Dims = None, keepdim: bool = False) -> torch.Tensor:
    """Whether one is not 0 along some dimensions, or of everything."""
    return _compared(x, dim, keepdim, "ne", False)


@uses("count_nonzero", "compare")
def all(x: torch.Tensor, *, dim: Dims = None, keepdim: bool = False) -> torch.Tensor:
    """Whether none is 0 along some dimensions, or of everything."""
    return _compared(x, dim, keepdim, "eq", True)


def _moments(
    name: str, x: torch.Tensor, dim: Dims, correction: float | None, keepdim: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    dims = dimensions(name, x, dim)
    flat, at = rows(x, dims)
    both = ops.var_mean(flat, at, 1.0 if correction is None else correction, name == "std")
    first, second = (kept(tensor(out), x, dims, keepdim) for out in both)
    return first, second


@uses("var_mean")
def var(
    x: torch.Tensor, *, dim: Dims = None, correction: float | None = 1, keepdim: bool = False
) -> torch.Tensor:
    """The variances along some dimensions, or of everything."""
    return _moments("var", x, dim, correction, keepdim)[0]


@uses("var_mean")
def std(
    x: torch.Tensor, *, dim: Dims = None, correction: float | None = 1, keepdim: bool = False
) -> torch.Tensor:
    """The standard deviations along some dimensions, or of everything."""
    return _moments("std", x, dim, correction, keepdim)[0]


@uses("var_mean")
def var_mean(
    x: torch.Tensor, *, dim: Dims = None, correction: float | None = 1, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """The variances and the means along some dimensions, or of everything."""
    return _moments("var_mean", x, dim, correction, keepdim)


def _scanned(x: torch.Tensor, function: Literal["sum", "prod"], dim: int) -> torch.Tensor:
    at = dimensions(f"cum{function}", x, dim)
    return tensor(ops.scan(x.reshape(x.shape or (1,)), function, at[0])).reshape(x.shape)


@uses("scan")
def cumsum(x: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    """The sums of the elements up to each along a dimension."""
    return _scanned(x, "sum", dim)


@uses("scan")
def cumprod(x: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    """The products of the elements up to each along a dimension."""
    return _scanned(x, "prod", dim)


def _chosen(name: str, x: torch.Tensor, dim: int | None) -> int:
    """The dimension; without one, that which PyTorch then takes."""
    if dim is None:
        dim = 0 if x.dim() in (0, 1, 3) else 1
        warnings.warn(f"Implicit dimension choice for {name}: {dim}", stacklevel=3)
    return dim


@uses("softmax")
def softmax(x: torch.Tensor, *, dim: int | None = None, dtype: Kind = None) -> torch.Tensor:
    """The softmax along a dimension, of x in this dtype."""
    return tensor(ops.softmax(as_dtype(x, dtype), _chosen("softmax", x, dim)))


@uses("log_softmax")
def log_softmax(x: torch.Tensor, *, dim: int | None = None, dtype: Kind = None) -> torch.Tensor:
    """The logarithm of the softmax along a dimension, of x in this dtype."""
    return tensor(ops.log_softmax(as_dtype(x, dtype), _chosen("log_softmax", x, dim)))


__all__ = list(provided(vars()))
