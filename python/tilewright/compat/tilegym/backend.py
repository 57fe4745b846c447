"""Which backend runs TileGym's operators: its own names for kernels mean tilewright's."""

from __future__ import annotations

from tilewright import backends
from tilewright.backends import (
    get_available_backends,
    get_available_backends_for_op,
    get_current_backend,
)
from tilewright.compat.tilegym._backends import KERNELS, own

__all__ = [
    "assert_backend_available",
    "get_available_backends",
    "get_available_backends_for_op",
    "get_current_backend",
    "is_backend_available",
    "set_backend",
]


def set_backend(name: str) -> None:
    """Sets the backend of calls that name none.

    Raises:
        ValueError: there is no such backend.
    """
    backends.set_backend(own(name) or backends.KERNELS[0])


def is_backend_available(name: str) -> bool:
    """Whether a backend can run something on this machine."""
    return name in KERNELS or own(name) in get_available_backends()


def assert_backend_available(name: str) -> None:
    """Refuses a backend that cannot run anything here.

    Raises:
        ValueError: it cannot.
    """
    if not is_backend_available(name):
        there = ", ".join(get_available_backends())
        raise ValueError(f"backend {name!r} is not available; there are {there}")
