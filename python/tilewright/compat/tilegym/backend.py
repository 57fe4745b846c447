"""Which backend runs TileGym's operators: its own names for kernels mean tilewright's."""

from __future__ import annotations

from tilewright import backends
from tilewright.backends import get_available_backends_for_op
from tilewright.compat.tilegym._backends import KERNELS, own

__all__ = [
    "assert_backend_available",
    "get_available_backends",
    "get_available_backends_for_op",
    "get_current_backend",
    "is_backend_available",
    "set_backend",
]


_kernels = ""  # by which of TileGym's names set_backend has chosen tilewright's kernels


def get_available_backends() -> set[str]:
    """Backends that can run something on this machine, and the names of TileGym's kernels."""
    return {*backends.get_available_backends(), *KERNELS}


def get_current_backend() -> str:
    """The backend of calls that name none, as set_backend was told."""
    current = backends.get_current_backend()
    return _kernels if _kernels and current in backends.KERNELS else current


def set_backend(backend: str) -> None:
    """Sets the backend of calls that name none.

    Raises:
        ValueError: there is no such backend.
    """
    global _kernels
    backends.set_backend(own(backend) or backends.KERNELS[0])
    _kernels = backend if backend in KERNELS else ""


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
