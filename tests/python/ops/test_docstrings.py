"""The examples of docstrings run, and every operator has one."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import tilewright
from tilewright import _schema, ops

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "python" / "tilewright"
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(SOURCES.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in SOURCES.rglob("*.py")
    if ">>> " in path.read_text()
)


def documented() -> dict[str, str]:
    """The docstring of every function of the stub."""
    tree = ast.parse((SOURCES / "ops.pyi").read_text())
    found = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return {node.name: ast.get_docstring(node) or "" for node in found}


@pytest.mark.parametrize("name", _schema.operators())
def test_of_operators(name: str) -> None:
    text = documented()[name]
    assert getattr(ops, name).__doc__ == text  # what help() shows
    first, *lines = text.splitlines()
    assert first not in ("", name), f"{name} says nothing of what it computes"
    assert {"Args:", "Returns:", "Example:"} <= {*lines}
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_of_modules(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_every_public_function_says_what_it_does() -> None:
    for module in pkgutil.walk_packages(tilewright.__path__, "tilewright."):
        if "._" in module.name or module.name == "tilewright.compat.tileops_backend":
            continue  # the latter TileOPs imports, which need not be installed
        public = vars(importlib.import_module(module.name))
        for name in public.get("__all__", ()):
            made = public[name]
            if callable(made) and made.__module__.startswith("tilewright"):
                assert made.__doc__, f"{module.name}.{name}"
