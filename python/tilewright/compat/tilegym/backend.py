"""Which backend runs TileGym's operators: its own names for kernels mean tilewright's."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

from tilewright import backends
from tilewright.compat import _coverage
from tilewright.compat._paths import also_at
from tilewright.compat.tilegym import _backends, logger
from tilewright.compat.tilegym._backends import KERNELS, own

__all__ = [
    "assert_backend_available",
    "dispatch",
    "get_available_backends",
    "get_available_backends_for_op",
    "get_available_triton_backend",
    "get_current_backend",
    "get_registry_info",
    "has_backend_impl",
    "is_backend_available",
    "print_registry_info",
    "register_impl",
    "set_backend",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])

also_at(__name__, f"{__name__}.dispatcher", f"{__name__}.selector")


def get_available_backends() -> set[str]:
    """Backends that can run something on this machine, and the names of TileGym's kernels."""
    return {*backends.get_available_backends(), *KERNELS}


def get_available_triton_backend() -> str:
    """Which Triton TileGym would run on; its kernels are tilewright's here, so the usual one."""
    return "oait"


def get_current_backend() -> str:
    """The backend of calls that name none, as set_backend was told."""
    return _backends.current()


def set_backend(backend: str) -> None:
    """Sets the backend of calls that name none.

    Raises:
        ValueError: there is no such backend.
    """
    _backends.set_current(backend)


def is_backend_available(backend: str) -> bool:
    """Whether a backend can run something on this machine."""
    return (own(backend) or backend) in get_available_backends()


def assert_backend_available(backend: str) -> None:
    """Refuses a backend that cannot run anything here.

    Raises:
        ValueError: it cannot.
    """
    if not is_backend_available(backend):
        there = ", ".join(sorted(get_available_backends()))
        raise ValueError(f"backend {backend!r} is not available; there are {there}")


def register_impl(name: str, backend: str) -> Callable[[_Function], _Function]:
    """Makes a function the implementation of one of TileGym's, or of a `dispatch`, on a backend.

    Example:
        >>> from tilewright.compat import tilegym
        >>> @tilegym.backend.register_impl("relu", "mine")
        ... def relu(x):
        ...     return x.clamp(min=0)
        >>> tilegym.backend.has_backend_impl("relu", "mine")
        True
    """

    def register(function: _Function) -> _Function:
        _backends.registered.setdefault(name, {})[backend] = function
        return function

    return register


def dispatch(name: str, fallback_backend: str = "pytorch") -> Callable[[_Function], _Function]:
    """Makes a function run what is registered under its name for the backend of the call.

    The backend is the argument `backend`, or the current one; where it has none, that of
    `fallback_backend` runs, or the function itself, with a warning.

    Raises:
        NotImplementedError: from the call, where it has none and DISABLE_FALLBACK=1.
    """

    def mark(function: _Function) -> _Function:
        @functools.wraps(function)
        def dispatched(*positional: Any, backend: str | None = None, **named: Any) -> Any:
            chosen = backend or get_current_backend()
            implementations = _backends.registered.get(name, {})
            if chosen in implementations:
                return implementations[chosen](*positional, **named)
            message = f"backend {chosen!r} has no implementation of {name!r}"
            if os.environ.get("DISABLE_FALLBACK") == "1":
                raise NotImplementedError(f"{message}, and DISABLE_FALLBACK=1")
            logger.warn_once(f"{message}: {fallback_backend!r} or the default runs")
            return implementations.get(fallback_backend, function)(*positional, **named)

        return dispatched  # type: ignore[return-value]

    return mark


def get_available_backends_for_op(name: str) -> list[str]:
    """Backends that can run a function of TileGym's, or an operator of tilewright's.

    Raises:
        ValueError: there is neither.
    """
    theirs = list(_backends.registered.get(name, {}))
    operators = _provided().get(name)
    if operators is None:
        return theirs or backends.get_available_backends_for_op(name)
    able = [set(backends.get_available_backends_for_op(operator)) for operator in operators]
    common = [b for b in backends.BACKENDS if all(b in each for each in able)]
    return [*KERNELS, *common, *(b for b in theirs if b not in (*KERNELS, *common))]


def has_backend_impl(name: str, backend: str) -> bool:
    """Whether a backend has an implementation of a function of TileGym's; unknown: none."""
    if name not in _provided() and name not in _backends.registered:
        return False
    able = get_available_backends_for_op(name)
    return backend in able or own(backend) in able


def get_registry_info() -> dict[str, dict[str, str]]:
    """What implements each function on each backend, as `module.function`."""
    info = {}
    for name in [*_provided(), *(n for n in _backends.registered if n not in _provided())]:
        theirs = _backends.registered.get(name, {})
        info[name] = {
            backend: f"{theirs[backend].__module__}.{theirs[backend].__name__}"
            if backend in theirs
            else f"tilewright.compat.tilegym.{name}"
            for backend in get_available_backends_for_op(name)
        }
    return info


def print_registry_info() -> None:
    """Prints get_registry_info()."""
    for name, implementations in get_registry_info().items():
        print(name)
        for backend, implementation in implementations.items():
            print(f"  {backend}: {implementation}")


@functools.cache
def _provided() -> dict[str, tuple[str, ...]]:
    """TileGym's functions and the operators that serve each."""
    return _coverage.coverage(["tilegym"])["tilegym"].provided
