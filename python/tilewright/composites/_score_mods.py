"""The programs that change attention's scores, in PyTorch's terms.

Their text is Python's (tilewright/ops/core/score_parser.h has the grammar), so Python parses it.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import torch

Tensor = torch.Tensor

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
}
_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: lambda a: -a,
    ast.UAdd: lambda a: a,
    ast.Not: torch.logical_not,
}
_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "abs": torch.abs,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "floor": torch.floor,
    "log": torch.log,
    "log2": torch.log2,
    "max": torch.maximum,
    "min": torch.minimum,
    "sigmoid": torch.sigmoid,
    "sqrt": torch.sqrt,
    "tanh": torch.tanh,
    "where": torch.where,
}


def _value(node: ast.AST, names: dict[str, Tensor]) -> Any:
    of = functools.partial(_value, names=names)
    match node:
        case ast.Constant(value=value):
            return torch.as_tensor(value, device=names["k"].device)
        case ast.Name(id=name):
            return names[name]
        case ast.Subscript(value=ast.Name(id=name), slice=index):
            numbers = names[name]
            return numbers[of(index).clamp(0, len(numbers) - 1).long()]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](of(left), of(right))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _BINARY[type(op)](of(left), of(right))
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](of(operand))
        case ast.BoolOp(op=op, values=values):
            both = torch.logical_and if isinstance(op, ast.And) else torch.logical_or
            return functools.reduce(both, map(of, values))
        case ast.IfExp(test=test, body=body, orelse=otherwise):
            return torch.where(of(test), of(body), of(otherwise))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _FUNCTIONS[name](*map(of, arguments))
    raise ValueError(f"{ast.unparse(node)} is no expression of a score_mod")


@dataclasses.dataclass(frozen=True)
class ScoreMods:
    """A score_mod and a mask_mod, either of which may be empty, and what they read."""

    score_mod: str
    mask_mod: str
    numbers: tuple[Tensor | None, Tensor | None]

    @classmethod
    def of(
        cls, score_mod: str, mask_mod: str, mod_f32: Tensor | None, mod_i32: Tensor | None
    ) -> ScoreMods | None:
        """None where there are none."""
        return cls(score_mod, mask_mod, (mod_f32, mod_i32)) if score_mod or mask_mod else None

    def apply(self, scores: Tensor, batch: int) -> tuple[Tensor, Tensor]:
        """Scores [Hq, S, L] of a sequence, changed, and where they count."""
        heads, queries, keys = scores.shape
        at = functools.partial(torch.arange, device=scores.device)
        number = functools.partial(torch.as_tensor, device=scores.device)
        names = {
            "b": number(batch),
            "h": at(heads)[:, None, None],
            "q": at(queries)[:, None],
            "k": at(keys),
            "q_len": number(queries),
            "kv_len": number(keys),
            "inf": number(math.inf),
        }
        given = zip(("mod_f32", "mod_i32"), self.numbers, strict=True)
        names |= {name: tensor for name, tensor in given if tensor is not None}
        if self.score_mod:
            changed = _value(ast.parse(self.score_mod, mode="eval").body, names | {"score": scores})
            scores = changed.to(scores.dtype).expand(scores.shape)
        sees = scores > -math.inf
        if self.mask_mod:
            sees = sees & _value(ast.parse(self.mask_mod, mode="eval").body, names)
        return scores, sees
