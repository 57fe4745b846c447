"""Every operator of the catalog as a typed function: `tilewright.ops.rms_norm(x, weight)`.

Arguments are those of the operator's schema. Tensors may be of PyTorch, or of any library that
speaks DLPack (NumPy, JAX, CuPy); results are of the kind that came in. `backend`
overrules the current one for this call.
"""

from __future__ import annotations

import sys
from typing import Any

from tilewright import _call, _schema
from tilewright._schema import Operator


def _bind(op: Operator, positional: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    arguments = list(positional)
    for arg in op.inputs[len(positional) :]:
        if arg.name in named:
            arguments.append(named.pop(arg.name))
        elif arg.default or arg.optional:
            arguments.append(arg.default_value)
        else:
            raise TypeError(f"{op.name}: {arg.name} is missing\n  in {op.schema}")
    if named or len(arguments) > len(op.inputs):
        twice = next((arg.name for arg in op.inputs if arg.name in named), "")
        extra = ", ".join(named) or f"argument {len(op.inputs) + 1}"
        what = f"{twice} is given twice" if twice else f"there is no {extra}"
        raise TypeError(f"{op.name}: {what}\n  in {op.schema}")
    return arguments


def _make(op: Operator) -> _schema.Function:
    name = op.name
    kernel: _schema.Function | None = None

    # What each call costs beyond torch.ops.tilewright: benchmarks/overhead.py.
    def function(*positional: Any, backend: str | None = None, **named: Any) -> Any:
        nonlocal kernel
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(
            positional[0] if positional else next(iter(named.values()), None), torch.Tensor
        ):
            if torch.compiler.is_compiling():  # PyTorch traces this: nothing but the call
                if _call.is_kernel_traced(name, backend):
                    return getattr(torch.ops.tilewright, name).default(*positional, **named)
                return _call.traced(op, _bind(op, positional, named), backend)
            if backend is None and _call.is_plain():
                kernel = kernel or _call.torch_function(name)
                try:
                    return kernel(*positional, **named)
                except RuntimeError:
                    pass  # the way below says what is wrong, or falls back
        return _call.call(op, _bind(op, positional, named), backend)

    function.__name__ = function.__qualname__ = op.name
    function.__module__ = __name__
    function.__doc__ = f"{op.schema}\n\nSee `tilewright ops {op.name}` for dtypes."
    function.__signature__ = _call.signature(op)  # type: ignore[attr-defined]
    return function


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in _schema.operators():
        raise AttributeError(f"tilewright.ops has no operator {name}")
    made = globals()[name] = _make(_schema.operators()[name])  # from now on an attribute
    return made


def __dir__() -> list[str]:
    return list(_schema.operators())
