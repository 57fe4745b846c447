"""Every operator of the catalog as a Python function: tilewright.ops, and more of its outputs."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from tilewright import _call, _ranks, _schema, backends
from tilewright._check import may_be_none
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


@functools.cache
def _documentation() -> dict[str, str]:
    """What the stub says of each operator, which is written from the catalog."""
    stub = Path(__file__).with_name("ops.pyi")
    text = stub.read_text(encoding="utf-8") if stub.exists() else ""
    declared = re.findall(r'^def (\w+)\(.*?\n    r"""(.*?)"""', text, re.M | re.S)
    return {name: inspect.cleandoc(told) for name, told in declared}


def make(op: Operator) -> _schema.Function:
    """The function of tilewright.ops that calls an operator."""
    name, call_name, overload = op.name, op.call_name, "full" if op.is_full else "default"
    first, numbers = op.inputs[0].name, {arg.name for arg in op.inputs if may_be_none(arg)}
    kernel: _schema.Function | None = None

    # What each call costs beyond torch.ops.tilewright: benchmarks/overhead.py.
    def function(*positional: Any, backend: str | None = None, **named: Any) -> Any:
        nonlocal kernel
        torch = sys.modules.get("torch")
        x = positional[0] if positional else named.get(first)
        if torch is not None and isinstance(x, torch.Tensor):
            if torch.compiler.is_compiling():  # PyTorch traces this: nothing but the call
                _call.load_traced()
                place = "cuda" if x.is_cuda else "cpu"
                wanted = backends.traced_backend(place) if backend is None else backend
                if _call.is_kernel_traced(call_name, wanted, place):
                    packet = getattr(torch.ops.tilewright, name)
                    absent = [key for key in named if key in numbers and named[key] is None]
                    for key in absent:  # which the operator has a default for
                        del named[key]
                    return getattr(packet, overload)(*positional, **named)
                return _call.traced(op, _bind(op, positional, named), wanted)
            if backend is None and _call.is_plain():
                kernel = kernel or _call.torch_function(call_name)
                try:
                    return kernel(*positional, **named)
                except RuntimeError:
                    pass  # the way below says what is wrong, or falls back
        elif torch is not None and hasattr(type(x), "__torch_function__"):
            if backend is not None:  # of a stand-in, as torch.fx traces with
                named["backend"] = backend
            return torch.overrides.handle_torch_function(function, (x,), *positional, **named)
        elif torch is not None and torch.compiler.is_compiling():  # NumPy's arrays break the graph
            _call.load_traced()
            return _call.call_untraced(op, _bind(op, positional, named), backend)
        return _call.call(op, _bind(op, positional, named), backend)

    function.__name__ = function.__qualname__ = op.name
    function.__module__ = "tilewright.ops"
    function.__doc__ = _documentation().get(name, op.schema)
    function.__signature__ = _call.signature(op)  # type: ignore[attr-defined]
    return _ranks.matmul(function) if name in ("matmul", "int_matmul") else function


@functools.cache
def full(name: str) -> _schema.Function:
    """An operator that returns its optional outputs, too."""
    return make(_schema.full(name))


def into(name: str, out: Any, *arguments: Any) -> Any:
    """Writes an operator's result to the tensor `out`, which may be one of the arguments."""
    torch = sys.modules["torch"]
    is_traced = torch.compiler.is_compiling()
    if not is_traced:
        _call.torch_function(name)  # loads the binding
    if is_traced or _call.is_plain():
        getattr(torch.ops.tilewright, name).out(*arguments, out=out)
        return out
    return out.copy_(make(_schema.find(name))(*arguments))
