"""Every operator of the catalog as a typed function: `tilewright.ops.rms_norm(x, weight)`.

Arguments are those of the operator's schema. Tensors may be of PyTorch, or of any library that
speaks DLPack (NumPy, JAX, CuPy); results are of the kind that came in. `backend`
overrules the current one for this call.
"""

from __future__ import annotations

from typing import Any

from tilewright import _functions, _schema


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in _schema.operators():
        raise AttributeError(f"tilewright.ops has no operator {name}")
    made = globals()[name] = _functions.make(_schema.operators()[name])  # from now on an attribute
    return made


def __dir__() -> list[str]:
    return list(_schema.operators())
