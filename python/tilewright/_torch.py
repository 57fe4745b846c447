"""torch.ops.tilewright: loads the binding and adds fake functions. Imports PyTorch."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.library import get_ctx

from tilewright import (
    _arrays,
    _autocast,
    _autograd,
    _call,
    _library,
    _schema,
    _traced,
    composites,
)
from tilewright._schema import Argument, Operator
from tilewright._values import fill

# Sizes that stand for symbolic ones while the library infers shapes: multiples of 64, so that rules
# such as "2*C" hold, and far apart, so that an output's size tells which one it came from.
_MARKER_STEP = 64 * 16777213
_LARGEST_FACTOR = 8


class _Markers:
    """Numbers in the place of symbolic sizes."""

    def __init__(self) -> None:
        self._sizes: list[Any] = []
        self._by_text: dict[str, int] = {}

    def number(self, size: Any) -> int:
        """`size`, or its marker if it is symbolic; of (k, size), k times that."""
        if isinstance(size, tuple):
            return int(size[0] * self.number(size[1]))
        if isinstance(size, int):
            return size
        if (known := size.node.maybe_as_int()) is not None:  # a guard has settled it
            return int(known)
        text = str(size)
        if text not in self._by_text:
            self._sizes.append(size)
            self._by_text[text] = _MARKER_STEP * (2 * len(self._sizes) + 17)
        return self._by_text[text]

    def size(self, number: int) -> Any:
        """The size that a number of the library stands for."""
        for size, marker in zip(self._sizes, self._by_text.values(), strict=True):
            if number == marker:
                return size
            if number * _LARGEST_FACTOR >= marker and number and marker % number == 0:
                return size // (marker // number)
            if number > marker and number % marker == 0 and number // marker <= _LARGEST_FACTOR:
                return size * (number // marker)
        return number


_CODES = {getattr(torch, name): code for code, name in _arrays.NAMES.items()}

# The library's names of dtypes.
DTYPES: dict[str, torch.dtype] = {
    short: getattr(torch, name) for short, name in _arrays.DTYPES.items()
}


def _bind(op: Operator, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    """The size of each name of the schema: the first that has it by itself, not as "2*H"."""
    bound: dict[str, Any] = {}
    for arg in op.inputs:
        if arg.name in tensors:
            for dim, size in zip(
                reversed(arg.dims), reversed(tensors[arg.name].shape), strict=False
            ):
                key = dim.rpartition("*")[2]
                if not (key.isdigit() or key.isidentifier()):
                    break  # leading sizes, of any number
                if dim.isidentifier():
                    bound.setdefault(dim, size)
    return bound


def _unify(op: Operator, tensors: dict[str, torch.Tensor]) -> dict[str, list[Any]]:
    """The tensors' sizes; symbolic ones that the schema wants equal are made so, by a guard."""
    bound = _bind(op, tensors)
    out = {}
    for arg in op.inputs:
        if arg.name not in tensors:
            continue
        sizes: list[Any] = list(tensors[arg.name].shape)
        for d in range(1, min(len(sizes), len(arg.dims)) + 1):
            factor, _, key = arg.dims[-d].rpartition("*")
            if key.isdigit():
                if not isinstance(sizes[-d], int):
                    _guard(op, arg, sizes[-d], int(key))
                    sizes[-d] = int(key)
                continue
            if not key.isidentifier():
                break
            if factor:  # "2*H": twice the size of H
                if key in bound and not isinstance(sizes[-d], int):
                    _guard(op, arg, sizes[-d], int(factor) * bound[key])
                    sizes[-d] = (int(factor), bound[key])
                continue
            first = bound[key]
            if not isinstance(sizes[-d], int) or not isinstance(first, int):
                _guard(op, arg, sizes[-d], first)
                sizes[-d] = first
        out[arg.name] = sizes
    if not any(arg.name == "dim" for arg in op.inputs):  # else what leads is all but that one
        _unify_leading(op, out)
    return out


def _guard(op: Operator, arg: Argument, size: Any, wanted: Any) -> None:
    """From here on both are known to be equal.

    Raises:
        RuntimeError: they are not.
    """
    said = f"{op.name}: {arg.name} has a size of {size}, but {wanted} is needed\n  in {op.schema}"
    torch._check(size == wanted, lambda: said)  # type: ignore[no-untyped-call]


def _unify_leading(op: Operator, out: dict[str, list[Any]]) -> None:
    """The same of leading sizes: one of the inputs' that have any, or 1 where they broadcast."""
    seen: dict[int, Any] = {}  # by distance from the last of them
    for arg in op.inputs:
        sizes = out.get(arg.name, [])
        if not sizes or not arg.dims or arg.dims[0] not in ("*", "..."):
            continue
        for d, i in enumerate(range(len(sizes) - len(arg.dims), -1, -1)):
            if arg.dims[0] == "..." and _is_one(sizes[i]):
                sizes[i] = 1
                continue
            first = seen.setdefault(d, sizes[i])
            if not isinstance(sizes[i], int) or not isinstance(first, int):
                _guard(op, arg, sizes[i], first)
                sizes[i] = first


def _is_one(size: Any) -> bool:
    if isinstance(size, int):
        return size == 1
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    return guard_or_false(size == 1)


def _size(size: Any) -> Any:
    """A size; of (k, size), k times that."""
    return size[0] * size[1] if isinstance(size, tuple) else size


def _has_size_of_its_own(op: Operator, full: bool) -> bool:
    """Whether an output has a size whose rule the schema does not tell."""
    known = {dim.rpartition("*")[2] for arg in op.inputs for dim in arg.dims}  # of "2*C", too
    known |= {arg.name for arg in op.inputs if arg.kind == "int"}
    wanted = [arg for arg in op.outputs if full or not arg.optional]
    return any(dim.isidentifier() and dim not in known for arg in wanted for dim in arg.dims)


def _has_divided_size(op: Operator) -> bool:
    """Whether an output has a size such as "C/group_size": the schema tells the rule."""
    return any("/" in dim for arg in op.outputs for dim in arg.dims)


def _infer(op: Operator, arguments: dict[str, Any], exact: bool = False) -> list[list[Any]]:
    """Shapes of all outputs, by the library's own rule; sizes may be symbolic, if not `exact`."""
    tensors = {name: value for name, value in arguments.items() if _arrays.is_torch(value)}
    if _is_opaque(op):
        return _infer_opaque(op, tensors, arguments)
    markers, reading = _Markers(), _arrays.Reading()
    sizes = _unify(op, tensors)
    values = (_library.Value * len(op.inputs))()
    kept: list[Any] = []
    for value, arg in zip(values, op.inputs, strict=True):
        given = arguments[arg.name]
        if arg.name not in tensors:
            fill(value, arg, given, reading)
            continue
        known = [int(n) for n in tensors[arg.name].shape] if exact else sizes[arg.name]
        shape = (ctypes.c_int64 * _library.MAX_RANK)(*map(markers.number, known))
        if given.dtype not in _CODES:
            raise _library.UnsupportedError(
                f"{op.name}: {arg.name} is {given.dtype}, which no operator takes\n  in {op.schema}"
            )
        code, bits = _CODES[given.dtype]
        view = _library.TensorView(
            data=64,  # never read: only its being there counts
            device=_library.Device(1, 0),
            rank=len(sizes[arg.name]),
            dtype=_library.DataType(code, bits, 1),
            shape=shape,
            strides=(ctypes.c_int64 * _library.MAX_RANK)(),
        )
        kept.append((shape, view))
        value.kind, value.payload.tensor = _library.TENSOR, ctypes.pointer(view)
    try:
        shapes = _library.infer(op.name, values, len(op.outputs))
    except Exception as error:  # which takes the views for what they are made as
        where = next(iter(tensors.values())).device
        raise type(error)(str(error).replace("@cpu", f"@{where}")) from None
    if _has_divided_size(op) and not exact:  # of which no number of the library's reminds
        numbers = {name: value for name, value in arguments.items() if name not in tensors}
        told = op.infer({name: list(map(_size, known)) for name, known in sizes.items()}, numbers)
        if told is not None:
            return told
    return [[markers.size(n) for n in shape.sizes[: shape.rank]] for shape in shapes]


def _is_opaque(op: Operator) -> bool:
    """Whether it takes a packed object, inside of which are sizes."""
    return any(arg.type == "u8" and len(arg.dims) == 1 for arg in op.inputs)


def _infer_opaque(
    op: Operator, tensors: dict[str, torch.Tensor], arguments: dict[str, Any]
) -> list[list[Any]]:
    """Shapes where sizes are what a fake tensor does not have: new symbols."""
    known: dict[str, list[Any]] = {name: list(tensor.shape) for name, tensor in tensors.items()}
    while (shapes := op.infer(known, arguments)) is None:
        missing = next(
            arg for arg in op.inputs if arg.optional and arg.name not in known and arg.dims
        )
        fresh = get_ctx().new_dynamic_size()
        known[missing.name] = [fresh] if len(missing.dims) == 1 else []
    return shapes


def _dtype_of(op: Operator, arg: Argument, arguments: dict[str, Any]) -> torch.dtype:
    for other in op.inputs:
        if other.kind == "tensor" and other.type == arg.type and arguments[other.name] is not None:
            dtype: torch.dtype = arguments[other.name].dtype
            return dtype
    return DTYPES[arg.type]


def _binder(op: Operator) -> Callable[[Sequence[Any], dict[str, Any]], dict[str, Any]]:
    """What makes of the arguments of a call all inputs by name, in their order."""
    defaults = {arg.name: arg.default_value for arg in op.inputs}

    def bind(positional: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
        return {**defaults, **dict(zip(defaults, positional, strict=False)), **named}

    return bind


def _fake(op: Operator, full: bool) -> Callable[..., Any]:
    bind = _binder(op)
    exact = _has_size_of_its_own(op, full)

    def fake(*positional: Any, **named: Any) -> Any:
        arguments = bind(positional, named)
        _check_devices(op, arguments)
        shapes = _infer(op, arguments, exact)
        check_dtypes(op, [*arguments.values()])
        like = next(value for value in arguments.values() if _arrays.is_torch(value))
        results = [
            like.new_empty(shape, dtype=_dtype_of(op, arg, arguments))
            for arg, shape in zip(op.outputs, shapes, strict=True)
            if full or not arg.optional
        ]
        return results[0] if len(results) == 1 else tuple(results)

    return fake


def _check_devices(op: Operator, arguments: dict[str, Any]) -> None:
    """Refuses tensors on several devices; a meta tensor among others brings them here as well."""
    tensors = {name: value for name, value in arguments.items() if _arrays.is_torch(value)}
    first = next(iter(tensors))
    for name, value in tensors.items():
        if value.device != tensors[first].device:
            raise ValueError(
                f"{op.name}: {name} is on {value.device}, but {first} is on "
                f"{tensors[first].device}\n  in {op.schema}"
            )


def check_dtypes(op: Operator, arguments: Sequence[Any]) -> None:
    """Refuses tensors of dtypes that the operator is not declared for."""
    given: dict[str, torch.dtype] = {}
    for arg, value in zip(op.inputs, arguments, strict=True):
        if arg.kind == "tensor" and not arg.is_int_list and value is not None:
            given[arg.type] = value.dtype
    for combo in (*op.dtypes, *op.reference_dtypes):
        if all(dtype == DTYPES[combo.get(name, name)] for name, dtype in given.items()):
            return
    shown = ", ".join(f"{name}: {dtype}" for name, dtype in given.items())
    raise _library.UnsupportedError(f"{op.name}: nothing takes {shown}\n  in {op.schema}")


def check(op: Operator, arguments: Sequence[Any]) -> None:
    """Refuses what the operator's kernels would: shapes, dtypes, devices."""
    named = dict(zip((arg.name for arg in op.inputs), arguments, strict=True))
    _check_devices(op, named)
    _infer(op, named, exact=True)
    check_dtypes(op, arguments)


def _check_given(
    op: Operator, arg: Argument, given: torch.Tensor, shape: list[Any] | None, dtype: torch.dtype
) -> None:
    """Refuses an output of another dtype or, if it is known, shape; symbolic sizes become equal."""
    if given.dtype != dtype:
        raise ValueError(
            f"{op.name}: {arg.name} is {given.dtype}, but {dtype} is needed\n  in {op.schema}"
        )
    if shape is None:
        return
    fits = given.dim() == len(shape)
    for size, wanted in zip(given.shape, shape, strict=False):
        if isinstance(size, int) and isinstance(wanted, int):
            fits = fits and size == wanted
        elif fits:
            _guard(op, arg, size, wanted)
    if not fits:
        raise ValueError(
            f"{op.name}: {arg.name} is {list(given.shape)}@{given.device}, but {shape} is needed"
            f"\n  in {op.schema}"
        )


def _fake_out(op: Operator) -> Callable[..., None]:
    """Outputs are given: all that a kernel asks of them but that they do not overlap."""
    bind = _binder(op)

    def fake(*positional: Any, **named: Any) -> None:
        given = {arg.name: named.pop(arg.name, None) for arg in op.outputs}
        arguments = bind(positional, named)
        _check_devices(op, {**arguments, **given})
        check_dtypes(op, [*arguments.values()])
        has_all = all(value is not None for value in given.values())
        shapes: list[Any] = [None] * len(op.outputs)
        if not _is_opaque(op):
            shapes = _infer(op, arguments, _has_size_of_its_own(op, has_all))
        for arg, shape in zip(op.outputs, shapes, strict=True):
            if (tensor := given[arg.name]) is not None:
                _check_given(op, arg, tensor, shape, _dtype_of(op, arg, arguments))

    return fake


_kept: list[Any] = []


@functools.cache
def load() -> None:
    """Makes torch.ops.tilewright; once per process."""
    _library.load()
    binding = str(_library.directory() / "tilewright_torch.so")
    torch.ops.load_library(binding)  # type: ignore[no-untyped-call]
    for op in _schema.operators().values():
        name = f"tilewright::{op.name}"
        torch.library.register_fake(f"{name}.out", _fake_out(op))
        torch.library.register_fake(name, _fake(op, False))
        if len(op.required_outputs) != len(op.outputs):
            torch.library.register_fake(f"{name}.full", _fake(op, True))
    library: Any = torch.library.Library("tilewright", "FRAGMENT")  # type: ignore[no-untyped-call]
    nodes: Any = torch.library.Library("tilewright_explain", "DEF")  # type: ignore[no-untyped-call]
    _kept.extend((library, nodes))  # whose end would unregister everything
    _autograd.register(library)
    _autocast.register(library)
    _traced.register(nodes)


@functools.cache
def load_traced() -> None:
    """As load; and torch.compile, which is tracing, is told what not to look into.

    Not before: to tell it imports all of it, which takes as long as the rest of PyTorch.
    """
    load()
    for function in (composites.load, composites.why_none):
        torch.compiler.assume_constant_result(function)  # type: ignore[no-untyped-call]
    reason = "definitions run outside of PyTorch's graph, and calls that no kernel takes fail there"
    _call.call_untraced = torch.compiler.disable(_call.call, reason=reason)  # type: ignore[no-untyped-call]
