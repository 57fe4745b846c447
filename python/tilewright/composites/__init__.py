"""Operators written in PyTorch: backend `torch`.

Each takes an operator's arguments by position and gives its required results; gradients are those
that autograd records. 16-bit inputs are computed in float32 and rounded once. Modules are imported
when the first of them is asked for; `why_none` says why a few operators have none.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

COMPOSITES: dict[str, Callable[..., Any]] = {}  # once loaded, by the operator's name

_MODULES = ("elementwise", "rows", "products", "experts", "sequences", "gradients")

# Why PyTorch has no equal.
_NONE = {
    "linear_packed": "its weights are packed for tilewright's kernels",
    "pack_quantized": "its bytes are laid out for tilewright's kernels",
    "pack_weight": "its bytes are laid out for tilewright's kernels",
    "linear_quantized": "its weights are packed for tilewright's kernels",
    "dropout": "its mask comes from tilewright's generator",
    "sample": "its draws come from tilewright's generator",
}


def is_available() -> bool:
    """Whether PyTorch is installed; it is not imported for the answer."""
    return importlib.util.find_spec("torch") is not None


def why_none(op: str) -> str:
    """Why there is no composite of an operator, or of OP.full; empty where there is one."""
    if not is_available():
        return "PyTorch is not installed"
    load()
    if op in COMPOSITES:
        return ""
    return "has no optional outputs" if op.endswith(".full") else _NONE.get(op, "none is written")


def load() -> int:
    """Imports all composites, with PyTorch; how many there are."""
    if not COMPOSITES:
        for name in _MODULES:
            importlib.import_module(f"tilewright.composites.{name}")
    return len(COMPOSITES)


def find(op: str) -> Callable[..., Any]:
    """The composite of an operator for which why_none() is empty."""
    load()
    return COMPOSITES[op]
