"""Functions of scores, as torch.nn.attention.flex_attention takes them, as text for operators.

A function is called once with symbols, which write down what becomes of them
(tilewright/ops/core/score_parser.h has the grammar). Imports PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

Tensor = torch.Tensor


class Numbers:
    """Tensors that functions have captured, one after the other, as mod_f32 and mod_i32."""

    def __init__(self) -> None:
        """None yet."""
        self._parts: dict[str, list[Tensor]] = {"mod_f32": [], "mod_i32": []}
        self._starts: dict[int, int] = {}
        self._kept: list[Tensor] = []  # or another might get the id of one
        self.learn = False  # whether any has a gradient

    def element(self, tensor: Tensor, index: Sequence[Any]) -> Symbol:
        """An element of a captured tensor."""
        if len(index) != tensor.dim():
            raise TypeError(f"a captured tensor {tuple(tensor.shape)} has {len(index)} indices")
        floats = tensor.is_floating_point()
        name = "mod_f32" if floats else "mod_i32"
        if id(tensor) not in self._starts:
            parts = self._parts[name]
            self._starts[id(tensor)] = sum(part.numel() for part in parts)
            self._kept.append(tensor)
            self.learn |= tensor.requires_grad
            parts.append(tensor.detach().reshape(-1).to(torch.float32 if floats else torch.int32))
        at, terms = self._starts[id(tensor)], []
        for d, i in enumerate(index):
            stride = math.prod(tensor.shape[d + 1 :])
            if isinstance(i, Symbol):
                terms.append(i.text if stride == 1 else f"{i.text} * {stride}")
            else:
                at += _place(i, tensor.shape[d]) * stride
        text = f"{name}[{' + '.join([*terms, str(at)] if at or not terms else terms)}]"
        return Symbol(f"({text} != 0)" if tensor.dtype == torch.bool else text)

    def tensors(self, device: torch.device) -> dict[str, Tensor]:
        """The arguments of the operator."""
        return {
            name: (parts[0] if len(parts) == 1 else torch.cat(parts)).to(device)
            for name, parts in self._parts.items()
            if parts
        }


def _place(index: Any, size: int) -> int:
    number = int(index)
    if not -size <= number < size:
        raise IndexError(f"index {number} of a dimension of {size}")
    return number % size


def _text(value: Any) -> str:
    if isinstance(value, Symbol):
        return value.text
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return str(value) if value >= 0 else f"({value})"
    if isinstance(value, float):
        if math.isnan(value):
            raise TypeError("a score_mod may not write NaN")
        return repr(value) if value >= 0 else f"({value!r})"
    raise TypeError(f"{type(value).__name__} in a score_mod or mask_mod cannot be traced")


def _infix(operator: str) -> Callable[[Any, Any], Symbol]:
    return lambda a, b: Symbol(f"({_text(a)} {operator} {_text(b)})")


def _named(name: str) -> Callable[..., Symbol]:
    return lambda *given: Symbol(f"{name}({', '.join(map(_text, given))})")


def _power(a: Any, b: Any) -> Symbol:
    if isinstance(b, (int, float)) and b in (1, 2, 3, 4):
        return Symbol("(" + " * ".join([_text(a)] * int(b)) + ")")
    if isinstance(b, float) and b == 0.5:
        return Symbol(f"sqrt({_text(a)})")
    if isinstance(a, (int, float)) and a > 0:
        return Symbol(f"exp2({_text(b)} * {math.log2(a)!r})")
    raise TypeError("a power of symbols: use torch.exp2 and torch.log2")


def _clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    x = x if min is None else _named("max")(x, min)
    return x if max is None else _named("min")(x, max)


_ADD, _SUB, _MUL, _DIV = map(_infix, ("+", "-", "*", "/"))
_FLOOR_DIV, _MOD = _infix("//"), _infix("%")
_LT, _LE, _GT, _GE, _EQ, _NE = map(_infix, ("<", "<=", ">", ">=", "==", "!="))
_AND, _OR = _infix("and"), _infix("or")


def _not(a: Any) -> Symbol:
    return Symbol(f"(not {_text(a)})")


def _negative(a: Any) -> Symbol:
    return Symbol(f"(-{_text(a)})")


class Symbol:
    """A number or a condition that is not known yet."""

    def __init__(self, text: str) -> None:
        """What computes it."""
        self.text = text

    def __bool__(self) -> bool:
        """No Python code can depend on it."""
        raise TypeError(
            "Python cannot decide by a score or an index: use torch.where, &, | and ~, "
            "not if, and, or and not"
        )

    def __index__(self) -> int:
        """Nor has it a value."""
        raise TypeError("a score or an index has no value while it is traced")

    __hash__ = object.__hash__

    @classmethod
    def __torch_function__(
        cls, function: Any, _types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Functions of PyTorch."""
        return _call(function, args, kwargs or {})

    def __getattr__(self, name: str) -> Callable[..., Symbol]:
        """Methods of tensors."""
        if name in _CONVERSIONS:
            return lambda *_given, **_options: self
        if name not in _FUNCTIONS:
            raise AttributeError(f"a score or an index has no '{name}' that can be traced")
        return lambda *given, **options: _FUNCTIONS[name](self, *given, **options)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _named(name) for name in ("abs", "exp", "exp2", "floor", "log", "log2")},
    **{name: _named(name) for name in ("sigmoid", "sqrt", "tanh")},
    "absolute": _named("abs"),
    "add": _ADD,
    "bitwise_and": _AND,
    "bitwise_not": _not,
    "bitwise_or": _OR,
    "clamp": _clamp,
    "clamp_max": _named("min"),
    "clamp_min": _named("max"),
    "div": _DIV,
    "divide": _DIV,
    "eq": _EQ,
    "floor_divide": _FLOOR_DIV,
    "ge": _GE,
    "gt": _GT,
    "le": _LE,
    "logical_and": _AND,
    "logical_not": _not,
    "logical_or": _OR,
    "lt": _LT,
    "maximum": _named("max"),
    "minimum": _named("min"),
    "mul": _MUL,
    "multiply": _MUL,
    "ne": _NE,
    "neg": _negative,
    "negative": _negative,
    "pow": _power,
    "relu": lambda x: _named("max")(x, 0),
    "remainder": _MOD,
    "square": lambda x: _power(x, 2),
    "sub": _SUB,
    "subtract": _SUB,
    "where": _named("where"),
}
# Of dtypes: types follow from what is computed.
_CONVERSIONS = {"float", "double", "half", "bfloat16", "to", "type_as", "contiguous", "clone"}
_OPERATORS = {
    "add": _ADD,
    "sub": _SUB,
    "mul": _MUL,
    "truediv": _DIV,
    "floordiv": _FLOOR_DIV,
    "mod": _MOD,
    "pow": _power,
    "and": _AND,
    "or": _OR,
}
for _name, _function in _OPERATORS.items():
    setattr(Symbol, f"__{_name}__", lambda a, b, f=_function: f(a, _captured(b)))
    setattr(Symbol, f"__r{_name}__", lambda a, b, f=_function: f(_captured(b), a))
for _name, _function in {"lt": _LT, "le": _LE, "gt": _GT, "ge": _GE, "eq": _EQ, "ne": _NE}.items():
    setattr(Symbol, f"__{_name}__", lambda a, b, f=_function: f(a, _captured(b)))
for _name, _change in {"neg": _negative, "abs": _named("abs"), "invert": _not}.items():
    setattr(Symbol, f"__{_name}__", lambda a, f=_change: f(a))
_BACKWARD = {"rsub": _SUB, "rdiv": _DIV, "rpow": _power, "rtruediv": _DIV, "rfloordiv": _FLOOR_DIV}

_reading: list[Numbers] = []  # of the function that is traced


def _captured(value: Any) -> Any:
    """A tensor of one number becomes an element of what is captured."""
    if not isinstance(value, Tensor):
        return value
    if value.numel() != 1:
        raise TypeError(f"a captured tensor {tuple(value.shape)} must be indexed")
    return _reading[-1].element(value, [0] * value.dim())


def _has_symbol(values: Any) -> bool:
    return any(
        _has_symbol(value) if isinstance(value, (tuple, list)) else isinstance(value, Symbol)
        for value in values
    )


# torch.compile, which traces the tracing, knows functions but not their names.
_OF_TORCH = {
    getattr(torch, name): made for name, made in _FUNCTIONS.items() if hasattr(torch, name)
}


def _call(function: Any, args: Sequence[Any], options: dict[str, Any]) -> Any:
    known = _OF_TORCH.get(function)
    name = "" if known else getattr(function, "__name__", str(function))
    if name == "__getitem__" and isinstance(args[0], Tensor):
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        return _reading[-1].element(args[0], [_captured(i) for i in index])
    name = name.strip("_")
    given = [_captured(value) for value in args]
    options = {key: _captured(value) for key, value in options.items()}
    if name in _BACKWARD:
        return _BACKWARD[name](given[1], given[0])
    known = known or _FUNCTIONS.get(name) or _OPERATORS.get(name.removeprefix("r"))
    if known is None:
        raise TypeError(f"torch's {name} in a score_mod or mask_mod cannot be traced")
    return known(*given, **options)


class _Tracing(TorchFunctionMode):
    """Tensors that are indexed with symbols call this."""

    def __torch_function__(
        self, function: Any, _types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if _has_symbol(args) or _has_symbol(kwargs.values()):
            return _call(function, args, kwargs)
        return function(*args, **kwargs)


def traced(
    function: Callable[..., Any] | str | None, names: Sequence[str], numbers: Numbers
) -> str:
    """The text of a function of such names; text stands for itself.

    Raises:
        TypeError: something in it cannot be traced; the message names it.
    """
    if function is None or isinstance(function, str):
        return function or ""
    _reading.append(numbers)
    try:
        with _Tracing():
            result = _captured(function(*map(Symbol, names)))
    finally:
        _reading.pop()
    return _text(result)
