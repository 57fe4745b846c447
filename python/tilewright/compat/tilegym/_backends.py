"""TileGym's names for what runs a call."""

from __future__ import annotations

from typing import Any

# TileGym's own sets of kernels, in whose place tilewright's stand.
KERNELS = ("cutile", "tilecpp", "triton", "cutile-rs")


def own(name: str | None) -> str | None:
    """The backend of tilewright that a name of TileGym's stands for; None for its kernels."""
    return None if name in KERNELS else "torch" if name == "pytorch" else name


def backend_of(tuning: dict[str, Any]) -> str | None:
    """Where a call's named arguments want it; the others tune TileGym's kernels."""
    return own(tuning.get("backend"))
