"""Masks as `attention` takes them: instead of a matrix, what each sequence's queries see.

transformers hands the result of the mask function to each layer's attention function. None stands
for causal attention to all keys; otherwise it is an int32 tensor [B, 1, 1, 5], a `Visible` per
sequence: transformers leaves masks of four dimensions alone when it meets them again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from transformers.masking_utils import causal_mask_function, prepare_padding_mask


class Visible(NamedTuple):
    """What the queries of one sequence see, in places among its keys."""

    first: int  # the first key that is no padding
    end: int  # one past the last such key
    start: int  # the place of the first query
    left: int  # how far to the left a query sees, or -1
    causal: int  # whether a query sees no later keys


class UnsupportedMaskError(NotImplementedError):
    """A mask that the operator `attention` does not have."""

    def __init__(self, what: str) -> None:
        """`what` is the matter."""
        super().__init__(f"tilewright: {what}; use attn_implementation='sdpa' for this model")


def _rows(q_length: int, every: bool) -> torch.Tensor:
    """Queries to look at: two in a row tell a window from a chunk."""
    if every or q_length <= 5:
        return torch.arange(q_length)
    return torch.tensor([0, 1, q_length // 2, q_length - 2, q_length - 1])


def _is_causal(
    function: Callable[..., Any],
    batch: int,
    queries: torch.Tensor,
    keys: torch.Tensor,
    window: int | None,
) -> bool:
    """Whether the mask function is the causal one with this window; False: it hides nothing.

    Raises:
        UnsupportedMaskError: it is another one.
    """
    q, k = queries[None, None, :, None], keys[None, None, None, :]
    sees = function(torch.arange(batch)[:, None, None, None], torch.zeros(1).long(), q, k)
    sees = torch.as_tensor(sees).expand(batch, 1, len(queries), len(keys))
    causal = k <= q
    if window is not None:
        causal = causal & (k > q - window)
    if torch.equal(sees, causal.expand_as(sees)):
        return True
    if window is None and bool(sees.all()):
        return False
    raise UnsupportedMaskError("a mask that is neither causal, a window nor padding")


def _range(valid: torch.Tensor) -> tuple[int, int]:
    """The first True and one past the last; all between must be."""
    places = valid.nonzero().flatten()
    if not len(places):
        return 0, 0
    first, end = int(places[0]), int(places[-1]) + 1
    if end - first != len(places):
        raise UnsupportedMaskError("padding between tokens")
    return first, end


def attention_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | torch.Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: torch.Tensor | None = None,
    local_size: int | None = None,
    allow_is_causal_skip: bool = True,
    device: torch.device | str = "cpu",
    **_more: Any,
) -> torch.Tensor | None:
    """Transformers' mask function for "tilewright".

    Raises:
        UnsupportedMaskError: the mask is neither causal, a window nor padding.
    """
    padding = prepare_padding_mask(attention_mask, kv_length, kv_offset)
    start = int(q_offset) - kv_offset
    causal, window = True, None if local_size is None or local_size >= kv_length else local_size
    if mask_function is not causal_mask_function:
        queries = _rows(q_length, not allow_is_causal_skip) + int(q_offset)
        keys = torch.arange(kv_length) + kv_offset
        causal = _is_causal(mask_function, batch_size, queries, keys, window)
    end = min(kv_length, start + q_length) if causal else kv_length
    ranges = [(0, end)] * batch_size
    if padding is not None:
        ranges = [_range(row) for row in padding[:, kv_offset : kv_offset + end].cpu()]
    all_keys = kv_length == start + q_length and all(r == (0, kv_length) for r in ranges)
    if causal and window is None and all_keys:
        return None
    left = -1 if window is None else window - 1
    rows = [Visible(first, end, start, left, causal) for first, end in ranges]
    return torch.tensor(rows, dtype=torch.int32, device=device)[:, None, None]
