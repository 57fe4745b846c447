"""forge-cute-py's operators: copy_transpose, reduce, reduce_sum, softmax_online."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilewright import ops as catalog
from tilewright.compat._coverage import by_name, refuse, uses
from tilewright.compat._paths import also_at
from tilewright.compat._tensors import tensor

Forward = Callable[[torch.Tensor, int], torch.Tensor]
Backward = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]

# What `reduce` accepts as `op`.
_REDUCTIONS = ("sum", "amax", "amin", "prod")
_ALIASES = {"max": "amax", "min": "amin"}

MISSING: dict[str, str] = by_name({})

also_at(__name__, f"{__name__}.ops")


def __getattr__(name: str) -> Callable[..., object]:
    return refuse(__name__, MISSING, name)


@uses("transpose")
def copy_transpose(x: torch.Tensor, tile_size: int = 16) -> torch.Tensor:
    """The transpose of a matrix, in memory; any tile size gives the same."""
    if x.dim() != 2:
        raise ValueError(f"copy_transpose: x must be a matrix, not {tuple(x.shape)}")
    if tile_size not in (16, 32):
        raise ValueError(f"copy_transpose: tile_size must be 16 or 32, not {tile_size}")
    out: torch.Tensor = catalog.transpose(x)
    return out


# As upstream's package makes it, which may be there, too.
if not hasattr(torch.ops.forge_cute_py, "copy_transpose"):
    _transposed = torch.library.custom_op(
        "forge_cute_py::copy_transpose", copy_transpose, mutates_args=()
    )
    _transposed.register_fake(lambda x, tile_size=16: x.new_empty(x.shape[::-1]))


@uses("sum", "amax", "reduce")
def reduce(x: torch.Tensor, dim: int = -1, op: str = "sum") -> torch.Tensor:
    """The reduction of one dimension.

    Raises:
        ValueError: no reduction has this name.
    """
    op = _ALIASES.get(op, op)
    if op not in _REDUCTIONS:
        raise ValueError(f"reduce: op must be sum, amax, max, amin, min or prod, not {op!r}")
    out: torch.Tensor
    if op in ("sum", "amax"):
        out = getattr(catalog, op)(x, dim)
    else:
        out = catalog.reduce(x, "amin" if op == "amin" else "prod", dim)
    return out


@uses("sum")
def reduce_sum(x: torch.Tensor, dim: int = -1, variant: str | None = None) -> torch.Tensor:
    """The sums along one dimension; any variant of forge-cute-py's kernel gives the same."""
    return reduce(x, dim, "sum")


def _softmax_backward(dy: torch.Tensor, y: torch.Tensor, dim: int) -> torch.Tensor:
    return tensor(catalog.softmax_backward(dy, y, dim))


def _checked(made: torch.Tensor, like: torch.Tensor, name: str) -> torch.Tensor:
    """What a backend made.

    Raises:
        ValueError: it has not the shape, dtype and device of what it was made from.
    """
    for what in ("shape", "dtype", "device"):
        if getattr(made, what) != getattr(like, what):
            raise ValueError(
                f"softmax_online: backend {name!r} returned {what} {getattr(made, what)}, not "
                f"{getattr(like, what)}"
            )
    return made


# Operators, so that compiled code calls whatever is registered.
@torch.library.custom_op("tilewright_forge::softmax", mutates_args=())
def _registered(x: torch.Tensor, dim: int, name: str) -> torch.Tensor:
    return _checked(_backends[name][0](x, dim), x, name)


@torch.library.custom_op("tilewright_forge::softmax_backward", mutates_args=())
def _registered_backward(dy: torch.Tensor, y: torch.Tensor, dim: int, name: str) -> torch.Tensor:
    backward = _backends[name][1] or _softmax_backward
    return _checked(backward(dy, y, dim), dy, name)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(output)
    ctx.call = inputs[1:]


def _differentiate(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None, None]:
    return _registered_backward(dy, ctx.saved_tensors[0], *ctx.call), None, None


_registered.register_fake(lambda x, dim, name: torch.empty_like(x))
_registered_backward.register_fake(lambda dy, y, dim, name: torch.empty_like(dy))
_registered.register_autograd(_differentiate, setup_context=_keep)


def _kernel(x: torch.Tensor, dim: int) -> torch.Tensor:
    out: torch.Tensor = catalog.softmax(x, dim)
    return out


def _ref(x: torch.Tensor, dim: int) -> torch.Tensor:
    out: torch.Tensor = catalog.softmax(x, dim, backend="reference")
    return out


# "kernel" is tilewright's operator, "ref" its definition in float64.
_backends: dict[str, tuple[Forward, Backward | None]] = {
    "kernel": (_kernel, None),
    "ref": (_ref, None),
}
_current = "kernel"


@uses("softmax")
def softmax_online(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """The softmax of a matrix's rows, by the current backend."""
    if x.dim() != 2 or dim != -1:
        raise ValueError(
            f"softmax_online expects dim=-1 and x to be a matrix, not dim={dim} and "
            f"{tuple(x.shape)}"
        )
    if _backends[_current] == (_kernel, None):  # has a gradient of its own
        return _kernel(x, -1)
    out: torch.Tensor = _registered(x, -1, _current)
    return out


def register_softmax_online_backend(
    name: str,
    forward_impl: Forward,
    backward_impl: Backward | None = None,
    *,
    overwrite: bool = False,
) -> None:
    """Adds a backend: forward_impl(x, dim), and backward_impl(dy, y, dim) for its gradient.

    Raises:
        ValueError: there is one of this name.
        TypeError: an implementation cannot be called.
    """
    if not name:
        raise ValueError("softmax_online: a backend needs a name")
    if not callable(forward_impl) or not (backward_impl is None or callable(backward_impl)):
        raise TypeError(f"softmax_online: backend {name!r} needs functions")
    if name in _backends and not overwrite:
        raise ValueError(f"softmax_online: backend {name!r} already exists")
    _backends[name] = (forward_impl, backward_impl)


def set_softmax_online_backend(name: str) -> None:
    """Chooses the backend of later calls.

    Raises:
        ValueError: there is none of this name.
    """
    global _current
    if name not in _backends:
        raise ValueError(
            f"Unknown softmax_online backend {name!r}; there are {', '.join(_backends)}"
        )
    _current = name


def get_softmax_online_backend() -> str:
    """The current backend."""
    return _current


def list_softmax_online_backends() -> tuple[str, ...]:
    """All backends."""
    return tuple(_backends)
