"""TileGym's dropout: its mask to the bit, gradients without saved tensors, writing in place."""

from __future__ import annotations

import math

import pytest
import torch
from oracles import close
from tilewright.compat import tilegym

LAST = 2**63 - 1


def mask(shape, seed: int, p: float) -> torch.Tensor:
    """By Python's integers, wrapped to 32 bits with a sign after each step."""

    def int32(value: int) -> int:
        return (value + 2**31) % 2**32 - 2**31

    def draw(number: int) -> int:
        word = int32(number * 1103515245 + int32(seed * 2654435761))
        word = int32(word ^ (word >> 16))
        word = int32(word ^ int32(word << 8))
        return (word ^ (word >> 4)) & 0x7FFFFFFF

    words = torch.tensor([draw(i) for i in range(torch.Size(shape).numel())], dtype=torch.int64)
    return (words.float() / 2147483647.0 > p).reshape(shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("inplace", [False, True])
def test_mask_and_gradient(dtype, inplace) -> None:
    for shape, seed, p in [
        ((), 0, 0.5),
        ((1,), 11, 0.2),
        ((1025,), -7, 0.8),
        ((17, 63), LAST, 0.2),
        ((2, 17, 31), 11, 0.5),
        ((8193,), 99, 0.4),
        ((0,), 99, 0.5),
    ]:
        leaf = torch.randn(shape, dtype=dtype, requires_grad=True)
        x = leaf.clone() if inplace else leaf
        kept, given, dy = mask(shape, seed, p), x.detach().clone(), torch.randn_like(leaf)
        y = tilegym.ops.dropout(x, seed, p=p, inplace=inplace)
        assert (y is x) == inplace
        close(y, torch.where(kept, given.float() / (1 - p), 0).to(dtype))
        y.backward(dy)
        close(leaf.grad, torch.where(kept, dy.float() / (1 - p), 0).to(dtype))


@pytest.mark.parametrize("inplace", [False, True])
def test_nothing_to_draw(inplace) -> None:
    for training, p in [(False, 0.5), (False, 1.0), (True, 0.0), (True, 1.0)]:
        leaf = torch.randn(3, 7, requires_grad=True)
        x = leaf.clone() if inplace else leaf
        given, dropped = x.detach().clone(), training and p == 1
        y = tilegym.dropout(x, 0, p=p, training=training, inplace=inplace)
        assert torch.equal(y, torch.zeros_like(x) if dropped else given)
        y.sum().backward()
        assert torch.equal(leaf.grad, torch.full_like(leaf, 0.0 if dropped else 1.0))
        assert (y is x) == (inplace or not dropped)
    for p in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="probability"):
            tilegym.dropout(torch.ones(1), 11, p=p)


def test_infinity_is_dropped() -> None:
    x = torch.full((64,), math.inf)
    want = torch.where(mask(x.shape, 3, 0.5), x, 0)
    assert torch.equal(tilegym.dropout(x, 3), want)
    assert torch.equal(tilegym.dropout(x, 3, p=1.0), torch.zeros(64))


def test_gradients_of_any_layout_again_and_of_their_own() -> None:
    x, kept = torch.randn(17, 63, requires_grad=True), mask((17, 63), 99, 0.5)
    saved: list[torch.Tensor] = []
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t)
    with hooks:
        y = tilegym.dropout(x, 99)
    assert not saved
    for dy in (torch.randn(63, 17).t(), torch.randn(()).expand_as(x)):
        (dx,) = torch.autograd.grad(y, x, dy, retain_graph=True)
        assert torch.equal(dx, torch.where(kept, dy * 2, 0))
    dy = torch.randn_like(x, requires_grad=True)
    (dx,) = torch.autograd.grad(y, x, dy, create_graph=True)
    (ddy,) = torch.autograd.grad(dx.sum(), dy)
    assert torch.equal(ddy, kept.float() * 2)


def test_views_in_place() -> None:
    kept = mask((17,), 11, 0.5).float()
    leaf = torch.ones(34, requires_grad=True)
    x = (leaf * 3)[:17]
    assert tilegym.dropout(x, 11, inplace=True) is x
    x.sum().backward()
    assert torch.equal(leaf.grad, torch.cat([kept * 6, torch.zeros(17)]))
    for x in (torch.ones(17, requires_grad=True), torch.ones(17, requires_grad=True).view(17)):
        with pytest.raises(RuntimeError, match="leaf"):
            tilegym.dropout(x, 11, inplace=True)
        assert torch.equal(x, torch.ones(17))
        version = x._version
        with torch.no_grad():
            assert tilegym.dropout(x, 11, inplace=True) is x
        assert x._version == version + 1
        assert torch.equal(x, kept * 2)
    base = torch.ones(34, requires_grad=True) * 3
    with torch.no_grad():
        unseen = base.view(34)
    for x in (base.split(17)[0], unseen):
        with pytest.raises(RuntimeError, match="view"):
            tilegym.dropout(x, 11, inplace=True)
    assert torch.equal(base, torch.full((34,), 3.0))
