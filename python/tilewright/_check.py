"""Arguments of a Python call as their operator takes them, or one line that says what is wrong."""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from typing import Any

from tilewright import _arrays
from tilewright._library import UnsupportedError
from tilewright._schema import Argument, Operator


def checked(op: Operator, arguments: Sequence[Any]) -> list[Any]:
    """Arguments of the right kinds; None is no tensor or a default of 0; arrays become tensors.

    Raises:
        TypeError: an argument is missing or of another kind.
        ValueError: a number does not fit.
        UnsupportedError: a tensor is not dense, or an array cannot be read.
    """
    made = [_checked(op, arg, value) for arg, value in zip(op.inputs, arguments, strict=True)]
    first = next((value for value in made if _arrays.is_array(value)), None)
    if first is None or not _arrays.is_torch(first):
        return made
    return [_as_tensor(op, arg, value) for arg, value in zip(op.inputs, made, strict=True)]


def may_be_none(arg: Argument) -> bool:
    """Whether None stands for the default of an argument that is no tensor."""
    is_number = arg.kind == "float" and bool(arg.default)
    return is_number and float(arg.default) == 0  # which means none, or computed


def _checked(op: Operator, arg: Argument, value: Any) -> Any:
    if value is None and not arg.optional:
        if not arg.default:
            raise TypeError(f"{op.name}: {arg.name} is missing\n  in {op.schema}")
        if not may_be_none(arg):
            raise TypeError(f"{op.name}: {arg.name} must not be None\n  in {op.schema}")
    if value is None:
        return arg.default_value
    kinds = {
        "float": _real,
        "int": _integer,
        "bool": _flag,
        "choice": _string,
        "text": _string,
        "tensor": _array,
    }
    try:
        return _integers(value) if arg.is_int_list else kinds[arg.kind](value)
    except UnsupportedError as error:
        raise UnsupportedError(f"{op.name}: {arg.name} {error}\n  in {op.schema}") from None
    except (TypeError, ValueError) as error:
        shown = "" if arg.kind == "tensor" and not arg.is_int_list else f" = {value!r}"
        message = f"{op.name}: {arg.name}{shown} {error}\n  in {op.schema}"
        raise type(error)(message) from None


def _array(value: Any) -> Any:
    if not _arrays.is_array(value):
        raise TypeError(f"must be an array, not {type(value).__name__}")
    if _arrays.is_torch(value):
        strided = str(value.layout) == "torch.strided"
        if not strided or value.is_quantized or value.is_nested:
            kind = "quantized" if value.is_quantized else "nested" if value.is_nested else "sparse"
            kind = str(value.layout) if kind == "sparse" else kind
            raise UnsupportedError(f"is {kind}, but a dense tensor is needed")
    elif hasattr(value, "mask") and hasattr(value, "filled"):
        raise UnsupportedError("is masked, which operators would not see: fill it")
    return value


def _real(value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError("must be a number")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError("must be a number") from None


def _integer(value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError("must be an integer") from None
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError("must fit 64 bits")
    return number


def _integers(value: Any) -> Any:
    if hasattr(value, "tolist"):  # an array
        value = value.tolist()
    try:
        return [_integer(number) for number in value]
    except TypeError:
        raise TypeError("must be integers") from None


def _flag(value: Any) -> bool:
    if isinstance(value, str) or value not in (False, True):
        raise TypeError("must be True or False")
    return bool(value)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("must be a string")
    return value


def _as_tensor(op: Operator, arg: Argument, value: Any) -> Any:
    if not _arrays.is_array(value) or _arrays.is_torch(value) or arg.is_int_list:
        return value
    try:
        return sys.modules["torch"].from_dlpack(value)
    except (BufferError, RuntimeError) as error:
        raise UnsupportedError(f"{op.name}: {arg.name} cannot be read: {error}") from None
