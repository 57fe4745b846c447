"""Whether what is to be timed computes what its operator means."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from cases import Case, assert_close, results
from peers import PEER_OF

import tilewright

CHECKED_FLOPS = 4e9  # the float64 definition of more takes too long to wait for
PEER_TOLERANCE = 8  # times ours: composites round between their steps
# A gradient is rounded more than once: in the forward, whose result is used, and after it.
GRADIENT_TOLERANCE = 4

Call = Callable[..., Any]


def mismatch(case: Case, got: Any, want: Any, times: float) -> str:
    """What does not match within so many times the tolerance, if anything."""
    try:
        for g, w in zip(results(got), results(want), strict=True):
            assert_close(g, w, times * case.tolerance(w.dtype))
    except AssertionError as error:
        return str(error) or "another shape or dtype"
    return ""


def gradients_of(call: Call) -> Call:
    """Forward and backward of a call: its gradients, for the same gradients of its results."""
    given: dict[Any, torch.Tensor] = {}

    def gradient_of(result: torch.Tensor) -> torch.Tensor:
        key = (result.shape, result.dtype, result.device)
        if key not in given:
            random = torch.Generator().manual_seed(3)
            wide = torch.randn(result.shape, generator=random)
            # The same number in every dtype.
            given[key] = wide.bfloat16().to(result.device, result.dtype)
        return given[key]

    def run(*arguments: Any) -> tuple[torch.Tensor, ...]:
        made = [r for r in results(call(*arguments)) if r.requires_grad]
        leaves = [a for a in arguments if isinstance(a, torch.Tensor) and a.requires_grad]
        return torch.autograd.grad(made, leaves, [gradient_of(r) for r in made])

    return run


def gradients_in_double(case: Case, arguments: list[Any]) -> tuple[torch.Tensor, ...]:
    """PyTorch's gradients of the same function in float64, rounded once."""
    wide = [
        a.detach().double().requires_grad_(a.requires_grad)
        if isinstance(a, torch.Tensor) and a.is_floating_point()
        else a
        for a in arguments
    ]
    leaves = [a for a in arguments if isinstance(a, torch.Tensor) and a.requires_grad]
    found = gradients_of(PEER_OF[case.op.name])(*wide)
    return tuple(g.to(leaf.dtype) for g, leaf in zip(found, leaves, strict=True))


def in_double(case: Case, arguments: list[Any], training: bool) -> Any:
    """What the operator means by its definition, or its gradients by PyTorch's."""
    if training:
        return gradients_in_double(case, arguments)
    return getattr(tilewright.ops, case.op.name)(*arguments, backend="reference")


def slack(training: bool) -> float:
    """Times the tolerance of the definition."""
    return GRADIENT_TOLERANCE if training else 1


def smaller(case: Case) -> Iterator[Case]:
    """Calls of the same operator that its definition can be waited for, the most alike first."""
    flops, _ = case.cost()
    words = case.text.split()
    for i, word in enumerate(words):
        name, _, size = word.partition("=")
        if not re.fullmatch(r"[A-Z*][a-z]?", name) or not size.isdigit():
            continue
        less = max(1, int(int(size) * CHECKED_FLOPS / flops))
        text = " ".join([*words[:i], f"{name}={less}", *words[i + 1 :]])
        yield Case(case.op, case.combo, f"{case.label}, {name}={less}", text)
    yield Case(case.op, case.combo, *case.op.edge_cases[-1])


def check_smaller(
    case: Case, call: Call, prepare: Callable[[Case], list[Any]], training: bool
) -> dict[str, str]:
    """As `check`, by a smaller call of the same operator."""
    for other in smaller(case):
        try:
            if other.cost()[0] > CHECKED_FLOPS:
                continue
            given = prepare(other)
            want = in_double(other, given, training)
        except (ValueError, TypeError, NotImplementedError):
            continue  # sizes that do not fit each other
        found = mismatch(other, call(*given), want, slack(training))
        return {"checked": "a smaller call", "checked_case": other.text, "mismatch": found}
    return {"checked": "not", "mismatch": ""}


def check(
    case: Case,
    given: list[Any],
    got: Any,
    call: Call,
    peer: Call | None,
    prepare: Callable[[Case], list[Any]],
    training: bool,
) -> dict[str, str]:
    """What the results of a call were compared with, and what does not match.

    Args:
        case: the workload.
        given: its arguments.
        got: the results.
        call: what gave them.
        peer: the same work in PyTorch, if it can do that.
        prepare: makes the arguments of a case.
        training: whether the results are gradients.
    """
    if case.cost()[0] <= CHECKED_FLOPS:
        found = mismatch(case, got, in_double(case, given, training), slack(training))
        return {"checked": "torch in float64" if training else "definition", "mismatch": found}
    if peer is not None:
        found = mismatch(case, got, peer(*given), PEER_TOLERANCE)
        return {"checked": "torch", "mismatch": found}
    return check_smaller(case, call, prepare, training)
