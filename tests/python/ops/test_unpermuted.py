"""Products whose rows go back to their tokens, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from cases import DEVICES

from tilewright import ops

TOKENS, TOP, EXPERTS, K, N = 37, 3, 5, 48, 24


def routed(device: str, block: int) -> tuple[Any, ...]:
    draw = torch.Generator().manual_seed(1)
    ids = torch.rand(TOKENS, EXPERTS, generator=draw).topk(TOP, 1).indices.to(torch.int32)
    weights = torch.rand(TOKENS, TOP, generator=draw)
    return ops.moe_align(ids.to(device), EXPERTS, block), weights.to(device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("block", [1, 16])
def test_undoes_a_router(block: int, device: str) -> None:
    (_, offsets, order, positions), weights = routed(device, block)
    draw = torch.Generator().manual_seed(2)
    a = torch.randn(len(order), K, generator=draw).to(device)
    b = torch.randn(EXPERTS, K, N, generator=draw).to(device)
    made = ops.grouped_matmul(a, b, offsets)
    want = made[positions.flatten().long()] * weights.reshape(-1, 1)
    out = ops.grouped_matmul_unpermute(
        a, b, offsets, to_rows=order, weights=weights.flatten(), out_rows=TOKENS * TOP
    )
    torch.testing.assert_close(out, want)
    combined = ops.moe_combine(made, positions, weights)
    torch.testing.assert_close(out.view(TOKENS, TOP, N).sum(1), combined)


def product(**given: Any) -> Any:
    offsets = torch.tensor([2, 3], dtype=torch.int32)
    return ops.grouped_matmul_unpermute(torch.ones(4, K), torch.ones(2, K, N), offsets, **given)


def scaled(**given: Any) -> Any:
    operands = torch.ones(4, K).to(torch.float8_e4m3fn), torch.ones(2, N, K).to(torch.float8_e4m3fn)
    offsets = torch.tensor([2, 3], dtype=torch.int32)
    scales = torch.ones(4, 1), torch.ones(2, 1, 1)
    return ops.scaled_grouped_matmul_unpermute(*operands, *scales, offsets, **given)


@pytest.mark.parametrize("of", [product, scaled])
@pytest.mark.parametrize(
    ("to_rows", "out_rows", "rule"),
    [
        ([0, 1, 1, 3], -1, r"to_rows\[1\] and to_rows\[2\] are both 1"),
        ([0, -1, 1, 3], -1, "none of to_rows is 2, but out has R = 4 rows"),
        ([0, 4, 1, 9], 3, "none of to_rows is 2, but out has R = 3 rows"),
        (None, 3, "out has R = 3 rows, but a has M = 4, and no to_rows are given"),
    ],
)
def test_each_row_of_out_is_that_of_one(
    of: Any, to_rows: list[int] | None, out_rows: int, rule: str
) -> None:
    numbers = None if to_rows is None else torch.tensor(to_rows, dtype=torch.int32)
    with pytest.raises(ValueError, match=rule):
        of(to_rows=numbers, out_rows=out_rows)


def test_weights_are_those_of_rows_of_out() -> None:
    with pytest.raises(ValueError, match="weights"):
        product(weights=torch.ones(3))
    numbers = torch.tensor([3, 0, 2, 1], dtype=torch.int32)
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0])
    for of in (product, scaled):
        out = of(to_rows=numbers, weights=weights).float()
        # Row 3 of a is of no group, and goes to row 1.
        want = torch.tensor([1.0, 0.0, 3.0, 4.0])[:, None] * K
        torch.testing.assert_close(out, want.expand(4, N), rtol=1e-2, atol=0)


def test_starts_need_offsets() -> None:
    a, b = torch.ones(4, K).to(torch.int8), torch.ones(1, N, K).to(torch.int8)
    scales = torch.ones(4, 1), torch.ones(1, 1, 1)
    starts = torch.zeros(1, dtype=torch.int32)
    with pytest.raises(ValueError, match="starts of groups are given, but no offsets"):
        ops.scaled_grouped_matmul(a, b, *scales, starts=starts)
    rows = torch.tensor([0, 4], dtype=torch.int32)
    with pytest.raises(ValueError, match=r"rows\[1\] = 4 is outside the 4 rows of a"):
        ops.scaled_grouped_matmul(a, b, *scales, rows=rows)
