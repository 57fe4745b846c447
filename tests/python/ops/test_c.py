"""The C interface as a C program sees it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tilewright import _call, _library

ROOT = Path(__file__).resolve().parents[3]


def test_the_example_compiles_as_strict_c_and_prints_what_it_says(tmp_path: Path) -> None:
    library = Path(os.environ["TILEWRIGHT_LIBRARY_DIR"])
    program = tmp_path / "softmax"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT}"]
    inputs = [ROOT / "examples/c/softmax.c", library / "libtilewright.so"]
    subprocess.run(["cc", *flags, *inputs, f"-Wl,-rpath,{library}", "-o", program], check=True)
    output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert output.splitlines() == [
        "0.0321 0.0871 0.2369 0.6439",
        "softmax: dim = 5 is not a dimension of f32[1, 4]@cpu",
    ]


def check_abi(*arguments: object) -> subprocess.CompletedProcess[str]:
    library = Path(os.environ["TILEWRIGHT_LIBRARY_DIR"]) / "libtilewright.so"
    command = [sys.executable, "tools/c_abi.py", str(library), "--check", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_binary_interface_is_the_recorded_one() -> None:
    result = check_abi()
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("ours", "changed", "complaint"),
    [
        ("tw_isa(void)", "tw_isa(int32_t)", "TILEWRIGHT_0: const char* tw_isa(void)"),
        ("  tw_device device;\n  int32_t rank;", "  int32_t rank;\n  tw_device device;",
         "struct tw_tensor.device: at 8"),
        ("TW_TEXT = 4", "TW_TEXT = 6", "enum tw_kind: TW_TEXT = 4"),
        ("tw_version(void)", "tw_release(void)", "tw_release is declared, but not"),
    ],
)  # fmt: skip
def test_a_break_of_the_binary_interface_is_found(ours, changed, complaint, tmp_path) -> None:
    source = (ROOT / "tilewright/c/tilewright.h").read_text()
    assert source.count(ours) == 1
    header = tmp_path / "tilewright.h"
    header.write_text(source.replace(ours, changed))
    result = check_abi("--header", header)
    assert result.returncode == 1
    assert complaint in result.stderr


def test_tensors_have_the_layout_of_dlpack(tmp_path: Path) -> None:
    import torch

    header = Path(torch.__file__).parent / "include" / "ATen" / "dlpack.h"
    source = tmp_path / "layout.c"
    pairs = [("device", "device"), ("rank", "ndim"), ("dtype", "dtype"), ("shape", "shape")]
    pairs += [("strides", "strides"), ("byte_offset", "byte_offset"), ("data", "data")]
    checks = "".join(
        f'_Static_assert(offsetof(tw_tensor, {ours}) == offsetof(DLTensor, {theirs}), "{ours}");\n'
        for ours, theirs in pairs
    )
    source.write_text(
        f'#include <stddef.h>\n#include "{header}"\n#include "tilewright/c/tilewright.h"\n{checks}'
        '_Static_assert(sizeof(tw_tensor) == sizeof(DLTensor), "size");\n'
    )
    subprocess.run(
        ["cc", "-std=c11", f"-I{ROOT}", f"-I{header.parents[1]}", "-fsyntax-only", source],
        check=True,
    )


MOST = 2**63 - 1


def softmax(
    shape: list[int] | None = None, strides: list[int] | None = None, **changed: Any
) -> tuple[int, str]:
    """Status and message of softmax of f32[2, 4] with something else in it, or of None for x."""
    shape = [2, 4] if shape is None else shape
    memory = [(ctypes.c_float * 8)(), (ctypes.c_float * 8)()]
    views = [
        _library.TensorView(
            data=ctypes.addressof(each),
            device=_library.Device(1, 0),
            rank=len(shape),
            dtype=_library.DataType(2, 32, 1),
            shape=(ctypes.c_int64 * 8)(*shape),
            strides=None,
        )
        for each in memory
    ]
    if strides is not None:
        views[0].strides = (ctypes.c_int64 * 8)(*strides)
    for name in changed.keys() & {"shape_", "byte_offset"}:
        setattr(views[0], name.rstrip("_"), changed[name])
    values = (_library.Value * 3)()
    for value, view in zip((values[0], values[2]), views, strict=True):
        value.kind, value.payload.tensor = _library.TENSOR, ctypes.pointer(view)
    if "x" in changed:
        values[0].payload.tensor = changed["x"]
    arguments = [_call._context(), _library.operator_handle("softmax"), values, 3, None, None]
    for name, at in {"context": 0, "op": 1, "arguments": 2}.items():
        arguments[at] = changed.get(name, arguments[at])
    library = _library.load()
    status = library.tw_call(*arguments)
    return status, library.tw_last_error().decode() if status else ""


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"context": None}, "tw_call: context is NULL"),
        ({"op": None}, "tw_call: op is NULL"),
        ({"arguments": None}, "softmax: arguments is NULL"),
        ({"x": None}, "softmax: x is NULL, but a tensor is needed"),
        ({"shape_": None}, "softmax: x has 2 dimensions, but its shape is NULL"),
        ({"strides": [MOST, MOST]}, f"with strides [{MOST}, {MOST}], which lead beyond 64 bits"),
        ({"strides": [2**59, 2**59]}, "which lead beyond 64 bits"),
        ({"strides": [-MOST - 1, 1]}, "which lead beyond 64 bits"),
        ({"strides": [-(2**50), 1]}, "which lead beyond 64 bits"),
        ({"byte_offset": 2**64 - 1}, f"x has a byte_offset of {2**64 - 1}, which leads beyond"),
        ({"byte_offset": MOST}, f"x has a byte_offset of {MOST}, which leads beyond 64 bits"),
    ],
)
def test_what_no_call_may_hold_is_refused(changed: dict[str, Any], told: str) -> None:
    status, message = softmax(**changed)
    assert status == 1
    assert told in message


def test_strides_that_are_never_stepped_over_may_be_anything() -> None:
    assert softmax([1, 4], [MOST, 1]) == (0, "")
    assert softmax([0, 4], [MOST, MOST]) == (0, "")


def test_a_stream_needs_a_context() -> None:
    """What returns no status leaves it, and the message, behind."""
    library, context = _library.load(), ctypes.c_void_p()
    _library.check(library.tw_context_new(1, ctypes.byref(context)))
    assert library.tw_operator_find(None, None) == 1  # some other failure before
    library.tw_context_set_cuda_stream(context, None)
    assert "tw_operator_find" in library.tw_last_error().decode()
    library.tw_context_set_cuda_stream(None, 64)
    assert library.tw_last_status() == 1
    assert library.tw_last_error() == b"tw_context_set_cuda_stream: context is NULL"
    library.tw_context_free(context)


def test_results_need_a_place() -> None:
    library, null = _library.load(), None
    for call, told in {
        lambda: library.tw_context_new(1, null): "tw_context_new: context is NULL",
        lambda: library.tw_operator_find(b"exp", null): "tw_operator_find: op is NULL",
        lambda: library.tw_operator_find(null, null): "tw_operator_find: name is NULL",
        lambda: library.tw_infer(null, null, 0, null): "tw_infer: op is NULL",
        lambda: library.tw_call_reference(null, null, 0, null, null): "reference: op is NULL",
        lambda: library.tw_context_set_cuda_allocator(*[null] * 4): "allocator: context is NULL",
        lambda: library.tw_cuda_state(0, null): "tw_cuda_state: state is NULL",
    }.items():
        assert call() == 1
        assert told in library.tw_last_error().decode()
