"""TileOPs' orthogonal transforms by their definition."""

from __future__ import annotations

import math

import pytest
import torch
from oracles import close
from tilewright.compat import tileops


def sylvester(n: int) -> torch.Tensor:
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while len(matrix) < n:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix


@pytest.mark.parametrize("n", [1, 2, 8, 128])
def test_hadamard_transform(n) -> None:
    x = torch.randn(2, 3, n).half()
    close(tileops.hadamard_transform(x), (x.double() @ sylvester(n).T / math.sqrt(n)).half())


@pytest.mark.parametrize("order", [12, 20, 28, 40])
def test_hadamard_transforms_of_other_orders_are_of_signs_and_orthogonal(order) -> None:
    n = order * 4
    made = tileops.hadamard_transform(torch.eye(n), base_order=order)
    torch.testing.assert_close(made.abs(), torch.full((n, n), n**-0.5))
    torch.testing.assert_close(made @ made.T, torch.eye(n), atol=1e-5, rtol=0)
    # Blocks of base_order times Sylvester's matrix.
    blocks = (made.view(order, 4, order, 4) * math.sqrt(n)).round().transpose(1, 2)
    torch.testing.assert_close(blocks / blocks[..., :1, :1], sylvester(4).float().expand_as(blocks))


def test_what_hadamard_transform_refuses() -> None:
    with pytest.raises(ValueError, match=r"12 columns of x are not 1 \* 2\^k"):
        tileops.hadamard_transform(torch.ones(2, 12))
    with pytest.raises(ValueError, match=r"36 columns of x are not 12 \* 2\^k"):
        tileops.hadamard_transform(torch.ones(2, 36), base_order=12)
    with pytest.raises(ValueError, match="base_order must be 1, 12, 20, 28 or 40, not 24"):
        tileops.hadamard_transform(torch.ones(2, 24), base_order=24)
