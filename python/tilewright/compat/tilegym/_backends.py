"""TileGym's names for what runs a call, and the user's own implementations of its functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from tilewright import backends
from tilewright.compat import _coverage

_Function = TypeVar("_Function", bound=Callable[..., Any])

# TileGym's own sets of kernels, in whose place tilewright's stand.
KERNELS = ("cutile", "tilecpp", "triton", "cutile-rs")

# Implementations that users registered, by function and backend.
registered: dict[str, dict[str, Callable[..., Any]]] = {}

_kernels = ""  # by which of TileGym's names set_current has chosen tilewright's kernels


def own(name: str | None) -> str | None:
    """The backend of tilewright that a name of TileGym's stands for; None for its kernels."""
    return None if name in KERNELS else "torch" if name == "pytorch" else name


def current() -> str:
    """The backend of calls that name none, as set_current was told."""
    chosen = backends.get_current_backend()
    return _kernels if _kernels and chosen in backends.KERNELS else chosen


def set_current(backend: str) -> None:
    """Sets it."""
    global _kernels
    backends.set_backend(own(backend) or backends.KERNELS[0])
    _kernels = backend if backend in KERNELS else ""


def uses(*operators: str) -> Callable[[_Function], _Function]:
    """Marks a function as one of TileGym's, and lets its argument `backend` say what runs it."""

    def mark(function: _Function) -> _Function:
        return cast(_Function, _coverage.uses(*operators)(_dispatched(function)))

    return mark


def also_called(**others: str) -> Callable[[_Function], _Function]:
    """Lets arguments be given by the names that TileGym's own implementations have for them."""

    def mark(function: _Function) -> _Function:
        @functools.wraps(function)
        def named(*positional: Any, **given: Any) -> Any:
            for other, name in others.items():
                if other in given:
                    given[name] = given.pop(other)
            return function(*positional, **given)

        return cast(_Function, named)

    return mark


def _dispatched(function: Callable[..., Any], bound: str | None = None) -> Callable[..., Any]:
    """The function with an argument `backend` by name; without it, on `bound`."""

    @functools.wraps(function)
    def dispatched(*positional: Any, backend: str | None = bound, **named: Any) -> Any:
        if implementations := registered.get(function.__name__):
            theirs = implementations.get(backend or current())
            if theirs is not None:
                return theirs(*positional, **named)
        if backend is None:
            return function(*positional, **named)
        with backends.naming(own(backend)):
            return _bound(function(*positional, **named), backend)

    return dispatched


def _bound(made: Any, backend: str) -> Any:
    """Functions and classes of modules that a function returns, for this backend."""
    if inspect.isclass(made):
        return type(made.__name__, (made,), {"forward": _dispatched(made.forward, backend)})
    return _dispatched(made, backend) if callable(made) else made
