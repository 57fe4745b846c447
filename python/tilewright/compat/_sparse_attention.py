"""Attention of each query to a list of keys: a table of pages that hold one key each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilewright import _functions, ops
from tilewright._values import score_scale

_attend = _functions.full("attention_paged")
_attend_latent = _functions.full("mla_paged")


def attend_to_lists(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    rows: torch.Tensor,
    lengths: torch.Tensor,
    scale: float | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over keys by their rows; nothing gives zeros and an lse of -inf.

    Args:
        q: queries [N, Hq, D].
        k: keys [M, H, D].
        v: values [M, H, Dv].
        rows: of the keys that each query sees, for each head of keys [N, H, K].
        lengths: how many of these there are [N, H].
        scale: of the scores; 1 / sqrt(D) for none.

    Returns:
        The result [N, Hq, Dv] and the logarithms of the sums [N, Hq].
    """
    return _over_lists(_attend, (q,), (k, v), rows, lengths, scale)


def attend_to_latent_lists(
    q: torch.Tensor,
    q_pe: torch.Tensor,
    ckv: torch.Tensor,
    kpe: torch.Tensor,
    rows: torch.Tensor,
    lengths: torch.Tensor,
    scale: float | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As attend_to_lists, of keys that are values in their first dimensions.

    Args:
        q: queries [N, Hq, D].
        q_pe: their rotated dimensions [N, Hq, R].
        ckv: keys and values [M, H, D].
        kpe: the keys' rotated dimensions [M, H, R].
        rows: of the keys that each query sees, for each head of keys [N, H, K].
        lengths: how many of these there are [N, H].
        scale: of the scores; 1 / sqrt(D + R) for none.

    Returns:
        The result [N, Hq, D] and the logarithms of the sums [N, Hq].
    """
    return _over_lists(_attend_latent, (q, q_pe), (ckv, kpe), rows, lengths, scale)


def _over_lists(
    attend: Callable[..., Any],
    queries: tuple[torch.Tensor, ...],
    keys: tuple[torch.Tensor, ...],
    rows: torch.Tensor,
    lengths: torch.Tensor,
    scale: float | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each head of keys has lists of its own: its keys are pages, its queries are sequences."""
    tokens, q_heads, _ = queries[0].shape
    heads = keys[0].shape[1]
    pages = rows * heads + torch.arange(heads, device=rows.device)[:, None]
    out, lse = attend(
        *(q.reshape(tokens * heads, q_heads // heads, q.shape[2]) for q in queries),
        *(x.flatten(0, 1)[:, None, None] for x in keys),
        pages.flatten(0, 1).int(),
        lengths.flatten().int(),
        scale=score_scale(scale),
    )
    return out.view(tokens, q_heads, out.shape[-1]), lse.T.contiguous().view(tokens, q_heads)


def valid_first(
    keys: torch.Tensor, starts: torch.Tensor, ends: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of the keys in lists, those that are seen first and in their order, and their number.

    Args:
        keys: positions in the query's own sequence [N, H, K]; others than 0 .. ends are padding.
        starts: row of the sequence's first key [N].
        ends: one past the last position that the query sees [N].
    """
    seen = (keys >= 0) & (keys < ends[:, None, None])
    order = torch.argsort((~seen).to(torch.uint8), dim=-1, stable=True)
    return starts[:, None, None] + keys.gather(-1, order).long(), seen.sum(-1)


def sequence_starts(batch: int, queries: int, keys: int, like: torch.Tensor) -> torch.Tensor:
    """The row of key 0 for each query of a batch of sequences of the same length."""
    return torch.arange(batch, device=like.device).repeat_interleave(queries) * keys


def largest(x: torch.Tensor, k: int, **window: Any) -> torch.Tensor:
    """Where the k largest of each row are, of equals the first; -1 where a row has no more."""
    indices: torch.Tensor = ops.topk(x, k, **window)[1]
    return indices
