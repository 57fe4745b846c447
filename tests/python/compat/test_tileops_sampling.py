"""TileOPs' filters of logits and draws against what they are defined as."""

from __future__ import annotations

import pytest
import torch
from oracles import generator
from tilewright.compat import tileops

K = torch.tensor([1, 3, 9, 40], dtype=torch.int32)
P = torch.tensor([0.0, 0.3, 0.9, 1.0])


def logits(dtype: torch.dtype) -> torch.Tensor:
    """Some of them equal: 40 columns of 12 values."""
    given = generator(1)
    return (torch.randint(-6, 6, (4, 40), generator=given) / 2).to(dtype)


def kept_by_p(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    chances = x.double().softmax(-1)
    more = chances[:, None] > chances[:, :, None] + 1e-12  # [B, V, V]: the second's is larger
    return (more * chances[:, None]).sum(-1) < p[:, None].double()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_filters(dtype) -> None:
    x = logits(dtype)
    last = torch.stack([row.sort(descending=True)[0][k - 1] for row, k in zip(x, K, strict=True)])
    by_k = x.masked_fill(x < last[:, None], -torch.inf)
    assert torch.equal(tileops.top_k_mask(x, K), by_k)
    assert torch.equal(tileops.top_k_mask(x, K + 40), x)
    chances = x.double().softmax(-1)
    enough = chances >= P[:, None].double() * chances.amax(-1, keepdim=True) - 1e-9
    assert torch.equal(tileops.min_p_mask(x, P), x.masked_fill(~enough, -torch.inf))
    assert torch.equal(tileops.top_p_mask(x, P), x.masked_fill(~kept_by_p(x, P), -torch.inf))
    both = by_k.masked_fill(~kept_by_p(by_k, P), -torch.inf)
    assert torch.equal(tileops.top_k_top_p_mask(x, K, P), both)
    with pytest.raises(ValueError, match="top_k must be at least 1, not 0"):
        tileops.top_k_mask(x, torch.zeros_like(K))


def test_draws_follow_the_weights() -> None:
    weights = torch.tensor([0.0, 3.0, 1.0, 0.0, 4.0])
    seed, offset = torch.tensor([5]), torch.tensor([2])
    many = weights.expand(20000, 5)
    drawn = tileops.sampling_from_probs(many, seed, offset)
    assert drawn.dtype == torch.int32
    share = drawn.bincount(minlength=5) / len(drawn)
    torch.testing.assert_close(share, weights / 8, atol=0.02, rtol=0)
    assert share[0] == share[3] == 0
    assert torch.equal(drawn, tileops.sampling_from_probs(many, seed, offset))
    assert not torch.equal(drawn, tileops.sampling_from_probs(many, seed, offset + 1))


def test_drafts_become_tokens_of_the_target() -> None:
    """Whatever the draft: the first token is distributed as the target's first row."""
    count, length, width = 20000, 2, 4
    draft = torch.tensor([[0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.25, 0.25]])
    target = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.0, 0.5, 0.5, 0.0], [0.0, 0.0, 0.2, 0.8]])
    given = generator(0)
    ids = torch.multinomial(draft, count, True, generator=given).T.int().contiguous()
    given = draft.expand(count, length, width), ids, target.expand(count, length + 1, width)
    tokens, kept = tileops.chain_speculative_sampling(*given, torch.tensor([3]), torch.tensor([0]))
    assert (tokens.dtype, kept.dtype) == (torch.int32, torch.int32)
    share = tokens[:, 0].bincount(minlength=width) / count
    torch.testing.assert_close(share, target[0], atol=0.02, rtol=0)
    second = tokens[kept >= 1, 1].bincount(minlength=width)
    torch.testing.assert_close(second / second.sum(), target[1], atol=0.02, rtol=0)
    third = tokens[kept == 2, 2].bincount(minlength=width)
    torch.testing.assert_close(third / third.sum(), target[2], atol=0.03, rtol=0)
    place = torch.arange(length + 1)
    assert (tokens[place > kept[:, None]] == -1).all()
    assert (tokens[place <= kept[:, None]] >= 0).all()
    accepted = place[:length] < kept[:, None]
    assert torch.equal(tokens[:, :length][accepted], ids[accepted])
    assert abs((kept >= 1).float().mean() - 0.4) < 0.02  # the sum of the smaller probabilities


def test_drafts_of_the_target_are_all_kept() -> None:
    p = torch.rand(3, 6, 11).softmax(-1)
    ids = p[:, :5].argmax(-1).int()
    given = p[:, :5], ids, p, torch.tensor([1]), torch.tensor([4])
    tokens, kept = tileops.chain_speculative_sampling(*given)
    assert kept.tolist() == [5, 5, 5]
    assert torch.equal(tokens[:, :5], ids)
