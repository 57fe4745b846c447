"""The C interface as a C program sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
