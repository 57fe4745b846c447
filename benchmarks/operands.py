"""The arguments that calls are measured on, and whether these come from memory or the caches."""

from __future__ import annotations

from typing import Any

import torch
from cases import Case

ROTATED_BYTES = 16 << 20  # calls that touch less are measured in the caches
CACHES = 3  # times the last cache: what is read in turn, so that nothing is left of the last time
MOST_BYTES = 1 << 30
MOST_COPIES = 1000  # of calls that make much of little
# What a model keeps in memory between two calls, unlike what the call before has just written.
KEPT = {"b", "ckv", "ckv_pages", "k", "k_pages", "kpe", "kpe_pages", "packed", "v", "v_pages",
        "weight"}  # fmt: skip


def dtype_of(case: Case) -> str:
    """The dtype of the numbers that it computes with."""
    floats = [name for name in case.dtypes if name[0] == "f" or name == "bf16"]
    return floats[0] if floats else next(iter(case.dtypes), case.op.inputs[0].type)


def trained(case: Case) -> list[int]:
    """Positions of the inputs that have a gradient."""
    steps = case.op.gradient.steps if case.op.gradient else ()
    found = {name for step in steps for name in step.results}
    return [i for i, arg in enumerate(case.op.inputs) if f"{arg.name}.grad" in found]


def is_trained(case: Case) -> bool:
    """Whether it has a gradient, with the optional tensors and choices that it takes."""
    conditions = case.op.gradient.conditions if case.op.gradient else {}
    words = dict(word.partition("=")[::2] for word in case.text.split())
    fits = (
        f"+{name}" not in words if value == "absent" else words.get(name, value) == value
        for name, value in conditions.items()
    )
    return bool(trained(case)) and all(fits)


def prepared(case: Case, backend: str, training: bool) -> list[Any]:
    """Arguments of one call; for training those that have a gradient ask for it."""
    given = case.arguments()
    if backend == "cuda":
        given = [a.cuda() if isinstance(a, torch.Tensor) else a for a in given]
    for i in trained(case) if training else ():
        if given[i] is not None:
            given[i].requires_grad_()
    return given


def last_cache(env: dict[str, Any], backend: str) -> int:
    """Bytes of the last cache before memory."""
    if backend == "cuda":
        return torch.cuda.get_device_properties().L2_cache_size
    size: int = env.get("cpu", {}).get("l3_bytes") or 32 << 20
    return size


def copies(case: Case, given: list[Any], cache: int) -> int:
    """How many arguments to call in turn.

    One where all would be in a model's caches, too; as many as hold several times the last cache
    where the call is large, or most that it touches is weights or keys and values.
    """
    _, touched = case.cost()
    sizes = {
        arg.name: value.nbytes
        for arg, value in zip(case.op.inputs, given, strict=True)
        if isinstance(value, torch.Tensor)
    }
    kept = min(sum(size for name, size in sizes.items() if name in KEPT), touched)
    if touched < ROTATED_BYTES and kept <= touched / 2:
        return 1
    whole = max(1, sum(sizes.values()))
    read = max(1, min(whole, touched))  # of a table it may be less than there is
    return 1 + int(min(CACHES * cache / read, MOST_BYTES / whole, MOST_COPIES))


def is_from_memory(touched: float, count: int, cache: int) -> bool:
    """Whether calls on so many arguments in turn find nothing that they touch in the last cache."""
    return count * touched >= 2 * cache


def _elsewhere(value: Any) -> Any:
    """The same numbers in other memory: to draw new ones takes longer than to measure."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def operands(case: Case, cache: int, backend: str, training: bool) -> list[list[Any]]:
    """Arguments for the call, several times over if they come from memory."""
    first = prepared(case, backend, training)
    count = copies(case, first, cache)
    return [first, *([_elsewhere(value) for value in first] for _ in range(1, count))]
