"""Functions of the compatibility modules take what upstream's take, in the same order."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tilewright.compat import tilegym, tileops

LINES = (Path(__file__).parent / "signatures.txt").read_text().splitlines()
GYM = LINES.index("[tilegym]")
MODULES = ((tileops, LINES[:GYM]), (tilegym, LINES[GYM:]))
FUNCTIONS = [(module, line) for module, lines in MODULES for line in lines if "(" in line]


def declared(line: str) -> inspect.Signature:
    """The signature that a line of the file states."""
    made: dict[str, Any] = {"inf": float("inf")}
    exec(f"def {line}: ...", made)
    return inspect.signature(made[line.partition("(")[0]])


def parameters(signature: inspect.Signature) -> list[tuple[str, Any, Any]]:
    """Names, kinds and defaults."""
    return [(p.name, p.kind, p.default) for p in signature.parameters.values()]


def test_every_function_of_tileops_is_in_the_file() -> None:
    assert sum(module is tileops for module, _ in FUNCTIONS) == 183


@pytest.mark.parametrize(("module", "line"), FUNCTIONS, ids=lambda v: getattr(v, "__name__", v))
def test_signature(module: ModuleType, line: str) -> None:
    ours = parameters(inspect.signature(getattr(module, line.partition("(")[0])))
    theirs = parameters(declared(line))
    if module is tileops:
        assert ours == theirs
        return
    # Calls by position and by name both mean the same; what is ours alone may be left out.
    found = {name: (i, kind, value) for i, (name, kind, value) in enumerate(ours)}
    kinds = {kind for _, kind, _ in ours}
    for i, (name, kind, value) in enumerate(theirs):
        if name not in found:
            assert inspect.Parameter.VAR_KEYWORD in kinds, name
            continue
        assert found[name][:2] == (i, kind), name
        assert value in (found[name][2], inspect.Parameter.empty), name
    more = found.keys() - {name for name, _, _ in theirs}
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    for name in more:
        _, kind, value = found[name]
        assert kind in variadic or value is not inspect.Parameter.empty, name
