"""Gradients of attention whose scores functions change, by operators of PyTorch.

The functions are called with all indices at once, as PyTorch's definition calls them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tilewright import _layouts

Tensor = torch.Tensor


@dataclass(frozen=True)
class Modified:
    """What changes scores, and as arguments of the operator."""

    score_mod: Any
    masks: Sequence[Any]
    scale: float
    options: dict[str, Any]

    def scores(self, products: Tensor, first: int) -> Tensor:
        """Of the queries from `first` on: products [B, Hq, queries, L] times the scale."""
        at = []
        for d, size in enumerate(products.shape):
            begin = first if d == 2 else 0
            index = torch.arange(begin, begin + size, dtype=torch.int32, device=products.device)
            at.append(index.view([-1 if i == d else 1 for i in range(4)]))
        scores = products if self.score_mod is None else self.score_mod(products, *at)
        for mask in self.masks:
            scores = torch.where(mask(*at), scores, -math.inf)
        return scores


def by_weights(query: Tensor, key: Tensor, value: Tensor, mods: Modified) -> tuple[Tensor, Tensor]:
    """Output and lse, whose gradients PyTorch finds: those of captured tensors, too."""
    group = query.shape[1] // max(key.shape[1], 1)
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = mods.scores((query @ key.transpose(2, 3)).float() * mods.scale, 0)
    lse = torch.logsumexp(scores, -1)
    # The gradient of a softmax of nothing would be NaN.
    sees = (scores > -math.inf).any(-1, keepdim=True)
    weights = torch.softmax(torch.where(sees, scores, 0.0), -1) * sees
    return weights.to(value.dtype) @ value, lse


class ByOperator(torch.autograd.Function):
    """Output and lse by the operator; the gradients of query, key and value by parts.

    A part is some queries, whose weights are computed anew (FlashAttention, arXiv:2205.14135,
    appendix B), so that no more than _MOST of them are in memory.
    """

    _MOST = 1 << 25

    @staticmethod
    def forward(
        context: Any, query: Tensor, key: Tensor, value: Tensor, mods: Modified
    ) -> tuple[Tensor, Tensor]:
        """Both."""
        out, lse = _layouts.attention_with_lse(query, key, value, **mods.options)
        context.save_for_backward(query, key, value, out, lse)
        context.mods = mods
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, grad: Tensor, grad_lse: Tensor) -> tuple[Tensor | None, ...]:
        """Part by part."""
        query, key, value, out, lse = context.saved_tensors
        share = (grad.float() * out.float()).sum(-1) - grad_lse  # of the slope of each score
        queries = query.shape[2]
        row = query.shape[0] * query.shape[1] * key.shape[2]
        step = max(1, ByOperator._MOST // max(row, 1))
        grads = [torch.zeros_like(x, dtype=torch.float32) for x in (query, key, value)]
        for first in range(0, queries, step):
            part = slice(first, first + step)
            given = [x[:, :, part] for x in (query, grad, share, lse)]
            _add_part(context.mods, first, given, (key, value), (grads[0][:, :, part], *grads[1:]))
        return *(g.to(x.dtype) for g, x in zip(grads, (query, key, value), strict=True)), None


def _add_part(
    mods: Modified,
    first: int,
    given: Sequence[Tensor],
    keys: tuple[Tensor, Tensor],
    grads: tuple[Tensor, ...],
) -> None:
    """Adds what some queries give to the gradients."""
    (query, grad, share, lse), (key, value) = given, keys
    batch, q_heads, queries, _ = query.shape
    heads = key.shape[1]

    def grouped(x: Tensor) -> Tensor:  # heads that share keys become rows
        return x.reshape(batch, heads, q_heads // max(heads, 1) * queries, x.shape[3])

    def by_head(x: Tensor) -> Tensor:
        return x.reshape(batch, q_heads, queries, x.shape[3])

    products = by_head(grouped(query) @ key.transpose(2, 3)).float() * mods.scale
    with torch.enable_grad():
        products.requires_grad_()
        scores = mods.scores(products, first)
    weights = torch.exp(scores.detach() - lse.masked_fill(lse == -math.inf, 0).unsqueeze(-1))
    slopes = by_head(grouped(grad) @ value.transpose(2, 3)).float() - share.unsqueeze(-1)
    slopes *= weights
    if scores.requires_grad:
        (slopes,) = torch.autograd.grad(scores, products, slopes)
    else:  # no score is left
        slopes = torch.zeros_like(products)
    slopes = grouped(slopes * mods.scale).to(key.dtype)
    weights = grouped(weights).to(value.dtype)
    grads[0].add_(by_head(slopes @ key))
    grads[1].add_(slopes.transpose(2, 3) @ grouped(query))
    grads[2].add_(weights.transpose(2, 3) @ grouped(grad))
