"""TileOPs' choice of whose kernels run an operator, of which there are tilewright's."""

from __future__ import annotations

from typing import Any

TARGET = "tilewright"


class _Builtin:
    """TileOPs' own kernels; here, as they are not there, tilewright's."""

    def __repr__(self) -> str:
        return "BUILTIN"


BUILTIN = _Builtin()


class BackendError(Exception):
    """What goes wrong in choosing."""


class UnknownTargetError(BackendError):
    """There is no such target."""


class OpNotAvailableError(BackendError, ValueError):
    """Nothing serves this call."""


def is_known(target: Any) -> bool:
    """Whether a class may be asked for this target; TileOPs' own BUILTIN is one."""
    return target in (None, TARGET) or repr(target) == "BUILTIN"


def registered_targets(op: str | None = None) -> tuple[str, ...]:
    """The targets there are."""
    return (TARGET,)


def default_target() -> str:
    """The target of classes that name none."""
    return TARGET


def set_default_target(target: Any) -> None:
    """Takes what is the default already.

    Raises:
        UnknownTargetError: there is no such target.
    """
    if not is_known(target):
        raise UnknownTargetError(f"there is no target {target!r}")


PUBLIC = (
    "BUILTIN",
    "BackendError",
    "OpNotAvailableError",
    "UnknownTargetError",
    "default_target",
    "registered_targets",
    "set_default_target",
)
