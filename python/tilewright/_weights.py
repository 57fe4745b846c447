"""Attention with any mask, added biases and dropout, also by its weights, which take memory.

The operator `attention` never has the weights [B, H, Q, K]; here they are computed, changed and
multiplied with the values, by operators that have gradients. Imports PyTorch.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from tilewright import ops
from tilewright._dropout import dropped


def _by_group(x: torch.Tensor, heads: int) -> torch.Tensor:
    """[B, Hq, S, D] as [B * heads, Hq / heads * S, D]: the queries that share a head of keys."""
    batch, all_heads, queries, dims = x.shape
    return x.reshape(batch * heads, all_heads // max(heads, 1) * queries, dims)


def sees_in_range(
    queries: int, keys: int, *, causal: bool = False, left: int = -1, right: int = -1
) -> torch.Tensor:
    """The matrix [Q, K] of what queries see of which the last one stands at the last key."""
    key, at = torch.arange(keys), torch.arange(keys - queries, keys)[:, None]
    right = 0 if causal else right
    out = torch.ones(queries, keys, dtype=torch.bool)
    out = out & (key >= at - left) if left >= 0 else out
    return out & (key <= at + right) if right >= 0 else out


def sees_and_bias(mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    """A mask that is True for what is seen, or that is added, as arguments of `weights_of`."""
    if mask.dtype == torch.bool:
        return mask, None
    sees = mask > torch.finfo(mask.dtype).min
    return sees, mask.masked_fill(~sees, 0)


def weights_of(
    q: torch.Tensor,
    k: torch.Tensor,
    *,
    sees: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    scale: float = 0.0,
    softcap: float = 0.0,
) -> torch.Tensor:
    """The weights [B, Hq, Q, K] of queries [B, Hq, Q, D] for keys [B, H, K, D].

    Args:
        q: queries.
        k: keys, of as many heads or fewer.
        sees: [B or 1, Hq or 1, Q or 1, K], False where a query does not see a key; a query that
            sees none has weights of zero.
        bias: of such a shape, added to the scaled products.
        sinks: [Hq] or [B, Hq, Q, 1], a column more, whose weights go to none of the keys.
        scale: of the products, by default 1 / sqrt(D).
        softcap: c * tanh(product / c) replaces each product, unless it is 0.
    """
    heads = k.shape[1]
    scale = scale or 1 / math.sqrt(q.shape[3])
    rows = _by_group(q, heads)
    keys = k.flatten(0, 1)
    scores: Any = ops.matmul(rows, keys.transpose(1, 2), scale).view(*q.shape[:3], k.shape[2])
    if softcap:
        scores = ops.scale(ops.tanh(ops.scale(scores, 1 / softcap)), softcap)
    if bias is not None:
        scores = ops.add(scores, bias.to(scores.dtype))
    if sees is not None:
        lowest = scores.new_full((1,), torch.finfo(scores.dtype).min)
        scores = ops.where(sees, scores, lowest)
    if sinks is not None:
        column = sinks if sinks.dim() == 4 else sinks[None, :, None, None]
        column = column.to(scores.dtype).expand(*q.shape[:3], 1)
        out: torch.Tensor = ops.softmax(torch.cat((scores, column), -1))[..., :-1]
    else:
        out = ops.softmax(scores)
    return out if sees is None else ops.where(sees, out, out.new_zeros(1))


def attention_by_weights(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, dropout: float = 0.0, **options: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of q [B, Hq, Q, D] and k, v [B, H, K, D]: [B, Hq, Q, Dv], and the weights.

    Args:
        q: queries.
        k: keys.
        v: values.
        dropout: the probability with which a weight is dropped.
        **options: those of weights_of.
    """
    weights = weights_of(q, k, **options)
    if dropout:
        weights = dropped(weights, dropout)
    values = v.flatten(0, 1)
    out: torch.Tensor = ops.matmul(_by_group(weights, k.shape[1]), values)
    return out.view(*q.shape[:3], v.shape[3]), weights


def attention_with_bias(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    sees: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    dropout: float = 0.0,
    needs_weights: bool = False,
    **options: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """As attention_by_weights, without the weights where nobody asks for them.

    The operator `attention` does it then, unless a gradient is recorded: with a bias it has none.

    Args:
        q: queries.
        k: keys.
        v: values.
        sees: as weights_of has it.
        bias: as weights_of has it.
        sinks: as weights_of has them.
        dropout: the probability with which a weight is dropped.
        needs_weights: whether the weights are to be returned.
        **options: scale and softcap.
    """
    given = (x for x in (q, k, v, bias, sinks) if x is not None)
    records = torch.is_grad_enabled() and any(x.requires_grad for x in given)
    if dropout or needs_weights or records or (sinks is not None and sinks.dim() == 4):
        return attention_by_weights(
            q, k, v, sees=sees, bias=bias, sinks=sinks, dropout=dropout, **options
        )
    added = None if bias is None else bias.to(q.dtype)
    if sees is not None:
        added = q.new_zeros(1) if added is None else added
        added = torch.where(sees, added, -math.inf)
    if added is not None:
        added = added.expand(*q.shape[:3], k.shape[2])
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    out: torch.Tensor = ops.attention(q, k, v, attn_bias=added, sinks=sinks, **options)
    return out.transpose(1, 2), None
