"""Tilewright as a backend of TileOPs itself: its operators by tilewright's kernels.

TileOPs imports this module on its own, by the entry point `tileops.backends`. Tensors on a CPU,
where TileOPs has no kernels, are then served without a word; those on a GPU where a program asks
for `target="tilewright"`, or `tileops.set_default_target("tilewright")`.
"""

from __future__ import annotations

import importlib
from typing import Any

from tilewright.compat import tileops
from tilewright.compat._tileops_classes import Op
from tilewright.compat._tileops_targets import TARGET

_backend = importlib.import_module("tileops.backend")
_operators = importlib.import_module("tileops.manifest").load_manifest()


def _detect(device: Any) -> bool:
    return bool(device.type == "cpu")


def _builder(cls: type[Op]) -> Any:
    """What TileOPs calls with descriptions of tensors and the parameters of an operator."""

    def build(*_specifications: Any, **parameters: Any) -> Op:
        return cls(**parameters)

    return build


_backend.register_detector(target=TARGET, detect=_detect)
for _name, _class in vars(tileops.ops).items():
    if _name in _operators:
        _backend.register_kernel_builder(op=_name, target=TARGET, build_kernel=_builder(_class))
