"""The C interface of the shared library, through ctypes: structures, loading, errors."""

from __future__ import annotations

import ctypes
import functools
import json
import os
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any

MAX_RANK = 8
ABI_VERSION = 0


class Device(ctypes.Structure):
    """DLPack's DLDevice."""

    _fields_ = (("type", c_int32), ("index", c_int32))


class DataType(ctypes.Structure):
    """DLPack's DLDataType."""

    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class TensorView(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = (
        ("data", c_void_p),
        ("device", Device),
        ("rank", c_int32),
        ("dtype", DataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


class Shape(ctypes.Structure):
    """Shape and dtype of an output."""

    _fields_ = (("rank", c_int32), ("dtype", DataType), ("sizes", c_int64 * MAX_RANK))


class _Payload(ctypes.Union):
    _fields_ = (
        ("tensor", POINTER(TensorView)),
        ("f64", c_double),
        ("i64", c_int64),
        ("text", c_char_p),
    )


class Value(ctypes.Structure):
    """One argument of a call."""

    _fields_ = (("kind", c_int32), ("payload", _Payload))


class Answer(ctypes.Structure):
    """A call that has succeeded."""

    _fields_ = (
        ("op", c_void_p),
        ("arguments", POINTER(Value)),
        ("count", c_int32),
        ("build", c_char_p),
    )


class GpuState(ctypes.Structure):
    """What a GPU says of itself."""

    _fields_ = (
        ("sm_mhz", c_double),
        ("memory_mhz", c_double),
        ("power_w", c_double),
        ("power_limit_w", c_double),
        ("temperature_c", c_double),
    )


Observer = ctypes.CFUNCTYPE(None, POINTER(Answer))

ABSENT, TENSOR, FLOAT, INT, TEXT = range(5)


class UnsupportedError(NotImplementedError):
    """The call is valid, but no kernel takes it; the message says why."""


class InternalError(RuntimeError):
    """A bug in tilewright: please report it with the message."""


_ERRORS: dict[int, type[Exception]] = {
    1: ValueError,
    2: UnsupportedError,
    3: MemoryError,
    4: ValueError,
    5: OSError,
    6: InternalError,
}


def directory() -> Path:
    """Where the shared libraries are: TILEWRIGHT_LIBRARY_DIR, or inside the package."""
    set_by_user = os.environ.get("TILEWRIGHT_LIBRARY_DIR")
    return Path(set_by_user) if set_by_user else Path(__file__).parent / "lib"


@functools.cache
def load() -> ctypes.CDLL:
    """The shared library.

    Raises:
        ImportError: it is missing, cannot be loaded, or is of another version.
    """
    path = directory() / f"libtilewright.so.{ABI_VERSION}"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"tilewright: cannot load {path}: {error}") from error
    for name in ("version", "last_error", "isa", "cuda_unavailable", "catalog"):
        getattr(library, f"tw_{name}").restype = c_char_p
    library.tw_cuda_state.argtypes = (c_int32, POINTER(GpuState))
    library.tw_operator_find.argtypes = (c_char_p, POINTER(c_void_p))
    library.tw_operator_name.argtypes, library.tw_operator_name.restype = (c_void_p,), c_char_p
    library.tw_observe.argtypes = (Observer,)
    library.tw_context_new.argtypes = (c_int32, POINTER(c_void_p))
    library.tw_context_set_cuda_stream.argtypes = (c_void_p, c_void_p)
    library.tw_context_free.argtypes = (c_void_p,)
    library.tw_set_float32_matmul_precision.argtypes = (c_char_p,)
    library.tw_float32_matmul_precision.argtypes = (POINTER(c_char_p),)
    call = (c_void_p, POINTER(Value), c_int32, c_void_p, c_void_p)
    library.tw_call.argtypes = (c_void_p, *call)
    library.tw_call_reference.argtypes = call
    library.tw_infer.argtypes = (c_void_p, POINTER(Value), c_int32, POINTER(Shape))
    if library.tw_abi_version() != ABI_VERSION:
        raise ImportError(f"tilewright: {path} is of another version than the Python package")
    return library


def check(status: int) -> None:
    """Raises what a status of the library stands for."""
    if status:
        message = load().tw_last_error().decode()
        raise _ERRORS.get(status, InternalError)(message)


@functools.cache
def catalog() -> list[dict[str, Any]]:
    """The operators as the library describes them."""
    text: str = load().tw_catalog().decode()
    operators: list[dict[str, Any]] = json.loads(text)
    return operators


@functools.cache
def operator_handle(name: str) -> c_void_p:
    """The library's handle of an operator."""
    handle = c_void_p()
    check(load().tw_operator_find(name.encode(), ctypes.byref(handle)))
    return handle


def infer(op: str, values: Any, outputs: int) -> Any:
    """The shape and dtype of each output of a call, optional ones included."""
    shapes = (Shape * outputs)()
    check(load().tw_infer(operator_handle(op), values, len(values), shapes))
    return shapes


def raise_as_ours(error: RuntimeError) -> None:
    """Raises the library's own exception for one that PyTorch made a RuntimeError of, if it is."""
    message = load().tw_last_error().decode()
    if message and str(error).startswith(message):
        raise _ERRORS.get(load().tw_last_status(), InternalError)(message) from None
