"""Operators of three dimensions on arrays of any: views before the call, one after it."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

from tilewright import _arrays


def matmul(batched: Callable[..., Any]) -> Callable[..., Any]:
    """The product of arrays of the ranks of torch.matmul, by that of two batches of matrices."""

    @functools.wraps(batched)
    def function(*positional: Any, **named: Any) -> Any:
        given: dict[str, Any] = dict(zip(("a", "b"), positional, strict=False))
        is_twice = any(name in named for name in given)
        given |= {name: named[name] for name in ("a", "b") if name in named}
        a: Any = given.get("a")
        b: Any = given.get("b")
        if is_twice or not (hasattr(a, "ndim") and hasattr(b, "ndim")):
            return batched(*positional, **named)  # which says what is wrong
        is_batched = a.ndim == b.ndim == 3 and a.shape[0] == b.shape[0]
        if is_batched and len(positional) <= _ADDEND and "addend" not in named:
            return batched(*positional, **named)
        rest = {name: value for name, value in named.items() if name not in given}
        if is_batched:
            x, y, shape = a, b, (*a.shape[:-1], b.shape[-1])
        else:
            x, y, shape = _as_batches(batched.__name__, a, b)
        others = list(positional[2:])
        addend = rest.get("addend", positional[_ADDEND] if len(positional) > _ADDEND else None)
        if hasattr(addend, "ndim"):
            wide = _addend(batched.__name__, addend, shape, (x.shape[0], x.shape[1], y.shape[2]))
            if "addend" in rest:
                rest["addend"] = wide
            else:
                others[_ADDEND - 2] = wide
        try:
            out = batched(x, y, *others, **rest)
        except (NotImplementedError, ValueError) as error:
            out_shape = (*x.shape[:-1], y.shape[-1])
            told = _with_shapes(
                str(error), a=(x.shape, a.shape), b=(y.shape, b.shape), out=(out_shape, shape)
            )
            raise type(error)(told) from None
        return out.reshape(shape)

    return function


_ADDEND = 3  # its position


def _addend(op: str, addend: Any, shape: tuple[Any, ...], batches: tuple[Any, ...]) -> Any:
    """What is added to a product of that shape, which is computed as batches of matrices."""
    wide = (1,) * (len(shape) - addend.ndim) + tuple(addend.shape)
    if len(wide) > len(shape) or any(w not in (1, n) for w, n in zip(wide, shape, strict=True)):
        raise ValueError(
            f"{op}: addend {tuple(addend.shape)} does not broadcast to the product's shape "
            f"{tuple(shape)}"
        )
    return _expanded(addend, shape).reshape(batches)


def _with_shapes(message: str, **shapes: tuple[Any, Any]) -> str:
    """A refusal with the caller's shapes: of each tensor the one that it names, and the other."""
    for name, (named, given) in shapes.items():
        before, after = (f"[{', '.join(map(str, shape))}]@" for shape in (named, given))
        tensor = rf"\b({name}(?:: | is )\w+){re.escape(before)}"
        message = re.sub(tensor, rf"\g<1>{after}", message)
    return message


def _as_batches(op: str, a: Any, b: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    """Batches of matrices with the product's numbers, and its shape."""
    m, n = a.shape[-2:-1], b.shape[-1:] if b.ndim > 1 else ()
    if not a.ndim or not b.ndim or a.shape[-1] != b.shape[-2 if b.ndim > 1 else -1]:
        raise ValueError(f"{op}: a {tuple(a.shape)} and b {tuple(b.shape)} have no product")
    x = a if a.ndim > 1 else a.reshape((1, *a.shape))
    y = b if b.ndim > 1 else b.reshape((*b.shape, 1))
    if y.ndim == 2:  # for all of a's matrices: rows of one
        rows = x.reshape((1, math.prod(x.shape[:-1]), x.shape[-1]))
        return rows, y.reshape((1, *y.shape)), (*x.shape[:-2], *m, *n)
    batch = _broadcast(a, b, x.shape[:-2], y.shape[:-2])
    x, y = (_expanded(t, (*batch, *t.shape[-2:])) for t in (x, y))
    flat = (math.prod(batch),)
    return (
        x.reshape((*flat, *x.shape[-2:])),
        y.reshape((*flat, *y.shape[-2:])),
        (*batch, *m, *n),
    )


def _broadcast(a: Any, b: Any, *batches: tuple[Any, ...]) -> tuple[Any, ...]:
    rank = max(map(len, batches))
    sizes = zip(*((1,) * (rank - len(batch)) + tuple(batch) for batch in batches), strict=True)
    out: list[Any] = []
    for first, second in sizes:
        if first != second and first != 1 and second != 1:
            shapes = f"a {tuple(a.shape)} and b {tuple(b.shape)}"
            raise ValueError(f"matmul: the batches of {shapes} do not broadcast")
        out.append(second if first == 1 else first)
    return tuple(out)


def _expanded(x: Any, shape: tuple[Any, ...]) -> Any:
    if _arrays.is_torch(x):
        return x.expand(shape)
    if tuple(x.shape) == shape:
        return x
    namespace = getattr(x, "__array_namespace__", None)
    if namespace is None:
        import numpy as np

        return np.broadcast_to(x, shape)
    return namespace().broadcast_to(x, shape)
