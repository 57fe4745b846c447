"""The other libraries' module paths, which lead to one flat module each here."""

from __future__ import annotations

import sys


def also_at(module: str, *paths: str) -> None:
    """Makes a module importable by further paths, each after its parent's."""
    for path in paths:
        sys.modules[path] = sys.modules[module]
        parent, _, leaf = path.rpartition(".")
        if not hasattr(sys.modules[parent], leaf):  # an operator of the module's name stays
            setattr(sys.modules[parent], leaf, sys.modules[module])
