"""Arrays of any library as views for the C interface, and new arrays of the same kind.

PyTorch tensors and everything else that speaks DLPack are read in place. Results are of the kind of
the first array among the arguments.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from typing import Any

from tilewright import _library
from tilewright._library import Shape, TensorView

_python = ctypes.pythonapi
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_python.PyCapsule_IsValid.argtypes = (ctypes.py_object, ctypes.c_char_p)

# Bytes in front of the DLTensor of a DLManagedTensorVersioned: version, context, deleter, flags.
_VERSIONED_OFFSET = 32

_CUDA = 2  # DLPack's device

# DLPack's code and bits: the names that NumPy and PyTorch share.
NAMES = {
    (0, 8): "int8",
    (0, 16): "int16",
    (0, 32): "int32",
    (0, 64): "int64",
    (1, 8): "uint8",
    (2, 16): "float16",
    (2, 32): "float32",
    (2, 64): "float64",
    (4, 16): "bfloat16",
    (6, 8): "bool",
    (10, 8): "float8_e4m3fn",
    (12, 8): "float8_e5m2",
}

# dtypes of ml_dtypes, which NumPy does not export.
_UNKNOWN_TO_NUMPY = {
    name: code for code, name in NAMES.items() if name.startswith(("bfloat", "float8"))
}


def is_torch(value: Any) -> bool:
    """Whether `value` is a PyTorch tensor; never imports PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_array(value: Any) -> bool:
    """Whether `value` can be read in place."""
    return hasattr(value, "__dlpack__")


def kernels_for(value: Any) -> str:
    """Whose memory an array is in: `cuda` for a GPU's, `cpu` for all that the library looks at."""
    if is_torch(value):
        return "cuda" if value.device.type == "cuda" else "cpu"
    device = getattr(value, "__dlpack_device__", None)
    return "cuda" if device is not None and device()[0] == _CUDA else "cpu"


class Reading:
    """Keeps what arrays lend while a call runs."""

    def __init__(self) -> None:
        """Nothing is lent yet."""
        self._kept: list[Any] = []

    def view(self, value: Any, name: str) -> Any:
        """A pointer to a TensorView of an array.

        Raises:
            TypeError: `value` is no array, or is not in the CPU's memory.
        """
        if not is_array(value):
            raise TypeError(f"{name} must be an array, not {type(value).__name__}")
        if is_torch(value):
            value = value.detach().resolve_neg()  # which DLPack does not tell of
        code = None if is_torch(value) else _UNKNOWN_TO_NUMPY.get(str(getattr(value, "dtype", "")))
        if code is not None and hasattr(value, "view"):
            value = value.view(f"u{code[1] // 8}")
        capsule = _capsule(value)
        self._kept.append(capsule)
        if _python.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
            address = _python.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
            address += _VERSIONED_OFFSET
        else:
            address = _python.PyCapsule_GetPointer(capsule, b"dltensor")
        found = ctypes.cast(address, ctypes.POINTER(TensorView))
        if code is None:
            return found
        named = TensorView.from_buffer_copy(found.contents)
        named.dtype = _library.DataType(*code, 1)
        self._kept.append(named)
        return ctypes.pointer(named)

    def int_list(self, numbers: list[int]) -> Any:
        """A pointer to a TensorView of integers."""
        data = (ctypes.c_int64 * max(1, len(numbers)))(*numbers)
        shape = (ctypes.c_int64 * 1)(len(numbers))
        view = TensorView(
            data=ctypes.addressof(data),
            device=_library.Device(1, 0),
            rank=1,
            dtype=_library.DataType(0, 64, 1),
            shape=shape,
        )
        self._kept.append((data, shape, view))
        return ctypes.pointer(view)


def _capsule(value: Any) -> Any:
    try:
        return value.__dlpack__(max_version=(1, 0))  # which may lend what must not be written
    except TypeError:
        return value.__dlpack__()


def empty_like_kind(example: Any, shape: Shape) -> Any:
    """A new array of the library that `example` is from, which can be written in place."""
    sizes = tuple(shape.sizes[: shape.rank])
    name = NAMES[shape.dtype.code, shape.dtype.bits]
    if is_torch(example):
        torch = sys.modules["torch"]
        return torch.empty(sizes, dtype=getattr(torch, name))
    import numpy as np

    if name in _UNKNOWN_TO_NUMPY:
        try:
            importlib.import_module("ml_dtypes")  # which makes NumPy know the name
        except ImportError:
            raise _library.UnsupportedError(
                f"an array of {name} as a result needs the package ml_dtypes"
            ) from None
    return np.empty(sizes, dtype=name)


def finished(example: Any, result: Any) -> Any:
    """`result` of empty_like_kind as an array of the library that `example` is from."""
    if is_torch(result) or type(example).__module__.split(".")[0] == "numpy":
        return result
    namespace = getattr(example, "__array_namespace__", None)
    if namespace is None:
        return result
    try:
        return namespace().from_dlpack(result)
    except BufferError:  # NumPy does not lend dtypes of ml_dtypes
        return namespace().asarray(result)
