"""The catalog in Python's terms: arguments, signatures, shapes of outputs."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright import _library


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument as its schema declares it."""

    name: str
    kind: str  # tensor, float, int, bool, choice or text
    type: str
    dims: tuple[str, ...]
    output: bool
    optional: bool
    default: str

    @property
    def is_int_list(self) -> bool:
        """Whether it is a short list of integers, read on the host: `i64[N]`."""
        fixed = self.kind == "tensor" and self.type == "i64" and len(self.dims) == 1
        return fixed and not self.output and not self.optional and self.dims[0].isalpha()

    @property
    def default_value(self) -> Any:
        """The Python default; inspect.Parameter.empty where there is none."""
        if not self.default:
            return None if self.optional else inspect.Parameter.empty
        if self.kind == "bool":
            return self.default in ("true", "1")
        if self.kind == "text":
            return self.default[1:-1]  # in quotes
        return {"float": float, "int": int}.get(self.kind, str)(self.default)

    @property
    def choices(self) -> tuple[str, ...]:
        """The names of a choice."""
        return tuple(part.strip() for part in self.type.split("|"))


@dataclasses.dataclass(frozen=True)
class Value:
    """What a step of a gradient passes to an argument."""

    parameter: str
    name: str  # empty for a number
    number: str
    grad: bool
    transposed: bool
    matrix: bool
    shape: bool
    inverse: bool
    negated: bool

    @property
    def key(self) -> str:
        """The name of the tensor that it is made of."""
        return self.name + ".grad" * self.grad


@dataclasses.dataclass(frozen=True)
class Step:
    """One call of an operator in a gradient; without an operator, a value that is a result."""

    op: str
    inputs: tuple[Value, ...]
    results: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Gradient:
    """How the gradient of an operator is computed by others: tilewright/ops/core/gradient.h."""

    text: str
    conditions: dict[str, str]
    steps: tuple[Step, ...]


@dataclasses.dataclass(frozen=True)
class Operator:
    """One operator of the catalog."""

    name: str
    schema: str
    arguments: tuple[Argument, ...]
    dtypes: tuple[dict[str, str], ...]
    reference_dtypes: tuple[dict[str, str], ...]  # answered by the definition, for want of a kernel
    gradient: Gradient | None
    on_cuda: bool  # the library has kernels for GPUs
    sequences: str  # the argument whose offsets tell which rows are written; empty: all are
    tolerance_scale: float
    gpu_tolerance_scale: float
    edge_cases: tuple[tuple[str, str], ...]
    workloads: tuple[tuple[str, str], ...]
    is_full: bool = False  # optional outputs are results, too

    @property  # not cached: torch.compile traces it
    def call_name(self) -> str:
        """What a call of it is named: `mla`, or `mla.full` with its optional outputs."""
        return f"{self.name}.full" if self.is_full else self.name

    @functools.cached_property
    def inputs(self) -> tuple[Argument, ...]:
        """Arguments that are not outputs."""
        return tuple(arg for arg in self.arguments if not arg.output)

    @functools.cached_property
    def outputs(self) -> tuple[Argument, ...]:
        """Required and optional outputs."""
        return tuple(arg for arg in self.arguments if arg.output)

    @functools.cached_property
    def required_outputs(self) -> tuple[Argument, ...]:
        """Outputs that every call has."""
        return tuple(arg for arg in self.outputs if self.is_full or not arg.optional)

    def infer(
        self, shapes: Mapping[str, Sequence[Any]], numbers: Mapping[str, Any]
    ) -> list[list[Any]] | None:
        """Shapes of all outputs, as the schema has them; sizes may be symbolic.

        Args:
            shapes: of the tensors.
            numbers: the other arguments, of which some are sizes.

        Returns:
            None when a size follows from something else.
        """
        bound: dict[str, Any] = {}
        for arg in self.inputs:
            if arg.kind == "int":
                bound[arg.name] = numbers[arg.name]
            shape = shapes.get(arg.name)
            if shape is None or arg.kind != "tensor":
                continue
            if arg.dims == ("...",):
                bound["..."] = _broadcast(bound.get("...", ()), shape)
                continue
            lead = len(shape) - len(arg.dims) + 1 if arg.dims[:1] == ("*",) else 0
            if arg.dims[:1] == ("*",):
                bound.setdefault("*", tuple(shape[:lead]))
            named = arg.dims[1:] if arg.dims[:1] == ("*",) else arg.dims
            for dim, size in zip(named, shape[lead:], strict=True):
                factor, _, name = dim.rpartition("*")
                if not name.isdigit():
                    bound.setdefault(name, size // int(factor) if factor else size)
        try:
            return [_output_shape(arg.dims, bound) for arg in self.outputs]
        except KeyError:
            return None


# C, C/group_size or C/group_size+1
_SIZE = re.compile(r"(\w+)(?:/(\w+))?(?:\+(\d+))?")


def _output_shape(dims: tuple[str, ...], bound: dict[str, Any]) -> list[Any]:
    shape: list[Any] = []
    for dim in dims:
        if dim in ("*", "..."):
            shape.extend(bound[dim])
            continue
        factor, _, rest = dim.rpartition("*")
        name, divisor, more = _SIZE.fullmatch(rest).groups()  # type: ignore[union-attr]
        size = int(name) if name.isdigit() else bound[name]
        if divisor:  # rounded up
            size = -(-size // bound[divisor])
        shape.append((size * int(factor) if factor else size) + int(more or 0))
    return shape


def _broadcast(a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, ...]:
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    out = list(longer)
    for d, size in enumerate(shorter, len(longer) - len(shorter)):
        if out[d] == 1:
            out[d] = size
    return tuple(out)


def _gradient(entry: dict[str, Any]) -> Gradient:
    steps = (
        Step(
            op=step["op"],
            inputs=tuple(Value(**value) for value in step["inputs"]),
            results=tuple(step["results"]),
        )
        for step in entry["steps"]
    )
    return Gradient(entry["text"], entry["conditions"], tuple(steps))


def _operator(entry: dict[str, Any]) -> Operator:
    arguments = []
    for arg in entry["arguments"]:
        dims = tuple(dim.strip() for dim in arg["dims"].split(",")) if arg["dims"] else ()
        arguments.append(Argument(**{**arg, "dims": dims}))
    return Operator(
        name=entry["name"],
        schema=entry["schema"],
        arguments=tuple(arguments),
        dtypes=tuple(entry["dtypes"]),
        reference_dtypes=tuple(entry["reference_dtypes"]),
        gradient=_gradient(entry["gradient"]) if entry["gradient"] else None,
        on_cuda=entry["on_cuda"],
        sequences=entry["sequences"],
        tolerance_scale=entry["tolerance_scale"],
        gpu_tolerance_scale=entry["gpu_tolerance_scale"],
        edge_cases=tuple((case["label"], case["case"]) for case in entry["edge_cases"]),
        workloads=tuple((case["label"], case["case"]) for case in entry["workloads"]),
    )


@functools.cache
def operators() -> dict[str, Operator]:
    """All operators by name, in the catalog's order."""
    return {entry["name"]: _operator(entry) for entry in _library.catalog()}


def find(name: str) -> Operator:
    """An operator by name.

    Raises:
        ValueError: there is none; the message names close ones.
    """
    if name not in operators():
        _library.operator_handle(name)  # raises
    return operators()[name]


@functools.cache
def full(name: str) -> Operator:
    """An operator whose optional outputs are results, too."""
    return dataclasses.replace(find(name), is_full=True)


Function = Callable[..., Any]
