"""Attention of one sequence in float64, and keys that lie on pages."""

from __future__ import annotations

import math

import torch


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, length: int) -> torch.Tensor:
    """Queries [S, Hq, D] of which the last stands at the last of `length` keys [L, H, D]."""
    if length <= 0:
        return torch.zeros(*q.shape[:-1], v.shape[-1], device=q.device, dtype=torch.float64)
    group = q.shape[1] // k.shape[1]
    k, v = (x[:length].double().repeat_interleave(group, 1) for x in (k, v))
    scores = torch.einsum("shd,lhd->hsl", q.double(), k) / math.sqrt(q.shape[-1])
    at = torch.arange(length - len(q), length, device=q.device)[:, None]
    hidden = torch.arange(length, device=q.device)[None] > at
    weights = torch.softmax(scores.masked_fill(hidden, -math.inf), -1).nan_to_num(0)
    return torch.einsum("hsl,lhd->shd", weights, v)


def on_pages(
    sequences: list[torch.Tensor], page: int, block_table: torch.Tensor, pages: int
) -> torch.Tensor:
    """Pages [pages, page, ...] of NaN but for the rows of each sequence, placed by its line."""
    of_row = sequences[0].shape[1:]
    out = sequences[0].new_full((pages, page, *of_row), math.nan)
    for rows, line in zip(sequences, block_table.long(), strict=True):
        whole = rows.new_full((len(line) * page, *of_row), math.nan)
        whole[: len(rows)] = rows
        out[line] = whole.view(len(line), page, *of_row)
    return out
