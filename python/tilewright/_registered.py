"""Calls of implementations that users registered, with the gradients that they gave.

What these return is checked: it has to be what the operator's schema says.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tilewright import _arrays, _library
from tilewright._explain import describe
from tilewright._schema import Operator
from tilewright._values import fill
from tilewright.backends import Implementation

Described = tuple[tuple[int, ...], str, str]  # shape, dtype, device


def is_recorded(arguments: Sequence[Any]) -> bool:
    """Whether PyTorch would record what is done with these."""
    tensors = [value for value in arguments if _arrays.is_torch(value)]
    return any(t.requires_grad for t in tensors) and sys.modules["torch"].is_grad_enabled()


def run(
    op: Operator, backend: str, implementation: Implementation, arguments: Sequence[Any]
) -> Any:
    """What an implementation makes of an operator's arguments; see backends.register_impl.

    Raises:
        ValueError: it is not what the operator returns.
    """
    call = _Call(op, backend, implementation)
    if implementation.backward is None or not is_recorded(arguments):
        return call.forward(arguments)
    return _function().apply(call, *arguments)


@dataclasses.dataclass(frozen=True)
class _Call:
    op: Operator
    backend: str
    implementation: Implementation

    def forward(self, arguments: Sequence[Any]) -> Any:
        """The results, checked."""
        made = self.implementation.forward(*arguments)
        if "torch" in sys.modules and sys.modules["torch"].compiler.is_compiling():
            return made  # part of a graph, which has no arrays
        results = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        names = [arg.name for arg in self.op.required_outputs]
        if len(results) != len(names):
            raise self._error(f"{len(results)} results", f"{len(names)}: {', '.join(names)}")
        example = next(value for value in arguments if _arrays.is_array(value))
        wanted = _outputs(self.op, arguments, describe(example)[2])
        for name, result, want in zip(names, results, wanted, strict=False):
            self._check(name, result, want, _arrays.is_torch(example))
        return results if len(results) > 1 else results[0]

    def backward(self, ctx: Any, grads: Sequence[Any]) -> list[Any]:
        """A gradient for each argument, checked."""
        backward: Callable[..., Any] = self.implementation.backward  # type: ignore[assignment]
        made = backward(ctx, *grads)
        found = list(made) if isinstance(made, (tuple, list)) else [made]
        names = [arg.name for arg in self.op.inputs]
        if len(found) > len(names):
            raise self._error(f"{len(found)} gradients", f"one of each of {', '.join(names)}")
        found += [None] * (len(names) - len(found))
        needed = ctx.needs_input_grad[1:]  # after the call itself
        for name, grad, want, needs in zip(names, found, ctx.described, needed, strict=True):
            if needs or (grad is not None and want is not None):
                self._check(f"the gradient of {name}", grad, want, True)
            elif grad is not None:
                raise self._error(f"a gradient of {name}", "None, for it is no tensor")
        return found

    def _check(self, name: str, given: Any, want: Described, is_torch: bool) -> None:
        found = describe(given)
        if found == want and _arrays.is_torch(given) == is_torch:
            return
        told = "{1}{0}@{2}".format(*found) if found[1] else repr(given)
        expected = "{1}{0}@{2}".format(*want)
        if found == want:
            told += f" ({type(given).__name__})"
            expected += f", {'a tensor' if is_torch else 'no tensor'} of PyTorch"
        raise self._error(f"{name} as {told}", expected)

    def _error(self, given: str, expected: str) -> ValueError:
        what = f"what is registered for backend {self.backend} returned {given}"
        return ValueError(
            f"{self.op.name}: {what}, but expected is {expected}\n  in {self.op.schema}"
        )


def _outputs(op: Operator, arguments: Sequence[Any], device: str) -> list[Described]:
    """Shape, dtype and device of each required output; nothing where the library cannot tell."""
    reading = _arrays.Reading()
    values = (_library.Value * len(op.inputs))()
    try:
        for value, arg, given in zip(values, op.inputs, arguments, strict=True):
            fill(value, arg, given, reading)
        shapes = _library.infer(op.name, values, len(op.outputs))
    except (BufferError, RuntimeError):  # not in memory, or of a dtype that the library lacks
        return []
    return [
        (tuple(s.sizes[: s.rank]), _arrays.NAMES[s.dtype.code, s.dtype.bits], device)
        for s, arg in zip(shapes, op.outputs, strict=True)
        if not arg.optional
    ]


@functools.cache
def _function() -> Any:
    import torch

    class Registered(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, call: _Call, *arguments: Any) -> Any:
            made = call.forward(arguments)
            results = made if isinstance(made, tuple) else (made,)
            is_tensor = _arrays.is_torch
            ctx.call = call
            ctx.arguments = [None if is_tensor(value) else value for value in arguments]
            ctx.described = [describe(value) if is_tensor(value) else None for value in arguments]
            ctx.save_for_backward(*filter(is_tensor, arguments), *results)
            return made

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return None, *ctx.call.backward(ctx, grads)

    return Registered
