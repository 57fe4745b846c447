"""TileOPs' filters of logits [B, V], and draws of tokens."""

from __future__ import annotations

import torch

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._tensors import tensor


def _without_below(logits: torch.Tensor, least: torch.Tensor) -> torch.Tensor:
    return logits.masked_fill(logits.float() < least[:, None], -torch.inf)


@uses("topk")
def top_k_mask(logits: torch.Tensor, top_k: torch.Tensor) -> torch.Tensor:
    """The top_k [B] largest of each row, and what equals the last of them; -inf for the rest."""
    if bool((top_k < 1).any()):
        raise ValueError(f"top_k_mask: top_k must be at least 1, not {int(top_k.min())}")
    wide = logits.float()
    last = top_k.clamp(max=logits.shape[1]).long() - 1
    ordered = tensor(ops.topk(wide, int(last.max()) + 1)[0])
    return _without_below(logits, ordered.gather(1, last[:, None])[:, 0])


@uses("amax")
def min_p_mask(logits: torch.Tensor, min_p: torch.Tensor) -> torch.Tensor:
    """What has min_p [B] of the largest probability of its row or more; -inf for the rest."""
    return _without_below(logits, tensor(ops.amax(logits.float())) + min_p.float().log())


@uses("softmax", "topk", "scan")
def top_p_mask(logits: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """The tokens than which those of larger probability have less than top_p [B] together.

    Tokens of equal probability stay or go together; -inf for the rest.
    """
    chances = tensor(ops.softmax(logits.float()))
    ordered = tensor(ops.topk(chances, logits.shape[1])[0])
    before = tensor(ops.scan(ordered, "sum")).roll(1, 1)
    before[:, 0] = 0
    count = (before < top_p.float()[:, None]).sum(1, keepdim=True)
    least = ordered.gather(1, (count - 1).clamp(min=0)).masked_fill(count == 0, torch.inf)
    return logits.masked_fill((chances < least) | (chances == 0), -torch.inf)


@uses("softmax", "topk", "scan")
def top_k_top_p_mask(
    logits: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor
) -> torch.Tensor:
    """top_k_mask, and of what it leaves top_p_mask."""
    return top_p_mask(top_k_mask(logits, top_k), top_p)


def _drawn(weights: torch.Tensor, seed: torch.Tensor, offset: int) -> torch.Tensor:
    """An index of each row [..., V], as likely as its weight."""
    return tensor(ops.sample(weights.log(), seed=int(seed), offset=offset))


@uses("sample")
def sampling_from_probs(
    probs: torch.Tensor, seed: torch.Tensor, offset: torch.Tensor
) -> torch.Tensor:
    """A token of each row of weights [B, V]; the same seed and offset draw the same ones."""
    return _drawn(probs.float(), seed, int(offset))


@uses("sample")
def chain_speculative_sampling(
    draft_probs: torch.Tensor,
    draft_token_ids: torch.Tensor,
    target_probs: torch.Tensor,
    seed: torch.Tensor,
    offset: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Which of drafts [B, N] to keep, so that tokens are distributed as the target's [B, N + 1, V].

    Returns:
        The tokens kept, one more, and -1; and how many were kept.
    """
    batch, length = draft_token_ids.shape
    draft, target = draft_probs.float(), target_probs.float()
    picked = draft_token_ids.long()[..., None]
    ratio = (target[:, :length].gather(2, picked) / draft.gather(2, picked)).clamp(max=1)
    first = 2 * int(offset)
    is_kept = _drawn(torch.cat([ratio, 1 - ratio], -1), seed, first) == 0
    count = is_kept.int().cumprod(1).sum(1)
    rest = torch.cat([(target[:, :length] - draft).clamp(min=0), target[:, length:]], 1)
    chosen = rest[torch.arange(batch, device=rest.device), count]
    token = _drawn(chosen, seed, first + 1)
    place = torch.arange(length + 1, device=rest.device)
    drafts = torch.cat([draft_token_ids, draft_token_ids[:, :1]], 1)
    out = torch.where(place < count[:, None], drafts, -1)
    out = torch.where(place == count[:, None], token[:, None], out)
    return out.int(), count.int()


__all__ = list(provided(vars()))
