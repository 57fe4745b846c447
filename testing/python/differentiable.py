"""Cases of operators with gradients, and their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from cases import Case, every_case, results

Tensor = torch.Tensor


# Tables, and what only selects: of these nobody asks the gradient.
CONSTANT = {"rope": ("cos", "sin"), "moe_topk": ("bias",)}
# What a negative argument has no value of, or no slope.
OF_POSITIVE = {"sqrt", "rsqrt", "log1p", "pow"}
MAX_ELEMENTS = 30_000


def has_rule(case: Case, arguments: list[Any]) -> bool:
    """Whether the operator has a gradient where its scalars and optional tensors are these."""
    if not any(a.is_floating_point() for a in arguments if isinstance(a, Tensor)):
        return False
    if case.op.name in ("attention", "attention_varlen") and len(set(case.dtypes)) > 1:
        return False
    named = dict(zip((arg.name for arg in case.op.inputs), arguments, strict=True))
    given = {
        name: "absent" if value is None or value == "" else str(value)
        for name, value in named.items()
        if not isinstance(value, Tensor)
    }
    return all(given.get(name) == value for name, value in case.op.gradient.conditions.items())


def sizes(case: Case) -> list[int] | None:
    """How many elements its tensors have; None where it has no gradient, or too many of them."""
    if not case.op.gradient:
        return None
    arguments = case.arguments()
    found = [a.numel() for a in arguments if isinstance(a, Tensor)]
    return found if sum(found) < MAX_ELEMENTS and has_rule(case, arguments) else None


# Known once: to make all arguments takes a second, and each worker collects the tests.
SIZES = {str(c): found for c in every_case() if (found := sizes(c)) is not None}
CASES = [c for c in every_case() if str(c) in SIZES]


def elements(case: Case) -> int:
    """Of all its tensors."""
    return sum(SIZES[str(case)])


# Small enough to be differentiated element by element.
SMALL = [c for c in CASES if c.combo == 0 and elements(c) < 200 and 0 not in SIZES[str(c)]]
FEW = {c.op.name: max((s for s in SMALL if s.op is c.op), key=elements) for c in SMALL}


def function_of(case: Case) -> str:
    """Which of an operator's functions a case asks for, if there are several."""
    return case.text.partition("function=")[2].split(" ")[0]


# The same for each function.
EACH = {(c.op.name, function_of(c)): c for c in sorted(SMALL, key=elements)}


def in_float64(case: Case) -> bool:
    """Whether the operator answers in float64."""
    combos = (*case.op.dtypes, *case.op.reference_dtypes)
    return any("f64" in combo.values() for combo in combos)


def ready(case: Case, dtype: torch.dtype | None = None, device: str = "cpu") -> list[Any]:
    """Arguments whose gradient is asked for where the operator has one, in float64 if wanted."""
    out = []
    is_positive = case.op.name == "log" or function_of(case) in OF_POSITIVE
    for arg, value in zip(case.op.inputs, case.arguments(device=device), strict=True):
        if isinstance(value, Tensor) and value.is_floating_point():
            constant = arg.name in CONSTANT.get(case.op.name, ())
            if is_positive:
                value = value.abs() + 0.25
            if dtype is not None and arg.type[0].isupper():
                value = value.to(dtype)
            elif dtype is not None:
                constant = True
            value = value.requires_grad_(not constant)
        out.append(value)
    return out


def gradients(function: Callable[..., Any], arguments: list[Any], seed: int = 3) -> list[Any]:
    """Gradients of all that ask for one, for random gradients of the results."""
    made = [r for r in results(function(*arguments)) if r.requires_grad]
    torch.manual_seed(seed)
    given = [torch.randn(r.shape, dtype=torch.float64).bfloat16().to(r) for r in made]
    wanted = [a for a in arguments if isinstance(a, Tensor) and a.requires_grad]
    return list(torch.autograd.grad(made, wanted, given, materialize_grads=True))
