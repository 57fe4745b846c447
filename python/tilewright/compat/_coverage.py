"""Which of the other libraries' operators there are."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

MODULES = (
    "forge",
    "tilegym",
    "tilegym.liger",
    "tilegym.unsloth",
    "tilegym.flashinfer",
    "tileops",
    "tileops.ops",
)

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class Coverage:
    """The operators of one library."""

    provided: dict[str, tuple[str, ...]]  # the operators of the catalog that serve each
    missing: dict[str, str]  # what the catalog lacks for each

    def __str__(self) -> str:
        """One line per operator."""
        lines = [f"{name}: {', '.join(used)}" for name, used in self.provided.items()]
        lines += [f"{name}: MISSING {what}" for name, what in self.missing.items()]
        return "\n".join(lines)


def uses(*operators: str) -> Callable[[_Function], _Function]:
    """Marks a function as one of the other library's, served by these operators."""

    def mark(function: _Function) -> _Function:
        function.__dict__["operators"] = operators
        return function

    return mark


def provided(names: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The functions of a module that are marked so, with what serves each."""
    return {
        name: value.operators
        for name, value in names.items()
        if hasattr(value, "operators") and not name.startswith("_")
    }


def by_name(missing: Mapping[str, str]) -> dict[str, str]:
    """What is missing for each name, from names by what is missing."""
    return {name: what for what, names in missing.items() for name in names.split()}


def refuse(module: str, names: Mapping[str, str], name: str) -> Callable[..., Any]:
    """A module's attribute for an operator that is missing: it raises when called.

    Raises:
        AttributeError: the other library has no such operator either.
    """
    if name not in names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    def missing(*_arguments: Any, **_named: Any) -> Any:
        raise NotImplementedError(f"{module}.{name}: the catalog has no {names[name]}")

    missing.__name__ = missing.__qualname__ = name
    return missing


def coverage(modules: Iterable[str] = MODULES) -> dict[str, Coverage]:
    """The operators of each library that are provided, and those that are missing.

    Example:
        >>> from tilewright.compat import coverage
        >>> coverage()["forge"].provided["softmax_online"]
        ('softmax',)
    """
    found = {}
    for name in modules:
        module = importlib.import_module(f"tilewright.compat.{name}")
        there = dict(sorted(provided(vars(module)).items()))
        found[name] = Coverage(there, dict(sorted(module.MISSING.items())))
    return found
