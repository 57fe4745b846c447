"""Reductions and their like over a dimension in the middle of a tensor that has no elements."""

from __future__ import annotations

import pytest
import tilewright.torch  # noqa: F401 - registers the operators
import torch
from cases import DEVICES, results

from tilewright import _schema

OPS = torch.ops.tilewright


def functions(op: _schema.Operator) -> list[dict[str, str]]:
    """The operator's choices of a function: mostly none."""
    return [{"function": choice} for arg in op.inputs if arg.name == "function"
            for choice in arg.choices] or [{}]  # fmt: skip


OF_ONE = [
    (op.name, given)
    for op in _schema.operators().values()
    if op.inputs[0].name == "x"
    and "dim" in [arg.name for arg in op.inputs]
    and not op.name.endswith("_backward")
    for given in functions(op)
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "given"), OF_ONE, ids=str)
@pytest.mark.parametrize("shape", [(0, 5, 9), (0, 5, 300), (4, 5, 0), (0, 3000, 64)])
def test_nothing_to_reduce(
    name: str, given: dict[str, str], shape: tuple[int, ...], device: str
) -> None:
    x = torch.empty(shape, device=device)
    for got in results(getattr(OPS, name)(x, dim=1, **given)):
        assert got.numel() == 0
        assert got.shape in (x.shape, x.sum(1).shape)


def test_there_are_some() -> None:
    assert {"sum", "mean", "softmax", "var_mean", "reduce"} <= {name for name, _ in OF_ONE}
