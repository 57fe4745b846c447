"""Backend `torch`: PyTorch's composite of every operator against the operator's definition."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright.torch
import torch
from cases import Case, assert_close, every_case

import tilewright
from tilewright import _functions, _schema, backends, composites, ops

OPERATORS = list(_schema.operators())
# PyTorch sums and multiplies in float32 where the definition does in float64.
LOOSER = 3
composites.load()
FULL = {name for name in composites.COMPOSITES if name.endswith(".full")}


def _cases() -> list[Case]:
    """All of the first combination of dtypes, and of the others the richest."""
    return [
        case
        for case in every_case()
        if not composites.why_none(case.op.name) and (case.combo == 0 or case.is_last)
    ]


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("case", _cases(), ids=str)
def test_as_the_definition(case: Case) -> None:
    """Wherever tensors are made by default: results are where the arguments are."""
    arguments = case.arguments()
    function = getattr(ops, case.op.name)
    with torch.device("meta"):
        try:
            want = function(*arguments, backend="reference")
        except (NotImplementedError, ValueError):
            return  # no call of the operator
        got = function(*arguments, backend="torch")
    wants, gots = (x if isinstance(x, tuple) else (x,) for x in (want, got))
    assert len(wants) == len(gots)
    for one, other in zip(gots, wants, strict=True):
        assert_close(one, other, LOOSER * case.tolerance(other.dtype))


@pytest.mark.parametrize("case", [c for c in _cases() if f"{c.op.name}.full" in FULL], ids=str)
def test_optional_outputs(case: Case) -> None:
    arguments, function = case.arguments(), _functions.full(case.op.name)
    want = function(*arguments, backend="reference")
    got = function(*arguments, backend="torch")
    for one, other in zip(got, want, strict=True):
        assert_close(one, other, LOOSER * case.tolerance(other.dtype))
    for one, other in zip(function(*arguments), want, strict=True):
        assert one.shape == other.shape


def test_composites_without_optional_outputs_say_so() -> None:
    assert not composites.why_none("cross_entropy")
    x, target = torch.randn(2, 3), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(NotImplementedError, match="torch: has no optional outputs"):
        _functions.full("cross_entropy")(x, target, backend="torch")


@pytest.mark.parametrize("op", OPERATORS)
def test_every_operator_has_one_or_says_why_not(op: str) -> None:
    reason = composites.why_none(op)
    assert ("torch" in tilewright.get_available_backends_for_op(op)) == (not reason)
    if not reason:
        assert callable(composites.find(op))


def test_is_explained_and_recorded() -> None:
    x = torch.randn(3, 8, requires_grad=True)
    with tilewright.explain() as e:
        out = ops.rms_norm(x, torch.ones(8), backend="torch")
    assert [record.kernel for record in e.records] == ["rms_norm/torch"]
    out.sum().backward()
    assert x.grad is not None


def test_takes_over_where_the_policy_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(3, 8)
    with tilewright.use_backend("reference"), pytest.raises(NotImplementedError):
        ops.exp(x.clone().requires_grad_())  # the definition has no gradient
    monkeypatch.setenv("TILEWRIGHT_FALLBACK", "torch")
    with tilewright.use_backend("reference"), tilewright.explain() as e:
        ops.exp(x.clone().requires_grad_()).sum().backward()
    assert [(r.backend, r.fallback) for r in e.records] == [("torch", True)]


def test_refuses_what_is_not_pytorchs() -> None:
    with pytest.raises(NotImplementedError, match="torch: takes PyTorch's tensors only"):
        ops.exp(np.zeros(3, np.float32), backend="torch")
    with pytest.raises(NotImplementedError, match="torch: its mask comes from"):
        ops.dropout(torch.zeros(3), backend="torch")


def test_is_a_candidate_where_it_takes_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "cuda_unavailable", lambda: "the fan is loose")
    for array, reason in (
        (torch.zeros(3), "torch: available"),
        (np.zeros(3, np.float32), "torch: takes PyTorch's tensors only"),
    ):
        with pytest.raises(NotImplementedError, match=reason):
            ops.exp(array, backend="cuda")


def test_what_is_registered_comes_first() -> None:
    tilewright.register_impl("exp", "torch", lambda x: x + 1)
    try:
        assert float(ops.exp(torch.ones(1), backend="torch")) == 2
    finally:
        tilewright.unregister_impl("exp", "torch")
    assert float(ops.exp(torch.ones(1), backend="torch")) > 2.7
