"""What a pass costs: the sum over the calls that it makes of the library's operators.

The forward pass is one call, and its case says what that costs. Gradients are made of several
operators; the library tells of each, wherever it runs, and each is a case of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cases import Case

from tilewright import _arrays, _library, _schema

WANTED = 5  # TW_ALLOCATE: an optional output that was not given, but made


def cost_of_calls(run: Callable[[], Any]) -> tuple[float, float] | None:
    """Operations, and bytes read and written; None where some call's cost cannot be told."""
    found: list[Case | None] = []
    library = _library.load()
    observer = _library.Observer(lambda answer: found.append(_case(answer.contents)))
    library.tw_observe(observer)
    try:
        run()
    finally:
        library.tw_observe(_library.Observer())
    costs = []
    for case in found:
        if case is None:
            return None
        costs.append(case.cost())
    return (sum(flops for flops, _ in costs), sum(size for _, size in costs)) if costs else None


def _case(answer: Any) -> Case | None:
    """A call as a case; None for dtypes without a kernel."""
    op = _schema.find(_library.load().tw_operator_name(answer.op).decode())
    words: dict[str, str] = {}  # by name
    optional = []
    given: dict[str, str] = {}  # dtypes by type variable
    for arg, value in zip(op.arguments, answer.arguments[: answer.count], strict=False):
        if value.kind == _library.ABSENT:
            continue
        if arg.kind != "tensor":
            words[arg.name] = _number(value)
            continue
        if arg.optional:
            optional.append("+" + arg.name)
        if value.kind != WANTED and not arg.output:
            view = value.payload.tensor.contents
            name = _arrays.NAMES[view.dtype.code, view.dtype.bits]
            given[arg.type] = next(short for short, long in _arrays.DTYPES.items() if long == name)
            _bind(arg, view.shape[: view.rank], words)
    text = " ".join([f"{name}={word}" for name, word in words.items() if word] + optional)
    for combo, dtypes in enumerate(op.dtypes):
        if all(given.get(name, dtype) == dtype for name, dtype in dtypes.items()):
            return Case(op, combo, "observed", text)
    return None


def _number(value: _library.Value) -> str:
    if value.kind == _library.TEXT:
        return str(value.payload.text.decode().replace(" ", ""))
    return repr(value.payload.f64) if value.kind == _library.FLOAT else str(value.payload.i64)


def _bind(arg: _schema.Argument, shape: list[int], words: dict[str, str]) -> None:
    """The sizes that a tensor gives to the names of its schema."""
    if arg.dims == ("...",):
        words[arg.name] = "[" + ",".join(map(str, shape)) + "]"
        return
    lead = len(shape) - len(arg.dims) + 1 if arg.dims[:1] == ("*",) else 0
    if arg.dims[:1] == ("*",):
        words.setdefault("*", "x".join(map(str, shape[:lead])))
    for dim, size in zip(arg.dims[lead > 0 or arg.dims[:1] == ("*",) :], shape[lead:], strict=True):
        factor, _, name = dim.rpartition("*")
        if name.isidentifier():
            words.setdefault(name, str(size // int(factor or 1)))
