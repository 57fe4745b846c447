"""Python values as arguments of the C interface."""

from __future__ import annotations

from typing import Any

from tilewright import _arrays, _library
from tilewright._schema import Argument

# Times the largest float32 this is 4, times scores as they are next to 0.
_LEAST_SCALE = 2.0**-126


def score_scale(scale: float | None) -> float:
    """What attention operators take for a scale: their 0 is 1 / sqrt(D), which is None elsewhere.

    A scale of 0, under which all keys weigh the same, becomes the least normal number.
    """
    return 0.0 if scale is None else scale or _LEAST_SCALE


def fill(value: _library.Value, arg: Argument, given: Any, reading: _arrays.Reading) -> None:
    """Writes one argument into a call; None is the default."""
    if given is None:
        return
    if arg.is_int_list and not _arrays.is_array(given):
        value.kind, value.payload.tensor = _library.TENSOR, reading.int_list(list(given))
    elif arg.kind == "tensor":
        value.kind, value.payload.tensor = _library.TENSOR, reading.view(given, arg.name)
    elif arg.kind == "float":
        value.kind, value.payload.f64 = _library.FLOAT, float(given)
    elif arg.kind in ("choice", "text"):
        value.kind, value.payload.text = _library.TEXT, str(given).encode()
    else:
        value.kind, value.payload.i64 = _library.INT, int(given)
