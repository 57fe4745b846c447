"""The C interface as a C program sees it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

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
