"""Fake functions refuse what kernels refuse, before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import tilewright.torch  # makes torch.ops.tilewright
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import tilewright

OPS = torch.ops.tilewright


# Devices, and what makes tensors on them that have no numbers.
MODES = [("meta", nullcontext), ("cpu", FakeTensorMode)]

REFUSED: dict[str, tuple[Callable[[torch.Tensor], Any], type[Exception], str]] = {
    "dtype": (lambda x: OPS.exp(x.int()), NotImplementedError, "nothing takes T: torch.int32"),
    "dtype for an output": (
        lambda x: OPS.exp.out(x.int(), out=x.int()),
        NotImplementedError,
        "nothing takes T: torch.int32",
    ),
    "dtypes that differ": (
        lambda x: OPS.add(x, x.half()),
        ValueError,
        r"other is f16\[2, 3\]@{device}",
    ),
    "size": (
        lambda x: OPS.rms_norm(x, x.new_empty(5)),
        ValueError,
        r"weight is f32\[5\]@{device}, but C = 3",
    ),
    "dimension": (
        lambda x: OPS.softmax(x, 7),
        ValueError,
        r"not a dimension of f32\[2, 3\]@{device}",
    ),
    "rank of an output": (
        lambda x: OPS.exp.out(x, out=x.new_empty(3)),
        ValueError,
        r"out is \[3\]@{device}, but \[2, 3\] is needed",
    ),
    "size of an output": (
        lambda x: OPS.exp.out(x, out=x.new_empty(2, 4)),
        ValueError,
        r"out is \[2, 4\]@{device}, but \[2, 3\] is needed",
    ),
    "dtype of an output": (
        lambda x: OPS.exp.out(x, out=x.half()),
        ValueError,
        "out is torch.float16, but torch.float32 is needed",
    ),
    "size of an optional output": (
        lambda x: OPS.cross_entropy.out(
            x, x.new_empty(2).long(), loss=x.new_empty(()), lse=x.new_empty(3)
        ),
        ValueError,
        r"lse is \[3\]@{device}",
    ),
}


@pytest.mark.parametrize("refused", REFUSED)
@pytest.mark.parametrize(("device", "mode"), MODES)
def test_refusals(refused: str, device: str, mode: Any) -> None:
    call, kind, text = REFUSED[refused]
    with mode(), pytest.raises(kind, match=text.format(device=device)):
        call(torch.empty(2, 3, device=device))


def test_candidates_are_listed() -> None:
    with pytest.raises(NotImplementedError, match="Candidates: cpu: not for these dtypes"):
        tilewright.ops.exp(torch.empty(2, 3, device="meta", dtype=torch.int32))


@pytest.mark.parametrize("columns", [3, 4])
def test_compiled_graphs_check_outputs_of_symbolic_sizes(columns: int) -> None:
    torch._dynamo.reset()

    def into(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        OPS.exp.out(x, out=out)
        return out + 1

    compiled = torch.compile(into, fullgraph=True, dynamic=True, backend="aot_eager")
    x, out = torch.randn(2, 3), torch.empty(2, columns)
    if columns == 3:
        torch.testing.assert_close(compiled(x, out), x.exp() + 1)
    else:
        with pytest.raises(RuntimeError, match=r"exp: out has a size of s\d+, but s\d+ is needed"):
            compiled(x, out)
