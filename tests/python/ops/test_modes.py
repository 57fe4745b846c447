"""Every operator, in its richest case, where PyTorch changes what a call means."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import tilewright.torch  # noqa: F401 - registers the operators
import torch
from cases import Case, as_bits, every_case, on_devices, overload, results
from tilewright._autocast import LOSSES, PRODUCTS

EACH = on_devices([case for case in every_case() if case.is_last and case.combo == 0])
CAST = {torch.float32, torch.float16, torch.bfloat16}
each_operator = pytest.mark.parametrize(("case", "device"), EACH, ids=str)


class Holding(torch.nn.Module):
    """A call whose tensors are the module's."""

    def __init__(self, case: Case, arguments: list[Any]) -> None:
        super().__init__()
        self.function = overload(case)
        self.rest = [None if isinstance(value, torch.Tensor) else value for value in arguments]
        for i, value in enumerate(arguments):
            if isinstance(value, torch.Tensor):
                self.register_buffer(f"argument_{i}", value)

    def forward(self) -> Any:
        own = dict(self.named_buffers())
        return self.function(*(own.get(f"argument_{i}", v) for i, v in enumerate(self.rest)))


def assert_same(got: Any, want: Any) -> None:
    for g, w in zip(results(got), results(want), strict=True):
        assert g.dtype == w.dtype
        assert torch.equal(as_bits(g), as_bits(w))


@each_operator
def test_inference_mode(case: Case, device: str) -> None:
    arguments = case.arguments(device=device)
    want = overload(case)(*arguments)
    with torch.inference_mode():
        got = overload(case)(*arguments)
        assert all(result.is_inference() for result in results(got))
        assert_same(got, want)


@each_operator
def test_modules_are_copied_and_called_with_others(case: Case, device: str) -> None:
    arguments, others = (case.arguments(seed=seed, device=device) for seed in (1, 2))
    module = Holding(case, arguments)
    twin = copy.deepcopy(module)
    assert_same(twin(), overload(case)(*arguments))
    given = dict(Holding(case, others).named_buffers())
    want = Holding(case, [o if isinstance(o, torch.Tensor) else a
                          for a, o in zip(arguments, others, strict=True)])()  # fmt: skip
    assert_same(torch.func.functional_call(module, given), want)
    assert_same(module(), twin())


@each_operator
def test_autocast(case: Case, device: str) -> None:
    """Products in its dtype, losses in float32, the rest as they are: as if the caller had cast."""
    arguments = case.arguments(device=device)
    name, lower = case.op.name, torch.bfloat16
    dtype = lower if name in PRODUCTS else torch.float32 if name in LOSSES else None

    def cast(i: int, value: Any) -> Any:
        is_variable = case.op.inputs[i].type[0].isupper()
        if dtype is None or not is_variable or not isinstance(value, torch.Tensor):
            return value
        return value.to(dtype) if value.dtype in CAST else value

    want = overload(case)(*(cast(i, value) for i, value in enumerate(arguments)))
    with torch.autocast(device, lower):
        got = overload(case)(*arguments)
    assert_same(got, want)
