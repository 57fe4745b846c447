#!/usr/bin/env python3
"""Writes python/tilewright/ops.pyi, the types of every operator's function, from the catalog.

Example:
    TILEWRIGHT_LIBRARY_DIR=build/release python3 tools/python_stubs.py
    TILEWRIGHT_LIBRARY_DIR=build/release python3 tools/python_stubs.py --check
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / "python"
sys.path.insert(0, str(PYTHON))

from tilewright import _schema, ops  # noqa: E402 - from the source tree

STUB = PYTHON / "tilewright" / "ops.pyi"
HEAD = '''"""Every operator of the catalog. Written by tools/python_stubs.py; do not edit."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeVar

class _DLPack(Protocol):
    @property
    def __dlpack__(self) -> Any: ...

_Array = TypeVar("_Array", bound=_DLPack)

'''


def annotation(arg: _schema.Argument, first: bool) -> str:
    """The type of one argument: the first array gives the kind of the result."""
    if arg.is_int_list:
        return "Sequence[int]"
    if arg.kind == "choice":
        names = ", ".join(f'"{choice}"' for choice in arg.choices)
        return f"Literal[{names}]"
    if arg.kind != "tensor":
        return {"text": "str"}.get(arg.kind, arg.kind)
    array = "_Array" if first else "Any"
    return f"{array} | None" if arg.optional else array


STRUCT = re.compile(r"((?:^///.*\n)*)^(?:template .*\n)?struct \w+", re.M)
SCHEMA = re.compile(r'kSchema\{\s*"(\w+)\(')
NUMPY = {"f32": "float32", "i32": "int32", "i64": "int64", "bool": "bool", "i8": "int8"}


def descriptions() -> dict[str, str]:
    """What each operator computes, as the headers say it."""
    out = {}
    for path in sorted((ROOT / "tilewright" / "ops").glob("*.h")):
        text = path.read_text()
        structs = list(STRUCT.finditer(text))
        ends = [*(struct.start() for struct in structs), len(text)][1:]
        for struct, end in zip(structs, ends, strict=True):
            lines = [line.removeprefix("///").strip() for line in struct[1].splitlines()]
            for name in SCHEMA.findall(text, struct.end(), end):
                out[name] = " ".join(lines).replace("Throws kInvalidArgument", "ValueError")
    return out


# Of operators whose arguments must fit each other in a way that their schemas do not tell.
E4M3 = "torch.zeros(4, 2, 8, dtype=torch.float8_e4m3fn)"
GATED = {"grad": "np.zeros((2, 4), np.float32)", "x": "np.zeros((2, 8), np.float32)"}
ARGUMENTS = {
    "attention_fp8": {
        **dict.fromkeys(("q", "k", "v"), E4M3),
        **dict.fromkeys(("cu_seqlens_q", "cu_seqlens_kv"), "torch.tensor([0, 4]).int()"),
    },
    "cross_entropy_backward": {
        "grad": "np.ones((), np.float32)",
        "target": "np.zeros((4,), np.int64)",
        "lse": "np.zeros((4,), np.float32)",
    },
    "dequantize": {"x": "np.zeros((4, 4), np.int8)", "scale": "np.ones((1, 1), np.float32)"},
    "dequantize_int4": {
        "x": "np.zeros((4, 64), np.int8)",
        "scale": "np.ones((4, 1), np.float32)",
        "zero": "np.zeros((4, 1), np.int8)",
    },
    "fused_experts": {
        "gate_up_proj": "np.zeros((4, 6, 4), np.float32)",
        "down_proj": "np.zeros((4, 4, 3), np.float32)",
    },
    "gelu_and_mul_backward": GATED,
    "gelu_tanh_and_mul_backward": GATED,
    "linear_int4": {
        "x": "np.zeros((2, 128), np.float32)",
        "weight": "np.zeros((3, 64), np.int8)",
        "scale": "np.ones((3, 1), np.float32)",
    },
    "linear_int8": {
        "x": "np.zeros((2, 128), np.float32)",
        "weight": "np.zeros((3, 128), np.int8)",
        "scale": "np.ones((3, 1), np.float32)",
    },
    "linear_packed": {
        "x": "np.zeros((2, 4), np.float32)",
        "packed": "ops.pack_weight(np.zeros((3, 4), np.float32))",
    },
    "linear_quantized": {
        "x": "np.zeros((2, 32), np.float32)",
        "packed": "ops.pack_quantized(np.zeros((3, 18), np.uint8))",
    },
    "moe_topk_backward": {
        "grad": "np.zeros((2, 2), np.float32)",
        "gating": "np.zeros((2, 4), np.float32)",
        "ids": "np.array([[0, 1], [2, 3]], np.int32)",
    },
    "pack_quantized": {"blocks": "np.zeros((3, 18), np.uint8)"},  # 32 numbers of q4_0 in each row
    "permute": {"x": "np.zeros((2, 3), np.float32)", "dims": "[1, 0]"},
    "quantize_fp8": {"x": "torch.zeros(2, 128)"},  # NumPy has no such numbers
    "quantize_int8": {"x": "np.zeros((2, 128), np.float32)"},
    "rope": {
        "x": "np.zeros((1, 2, 3, 8), np.float32)",
        "cos": "np.ones((16, 4), np.float32)",
        "sin": "np.zeros((16, 4), np.float32)",
    },
    "scaled_grouped_gated_matmul": {
        "a": "torch.zeros(2, 128).to(torch.float8_e4m3fn)",
        "b": "torch.zeros(1, 8, 128).to(torch.float8_e4m3fn)",
        "a_scale": "torch.ones(2, 1)",
        "b_scale": "torch.ones(1, 1, 1)",
    },
    "scaled_grouped_matmul": {
        "a": "np.zeros((2, 128), np.int8)",
        "b": "np.zeros((1, 4, 128), np.int8)",
        "a_scale": "np.ones((2, 1), np.float32)",
        "b_scale": "np.ones((1, 1, 1), np.float32)",
    },
    "scaled_grouped_matmul_unpermute": {
        "a": "torch.zeros(2, 128).to(torch.float8_e4m3fn)",
        "b": "torch.zeros(1, 4, 128).to(torch.float8_e4m3fn)",
        "a_scale": "torch.ones(2, 1)",
        "b_scale": "torch.ones(1, 1, 1)",
    },
    "silu_and_mul_backward": GATED,
    "transpose": {"x": "np.zeros((2, 3), np.float32)"},
    "type_as": {"other": "np.zeros((3,), np.float16)"},
}


# What functions take beyond their schemas.
_RANKS = "Arrays of one, two or more dimensions are multiplied as torch.matmul does, by views."
NOTES = {"int_matmul": _RANKS, "matmul": _RANKS}


def given_to(op: _schema.Operator) -> list[str]:
    """The arguments of a call with small arrays, as they are written; none where none is simple."""
    known, shown = ARGUMENTS.get(op.name, {}), []
    for arg in op.inputs:
        type_ = op.dtypes[0].get(arg.type, arg.type)
        if arg.name in known:
            shown.append(known[arg.name])
        elif arg.default or arg.optional:
            break
        elif arg.kind == "choice":
            shown.append(f'"{arg.choices[0]}"')
        elif arg.kind != "tensor":
            shown.append({"int": "2", "float": "0.5", "bool": "False"}[arg.kind])
        elif arg.is_int_list or type_ not in NUMPY:
            return []
        else:
            shape = tuple({"*": 2, "...": 3, "2": 2}.get(dim, 4) for dim in arg.dims)
            shown.append(f"np.zeros({shape}, np.{NUMPY[type_]})")
    return shown


def example(op: _schema.Operator) -> list[str]:
    """A call with small arrays, and the shape of its result; nothing where none is simple."""
    shown = given_to(op)
    if not shown:
        return []
    written = ", ".join(shown)
    library = "torch" if "torch." in written else "numpy as np"
    names = {"np": np, "ops": ops, "torch": torch}
    made: Any = eval(f"ops.{op.name}({written})", names)
    first = "[0]" if isinstance(made, tuple) else ""
    shape = made[0].shape if first else made.shape
    call = [f">>> ops.{op.name}(", *(f"...     {array}," for array in shown), f"... ){first}.shape"]
    if len(shown) == 1:
        call = [f">>> ops.{op.name}({shown[0]}){first}.shape"]
    lines = [f">>> import {library}", ">>> from tilewright import ops", *call, str(shape)]
    return ["Example:", *(f"    {line}" for line in lines)]


def docstring(op: _schema.Operator, description: str) -> str:
    """Of a function: what it computes, its arguments, its results and a call."""
    text = " ".join((description, NOTES.get(op.name, "")))
    lines = textwrap.wrap(text, 92) or [op.name]
    lines += ["", *textwrap.wrap(op.schema, 92), "", "Args:"]
    for arg in op.inputs:
        dims = f"[{', '.join(arg.dims)}]" if arg.kind == "tensor" else ""
        default = f", by default {arg.default}" if arg.default else ""
        optional = ", or None" if arg.optional else ""
        lines.append(f"    {arg.name}: {arg.type.replace('|', ', ')}{dims}{default}{optional}.")
    lines.append("    backend: which one runs it, by default the current one.")
    results = (f"{out.name}: {out.type}[{', '.join(out.dims)}]" for out in op.required_outputs)
    lines += ["", "Returns:", f"    {'; '.join(results)}."]
    more = example(op)
    lines += ["", *more] if more else []
    body = textwrap.indent("\n".join(lines), "    ").strip()
    return '    r"""' + re.sub(r"[ \t]+\n", "\n", body) + '\n    """\n'


def function(op: _schema.Operator, description: str) -> str:
    """The declaration of one function."""
    lines = []
    for i, arg in enumerate(op.inputs):
        default = arg.default_value
        shown = "" if default is inspect.Parameter.empty else f" = {default!r}".replace("'", '"')
        lines.append(f"    {arg.name}: {annotation(arg, i == 0)}{shown},\n")
    count = len(op.required_outputs)
    result = "_Array" if count == 1 else f"tuple[{', '.join(['_Array'] * count)}]"
    parameters = "".join(lines) + "    *,\n    backend: str | None = None,\n"
    return f"def {op.name}(\n{parameters}) -> {result}:\n{docstring(op, description)}\n"


def stub() -> str:
    """The whole file."""
    known = descriptions()
    functions = (function(op, known.get(op.name, "")) for op in _schema.operators().values())
    return HEAD + "".join(functions).rstrip() + "\n"


def main() -> int:
    """Writes the stub, or compares it with --check."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    text = stub()
    if not parser.parse_args().check:
        STUB.write_text(text)
    elif not STUB.exists() or STUB.read_text() != text:
        print(f"{STUB.name} is out of date: run tools/python_stubs.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
