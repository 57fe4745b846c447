"""Every operator of the catalog as a typed function: `tilewright.ops.rms_norm(x, weight)`.

Arguments are those of the operator's schema. Tensors may be of PyTorch, or of any library that
speaks DLPack (NumPy, JAX, CuPy); results are of the kind that came in. `backend` overrules the
current one for this call.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from tilewright import _arrays, _call, _schema
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
        extra = ", ".join(named) or f"argument {len(op.inputs) + 1}"
        raise TypeError(f"{op.name}: there is no {extra}\n  in {op.schema}")
    return arguments


def _guarded(op: Operator, result: Any) -> Any:
    """`result`, whose backward raises where PyTorch would go on without a gradient."""
    for one in result if isinstance(result, tuple) else (result,):
        node = one.grad_fn if _arrays.is_torch(one) else None
        if node is not None and node.name().endswith("NotImplemented"):
            one.register_hook(functools.partial(_refuse_gradient, op.name))
    return result


def _refuse_gradient(name: str, _gradient: Any) -> None:
    raise NotImplementedError(f"{name} has no gradient")


def _make(op: Operator) -> _schema.Function:
    def function(*positional: Any, backend: str | None = None, **named: Any) -> Any:
        if backend is None and positional and _arrays.is_torch(positional[0]):
            if _arrays.is_compiling():  # PyTorch traces this: nothing but the call
                torch = sys.modules["torch"]
                return getattr(torch.ops.tilewright, op.name).default(*positional, **named)
            if _call.is_plain():
                try:
                    return _guarded(op, _call.torch_function(op.name)(*positional, **named))
                except RuntimeError:
                    pass  # the way below says what is wrong, or falls back
        return _guarded(op, _call.call(op, _bind(op, positional, named), backend))

    function.__name__ = function.__qualname__ = op.name
    function.__module__ = __name__
    function.__doc__ = f"{op.schema}\n\nSee `tilewright ops {op.name}` for dtypes."
    function.__signature__ = _call.signature(op)  # type: ignore[attr-defined]
    return function


@functools.cache
def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in _schema.operators():
        raise AttributeError(f"tilewright.ops has no operator {name}")
    return _make(_schema.operators()[name])


def __dir__() -> list[str]:
    return list(_schema.operators())
