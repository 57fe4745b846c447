"""The loss of Liger that learns from pairs of answers as TileGym has it: DPO (arXiv:2305.18290)."""

from __future__ import annotations

import torch

from tilewright import ops
from tilewright.compat._coverage import provided
from tilewright.compat._tensors import tensor
from tilewright.compat.tilegym._backends import uses

Projected = tuple[torch.Tensor, torch.Tensor]


def _log_probabilities(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    target: torch.Tensor,
    ignore_index: int,
) -> Projected:
    """Of the targets [B, T], 0 for those that are ignored; and the logits [B, T, V]."""
    logits = tensor(ops.linear(input, weight, bias))
    rows = logits.flatten(0, 1).float()
    each = tensor(ops.cross_entropy(rows, target.flatten(), ignore_index, "none"))
    return -each.view(target.shape), logits


@uses("linear", "cross_entropy", "activation")
def dpo_loss(
    input: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None = None,
    ref_input: torch.Tensor | None = None,
    ref_weight: torch.Tensor | None = None,
    ref_bias: torch.Tensor | None = None,
    ignore_index: int = -100,
    beta: float = 0.1,
    alpha: float = 1.0,
    compute_nll_loss: bool = False,
    use_ref_model: bool = True,
    average_log_prob: bool = False,
    loss_type: str = "sigmoid",
    label_smoothing: float = 0.0,
    discopop_tau: float = 0.05,
    chunk_size: int | None = None,
) -> tuple[torch.Tensor, ...]:
    """The loss of answers [B, T, H]: the first half are chosen, the others rejected in their place.

    Returns:
        The loss; for the chosen and the rejected each, log-probabilities and the mean logit; the
        chosen answers' own loss; and the rewards of both.
    """
    if loss_type != "sigmoid":
        raise ValueError(f"dpo_loss: loss_type must be sigmoid, not {loss_type!r}")
    counted = target != ignore_index
    lengths = counted.sum(-1) if average_log_prob else 1
    each, logits = _log_probabilities(input, weight, bias, target, ignore_index)
    reference = torch.zeros(len(input), device=input.device)
    if use_ref_model:
        if ref_input is None or ref_weight is None:
            raise ValueError("dpo_loss: use_ref_model needs ref_input and ref_weight")
        with torch.no_grad():
            given = (ref_input, ref_weight, ref_bias, target, ignore_index)
            reference = _log_probabilities(*given)[0].sum(-1) / lengths
    sums = each.sum(-1) / lengths
    chosen, rejected = sums.chunk(2)
    rewards = (beta * (sums - reference)).chunk(2)
    gap = rewards[0] - rewards[1]
    loss = tensor(ops.activation(-gap, "softplus", 1.0, 20.0)).sum() / len(gap)
    own = torch.zeros((), device=input.device)
    if compute_nll_loss:
        own = -each[: len(gap)].sum() / counted[: len(gap)].sum()
        loss = loss + alpha * own
    means = (part.detach().float().mean() for part in logits.chunk(2))
    return loss, chosen, rejected, *means, own, *rewards


__all__ = list(provided(vars()))
