"""Functions of the compatibility modules take what upstream's take, in the same order."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tilewright.compat._coverage import provided

LINES = (Path(__file__).parent / "signatures.txt").read_text().splitlines()


def functions() -> dict[str, list[str]]:
    """The lines of the file, by module."""
    found: dict[str, list[str]] = {}
    for line in LINES:
        if line.startswith("["):
            lines = found.setdefault(line[1:-1], [])
        elif line and not line.startswith("#"):
            lines.append(line)
    return found


FUNCTIONS = functions()
CASES = [(name, line) for name, lines in FUNCTIONS.items() for line in lines]


def module(name: str) -> ModuleType:
    """A module of tilewright.compat."""
    return importlib.import_module(f"tilewright.compat.{name}")


def declared(line: str) -> inspect.Signature:
    """The signature that a line of the file states."""
    made: dict[str, Any] = {"inf": float("inf"), **vars(torch)}
    exec(f"def {line}: ...", made)
    return inspect.signature(made[line.partition("(")[0]])


def parameters(signature: inspect.Signature) -> list[tuple[str, Any, Any]]:
    """Names, kinds and defaults, but for what is left over."""
    return [
        (p.name, p.kind, p.default)
        for p in signature.parameters.values()
        if p.kind is not inspect.Parameter.VAR_KEYWORD
    ]


def takes_more(signature: inspect.Signature) -> bool:
    """Whether other arguments may be given by name."""
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters.values())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_in_the_file(name: str) -> None:
    there = {line.partition("(")[0] for line in FUNCTIONS[name]}
    assert len(there) == len(FUNCTIONS[name])
    assert provided(vars(module(name))).keys() <= there


@pytest.mark.parametrize(("name", "line"), CASES)
def test_signature(name: str, line: str) -> None:
    ours = inspect.signature(getattr(module(name), line.partition("(")[0]))
    theirs = declared(line)
    assert parameters(ours) == parameters(theirs)
    assert takes_more(ours) or not takes_more(theirs)
    if name == "tileops":
        assert not takes_more(ours)
