"""TileOPs' orthogonal transforms."""

from __future__ import annotations

import functools

import torch

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._tensors import tensor


def _residues(q: int) -> torch.Tensor:
    """1 where i - j is a square modulo the prime q, -1 where it is none, 0 on the diagonal."""
    squares = {i * i % q for i in range(1, q)}
    signs = [0] + [1 if i in squares else -1 for i in range(1, q)]
    return torch.tensor([[signs[(i - j) % q] for j in range(q)] for i in range(q)])


def _bordered(q: int, column: int) -> torch.Tensor:
    """The residues below a row of ones and beside a column of this number."""
    whole = torch.zeros(q + 1, q + 1, dtype=torch.int64)
    whole[0, 1:], whole[1:, 0], whole[1:, 1:] = 1, column, _residues(q)
    return whole


@functools.cache
def _base(order: int) -> torch.Tensor:
    """A Hadamard matrix of 12, 20, 28 or 40 rows, by Paley's constructions and Sylvester's."""
    if order == 40:
        return torch.kron(torch.tensor([[1, 1], [1, -1]]), _base(20))
    if order == 28:  # of the prime 13, which is 1 modulo 4
        identity = torch.eye(14, dtype=torch.int64)
        ones, diagonal = torch.tensor([[1, 1], [1, -1]]), torch.tensor([[1, -1], [-1, -1]])
        return torch.kron(_bordered(13, 1), ones) + torch.kron(identity, diagonal)
    return _bordered(order - 1, -1) + torch.eye(order, dtype=torch.int64)


@uses("add", "scale", "matmul")
def hadamard_transform(x: torch.Tensor, *, base_order: int = 1) -> torch.Tensor:
    """The Walsh-Hadamard transform of rows of base_order 2^k numbers, over the root of how many.

    A row is multiplied as base_order rows of 2^k: by Sylvester's matrix, and among each other by
    one of base_order.
    """
    n = x.shape[-1]
    if base_order not in (1, 12, 20, 28, 40):
        raise ValueError(
            f"hadamard_transform: base_order must be 1, 12, 20, 28 or 40, not {base_order}"
        )
    width = n // base_order
    if n < 1 or n % base_order or width & (width - 1):
        raise ValueError(f"hadamard_transform: {n} columns of x are not {base_order} * 2^k")
    out, half = x.float().reshape(-1, width), 1
    while half < width:
        a, b = out.view(-1, width // (2 * half), 2, half).unbind(2)
        pair = [ops.add(a.contiguous(), b.contiguous(), sign) for sign in (1.0, -1.0)]
        out, half = torch.stack(pair, 2).view(-1, width), 2 * half
    if base_order > 1:
        base = _base(base_order).to(out).expand(x.numel() // n, -1, -1)
        out = tensor(ops.matmul(base.contiguous(), out.view(-1, base_order, width)))
    return tensor(ops.scale(out, n**-0.5)).view(x.shape).to(x.dtype)


__all__ = list(provided(vars()))
