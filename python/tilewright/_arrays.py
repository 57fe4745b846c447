"""Arrays of any library as views for the C interface, and new arrays of the same kind.

PyTorch tensors and everything else that speaks DLPack are read in place. Results are of the kind of
the first array among the arguments.
"""

from __future__ import annotations

import contextlib
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
_VERSIONED_OFFSET, _FLAGS_OFFSET, _READ_ONLY = 32, 24, 1

_DEFAULT_STREAM = 1  # as DLPack calls CUDA's

CUDA = 2  # DLPack's device

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

# The same by the library's own names.
DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8_e4m3fn": "float8_e4m3fn",
    "f8_e5m2": "float8_e5m2",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u8": "uint8",
    "bool": "bool",
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
    return "cuda" if device is not None and device()[0] == CUDA else "cpu"


def current_stream(example: Any) -> int | None:
    """The CUDA stream that the library of an array works in now; None for the default one."""
    cupy = sys.modules.get("cupy")
    if cupy is None or not isinstance(example, cupy.ndarray):
        return None
    stream: int = cupy.cuda.get_current_stream().ptr
    return stream or None


class Reading:
    """Keeps what arrays lend while a call runs."""

    def __init__(self, stream: int | None = None) -> None:
        """Nothing is lent yet.

        Args:
            stream: the CUDA stream that reads arrays on a GPU; None for the default one.
        """
        self._kept: list[Any] = []
        self._stream = stream or _DEFAULT_STREAM

    def view(self, value: Any, name: str, written: bool = False) -> Any:
        """A pointer to a TensorView of an array.

        Args:
            value: the array.
            name: the argument's, for errors.
            written: whether the call writes it.

        Raises:
            TypeError: `value` is no array, or its library lends nothing.
            UnsupportedError: it is to be written, but its library does not allow that.
        """
        if not is_array(value):
            raise TypeError(f"{name} must be an array, not {type(value).__name__}")
        if is_torch(value):
            value = value.detach().resolve_neg()  # which DLPack does not tell of
        code = None if is_torch(value) else _UNKNOWN_TO_NUMPY.get(str(getattr(value, "dtype", "")))
        if code is not None and hasattr(value, "view"):
            value = value.view(f"u{code[1] // 8}")
        on_gpu = not is_torch(value) and kernels_for(value) == "cuda"
        capsule = _capsule(value, {"stream": self._stream} if on_gpu else {})
        self._kept.append(capsule)
        if _python.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
            address = _python.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
            flags = ctypes.c_uint64.from_address(address + _FLAGS_OFFSET).value
            if written and flags & _READ_ONLY:
                raise _library.UnsupportedError(
                    f"{name}: {type(value).__module__} does not let its arrays be written"
                )
            address += _VERSIONED_OFFSET
        elif _python.PyCapsule_IsValid(capsule, b"dltensor"):
            address = _python.PyCapsule_GetPointer(capsule, b"dltensor")
        else:
            kind = type(value).__name__
            raise TypeError(f"__dlpack__ of {kind} gave {capsule!r}, no capsule of DLPack's")
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


def _capsule(value: Any, named: dict[str, Any]) -> Any:
    try:
        return value.__dlpack__(max_version=(1, 0), **named)  # may lend what must not be written
    except TypeError:
        return value.__dlpack__(**named)


def empty_like_kind(example: Any, shape: Shape, zeros: bool = False) -> Any:
    """A new array of the library that `example` is from, which can be written in place."""
    make = "zeros" if zeros else "empty"
    sizes = tuple(shape.sizes[: shape.rank])
    name = NAMES[shape.dtype.code, shape.dtype.bits]
    if is_torch(example):
        torch = sys.modules["torch"]
        return getattr(torch, make)(sizes, dtype=getattr(torch, name), device="cpu")
    if kernels_for(example) == "cuda":
        return _made_on_gpu(example, make, sizes, name)
    import numpy as np

    if name in _UNKNOWN_TO_NUMPY:
        try:
            importlib.import_module("ml_dtypes")  # which makes NumPy know the name
        except ImportError:
            raise _library.UnsupportedError(
                f"an array of {name} as a result needs the package ml_dtypes"
            ) from None
    return getattr(np, make)(sizes, dtype=name)


def _namespace(example: Any) -> Any:
    """The module that makes arrays like this one; CuPy's arrays do not name theirs."""
    namespace = getattr(example, "__array_namespace__", None)
    if namespace is not None:
        return namespace()
    return sys.modules.get(type(example).__module__.partition(".")[0])


def _made_on_gpu(example: Any, make: str, sizes: tuple[int, ...], name: str) -> Any:
    """From the array's own library, such as CuPy, where the array is."""
    namespace = _namespace(example)
    dtype = getattr(namespace, name, None)
    if dtype is None:
        raise _library.UnsupportedError(
            f"{type(example).__module__} makes no arrays of {name} for results on a GPU"
        )
    device = getattr(example, "device", None)
    there: Any = device if hasattr(device, "__enter__") else contextlib.nullcontext()
    with there:
        return getattr(namespace, make)(sizes, dtype=dtype)


def finished(example: Any, result: Any) -> Any:
    """`result` of empty_like_kind as an array of the library that `example` is from."""
    if kernels_for(example) == "cuda" or is_torch(result):
        return result
    if type(example).__module__.split(".")[0] == "numpy":
        return result
    namespace = getattr(example, "__array_namespace__", None)
    if namespace is None:
        return result
    try:
        return namespace().from_dlpack(result)
    except BufferError:  # NumPy does not lend dtypes of ml_dtypes
        return namespace().asarray(result)
