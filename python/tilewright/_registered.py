"""Calls of implementations that users registered, with the gradients that they gave."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

from tilewright import _arrays
from tilewright.backends import Implementation


def is_recorded(arguments: Sequence[Any]) -> bool:
    """Whether PyTorch would record what is done with these."""
    tensors = [value for value in arguments if _arrays.is_torch(value)]
    return any(t.requires_grad for t in tensors) and sys.modules["torch"].is_grad_enabled()


def run(implementation: Implementation, arguments: Sequence[Any]) -> Any:
    """What an implementation makes of an operator's arguments; see backends.register_impl."""
    if implementation.backward is None or not is_recorded(arguments):
        return implementation.forward(*arguments)
    return _function().apply(implementation, *arguments)


@functools.cache
def _function() -> Any:
    import torch

    class Registered(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, implementation: Implementation, *arguments: Any) -> Any:
            made = implementation.forward(*arguments)
            results = made if isinstance(made, tuple) else (made,)
            ctx.implementation = implementation
            ctx.arguments = [None if _arrays.is_torch(value) else value for value in arguments]
            ctx.save_for_backward(*filter(_arrays.is_torch, arguments), *results)
            return made

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            made = ctx.implementation.backward(ctx, *grads)
            made = made if isinstance(made, tuple) else (made,)
            return None, *made, *[None] * (len(ctx.arguments) - len(made))

    return Registered
