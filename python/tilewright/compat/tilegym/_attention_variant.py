"""TileGym's attention with biases, masks, windows and lengths in one function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from tilewright import _layouts, ops
from tilewright._values import score_scale
from tilewright.compat._tensors import computable, packed, tensor
from tilewright.compat.tilegym._backends import uses

Attend = Callable[..., torch.Tensor]

_SEEDS = 1 << 53  # how many the operator takes
_BATCH = {"bnsd": 0, "nsbd": 2}  # where it is among the dimensions
_BIASES = (None, "none", "vector", "matrix", "alibi")


@uses("attention", "matmul", "softmax", "dropout")
def fmha_variant(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scaling: float | None = None,
    is_causal: bool = True,
    q_lens: torch.Tensor | None = None,
    kv_lens: torch.Tensor | None = None,
    bias_type: str | None = None,
    bias: torch.Tensor | None = None,
    dropout: float = 0.0,
    seed: int = 0,
    window_size: int = 0,
    random_mask: torch.Tensor | None = None,
    layout: str = "bnsd",
    **tuning: Any,
) -> torch.Tensor:
    """Attention of the first q_lens [B] queries to the first kv_lens keys; the rest is zero.

    The last query stands at the last key, and a window reaches as far to either side. The bias is a
    vector [B, H, 1, L] or matrix [B, H, S, L], or ALiBi's slopes [H]; random_mask [B, H, S, L] is
    not 0 where a key is hidden. With dropout all weights are held at once: which are dropped
    follows from the seed.
    """
    _check(layout, bias_type, dropout)
    batch = _BATCH[layout]
    queries, keys, values = (computable(x.movedim(batch, 0)) for x in (q, k, v))
    slopes = bias.float() if bias_type == "alibi" and bias is not None else None
    table = _table(queries, keys.shape[2], bias_type, bias, random_mask)
    options: dict[str, Any] = {
        "scale": score_scale(scaling),
        "causal": is_causal,
        "window_left": window_size or -1,
        "window_right": -1 if is_causal else window_size or -1,
        "alibi_slopes": slopes,
    }
    attend: Attend = _layouts.attention
    if dropout:
        attend = functools.partial(_dropped, dropout, seed)
    out = _of_lengths(queries, keys, values, table, q_lens, kv_lens, options, attend)
    return packed(out.movedim(0, batch)).to(q.dtype)


def _check(layout: str, bias_type: str | None, dropout: float) -> None:
    if layout not in _BATCH:
        raise ValueError(f"fmha_variant: layout {layout!r} is none of {', '.join(_BATCH)}")
    if bias_type not in _BIASES:
        raise ValueError(f"fmha_variant: bias_type {bias_type!r} is none of {_BIASES}")
    if not 0 <= dropout < 1:
        raise ValueError(f"fmha_variant: dropout must be 0 or more and less than 1, not {dropout}")


def _table(
    q: torch.Tensor,
    keys: int,
    bias_type: str | None,
    bias: torch.Tensor | None,
    mask: torch.Tensor | None,
) -> torch.Tensor | None:
    """What is added to the scores [B, H, S, L], if anything."""
    shape = (*q.shape[:3], keys)
    added = bias.to(q.dtype) if bias_type in ("vector", "matrix") and bias is not None else None
    if mask is not None:
        hidden = mask.to(torch.bool)
        added = (q.new_zeros(()) if added is None else added).expand(shape)
        added = added.masked_fill(hidden, -torch.inf)
    return None if added is None else added.expand(shape)


def _of_lengths(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    table: torch.Tensor | None,
    q_lens: torch.Tensor | None,
    kv_lens: torch.Tensor | None,
    options: dict[str, Any],
    attend: Attend,
) -> torch.Tensor:
    if q_lens is None and kv_lens is None:
        bias = None if table is None else table.contiguous()
        return attend(q, k, v, attn_bias=bias, **options)
    out = q.new_zeros(*q.shape[:3], v.shape[3])
    rows = [q.shape[2]] * len(q) if q_lens is None else q_lens.tolist()
    keys = [k.shape[2]] * len(k) if kv_lens is None else kv_lens.tolist()
    for b, (n, m) in enumerate(zip(rows, keys, strict=True)):
        own = slice(b, b + 1)
        bias = None if table is None else table[own, :, :n, :m].contiguous()
        given = (q[own, :, :n], k[own, :, :m], v[own, :, :m])
        out[own, :, :n] = attend(*given, attn_bias=bias, **options)
    return out


def _dropped(
    probability: float,
    seed: int,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    attn_bias: torch.Tensor | None,
    scale: float,
    causal: bool,
    window_left: int,
    window_right: int,
    alibi_slopes: torch.Tensor | None,
) -> torch.Tensor:
    """Attention [B, H, S, D] some of whose weights are zero, and the others larger for it."""
    group = q.shape[1] // k.shape[1]
    keys, values = (x.repeat_interleave(group, 1).flatten(0, 1) for x in (k, v))
    scores = ops.matmul(q.flatten(0, 1).float(), keys.float().mT, scale or q.shape[-1] ** -0.5)
    scores = tensor(scores).view(*q.shape[:3], -1)
    if attn_bias is not None:
        scores = tensor(ops.add(scores, attn_bias.float()))
    rows, columns = scores.shape[2:]
    at = torch.arange(columns, device=q.device)
    ahead = at - torch.arange(rows, device=q.device)[:, None] - (columns - rows)  # of the query
    if alibi_slopes is not None:
        scores = tensor(ops.add(scores, -alibi_slopes[:, None, None] * ahead.abs()))
    hidden = torch.zeros_like(ahead, dtype=torch.bool)
    if causal:
        hidden |= ahead > 0
    if window_left >= 0:
        hidden |= ahead < -window_left
    if window_right >= 0:
        hidden |= ahead > window_right
    scores = scores.masked_fill(hidden, -torch.inf)
    none = (scores == -torch.inf).all(-1, keepdim=True)
    weights = tensor(ops.softmax(scores.masked_fill(none, 0.0))).masked_fill(none, 0.0)
    kept = tensor(ops.dropout(weights, probability, seed % _SEEDS)).flatten(0, 1).to(v.dtype)
    return tensor(ops.matmul(kept, values)).view(*q.shape[:3], -1)
