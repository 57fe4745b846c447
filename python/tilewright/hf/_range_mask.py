"""A mask that is a few numbers, and becomes a matrix for whoever looks at its elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map


class Run(NamedTuple):
    """Queries in a row of one sequence, and the keys they see, all by their places."""

    begin: int  # the first query
    stop: int  # one past the last query
    first: int  # the first key
    end: int  # one past the last key that the last query sees
    left: int  # how far to the left a query sees, or -1
    causal: int  # whether each query before the last sees one key less


def matrix_of(runs: list[list[Run]], q_length: int, kv_length: int) -> torch.Tensor:
    """The matrix [B, 1, Q, K] of what the runs of each sequence see."""
    out = torch.zeros(len(runs), 1, q_length, kv_length, dtype=torch.bool)
    keys = torch.arange(kv_length)
    for sees, row in zip(out[:, 0], runs, strict=True):
        for run in row:
            last = torch.arange(run.end - (run.stop - run.begin), run.end)[:, None]
            seen = (run.first <= keys) & (keys < run.end)
            seen = seen & (keys <= last if run.causal else seen)
            sees[run.begin : run.stop] = seen & (keys >= last - run.left if run.left >= 0 else seen)
    return out


class RangeMask(torch.Tensor):
    """The matrix [B, 1, Q, K] of what queries see, True where they do, without memory for it.

    Models that change their mask get a matrix: any operation on this is done on that.
    """

    runs: list[list[Run]]

    def __new__(
        cls, runs: list[list[Run]], q_length: int, kv_length: int, device: torch.device | str
    ) -> RangeMask:
        """The mask of so many queries and keys that has these runs for each sequence."""
        shape = (len(runs), 1, q_length, kv_length)
        make: Callable[..., RangeMask] = torch.Tensor._make_wrapper_subclass
        out = make(cls, shape, dtype=torch.bool, device=device)
        out.runs = runs
        return out

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Does what was asked for with matrices."""
        args, kwargs = tree_map(_matrix_if_range, (args, kwargs or {}))
        return function(*args, **kwargs)

    def __repr__(self, **_options: Any) -> str:  # type: ignore[override]
        """The runs."""
        return f"RangeMask({self.runs}, {self.shape[2]}, {self.shape[3]}, {str(self.device)!r})"

    def matrix(self) -> torch.Tensor:
        """The matrix."""
        return matrix_of(self.runs, *self.shape[2:]).to(self.device)


def _matrix_if_range(value: Any) -> Any:
    return value.matrix() if isinstance(value, RangeMask) else value


def encoded(runs: list[list[Run]]) -> torch.Tensor:
    """Runs as a tensor [B, 1, R, 6], for operators, which take nothing else."""
    most = max([1, *map(len, runs)])
    none = Run(0, 0, 0, 0, -1, 0)
    rows = [[*row, *[none] * (most - len(row))] for row in runs]
    return torch.tensor(rows, dtype=torch.int32)[:, None]


def decoded(mask: torch.Tensor) -> list[list[Run]] | None:
    """The runs of each sequence, those of no query left out; None if `mask` does not hold runs."""
    if mask.dtype != torch.int32 or mask.shape[1:2] + mask.shape[3:] != (1, len(Run._fields)):
        return None
    read = [[Run(*run) for run in row] for row in mask[:, 0].tolist()]
    return [[run for run in row if run.stop > run.begin] for row in read]
