"""Masks as `attention` takes them: instead of a matrix, runs of queries and the keys they see.

transformers hands the result of the mask function to each layer's attention function. That is a
`RangeMask`, which knows its runs. A mask of a user's own is a matrix [B, 1, Q, K], which `runs_of`
reads; so is each mask while a graph is traced, but for None: causal attention to all keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from transformers.masking_utils import causal_mask_function, prepare_padding_mask, sdpa_mask

from tilewright.hf._range_mask import RangeMask, Run


class UnsupportedMaskError(NotImplementedError):
    """A mask that the operator `attention` does not have."""

    def __init__(self, what: str) -> None:
        """`what` is the matter."""
        super().__init__(f"tilewright: {what}; use attn_implementation='sdpa' for this model")


# How the range of keys changes from a query to the next: by how much first and end move.
_CONSTANT, _CAUSAL, _WINDOW = (0, 0), (0, 1), (1, 1)


def _runs_of_ranges(ranges: Sequence[tuple[int, int]]) -> list[Run]:
    """Runs of queries, of which each sees the keys first <= k < end."""
    out: list[Run] = []
    begin = 0
    while begin < len(ranges):
        first, end = ranges[begin]
        stop, step = begin + 1, None
        while stop < len(ranges):
            moved = (ranges[stop][0] - ranges[stop - 1][0], ranges[stop][1] - ranges[stop - 1][1])
            if moved not in (_CONSTANT, _CAUSAL, _WINDOW) or step not in (None, moved):
                break
            step, stop = moved, stop + 1
        left = end - first - 1 if step == _WINDOW else -1
        last = ranges[stop - 1][1]
        if end > first:
            out.append(Run(begin, stop, first, last, left, step in (_CAUSAL, _WINDOW)))
        begin = stop
    return out


def runs_of(mask: torch.Tensor) -> list[tuple[list[Run], torch.Tensor | None]]:
    """What each sequence of a mask [B, 1, Q, K] sees, where that is True, or a zero to add.

    Returns:
        Runs, and the keys whose places they count; None where that is every key.

    Raises:
        UnsupportedMaskError: it differs among heads, has other numbers, or a query sees keys with
            others between them that another query sees.
    """
    sees = mask
    if mask.dtype != torch.bool:
        if not mask.dtype.is_floating_point:
            raise UnsupportedMaskError(f"a mask of one's own, {mask.dtype}{list(mask.shape)}")
        sees = mask == 0
        if bool((~sees & (mask > -1e4)).any()):
            raise UnsupportedMaskError("a mask that adds other numbers than 0 and -inf")
    if mask.ndim != 4 or not bool((sees == sees[:, :1]).all()):
        raise UnsupportedMaskError(f"a mask of one's own of shape {list(mask.shape)}, by heads")
    return [_runs_of_one(one) for one in sees[:, 0]]


def _runs_of_one(sees: torch.Tensor) -> tuple[list[Run], torch.Tensor | None]:
    """The runs of one sequence, [Q, K]; keys that no query sees do not count."""
    keys = sees.any(0).nonzero().flatten()
    if len(keys) == 0:
        return [], None
    low, high = int(keys[0]), int(keys[-1]) + 1
    skips = high - low != len(keys)
    sees = (sees[:, keys] if skips else sees).int()
    first, count = sees.argmax(-1), sees.sum(-1)
    end = torch.where(count > 0, sees.shape[-1] - sees.flip(-1).argmax(-1), first)
    if not torch.equal(end - first, count):
        raise UnsupportedMaskError("a mask with keys that are hidden between others")
    ranges = list(zip(first.tolist(), end.tolist(), strict=True))
    return _runs_of_ranges(ranges), keys if skips else None


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
) -> bool | None:
    """Whether the mask function is the causal one with this window.

    Returns:
        False if it hides nothing, None if it is another one.
    """
    q, k = queries[None, None, :, None], keys[None, None, None, :]
    sees = function(torch.arange(batch)[:, None, None, None], torch.zeros(1).long(), q, k)
    sees = torch.as_tensor(sees).expand(batch, 1, len(queries), len(keys))
    causal = k <= q
    if window is not None:
        causal = causal & (k > q - window)
    if torch.equal(sees, causal.expand_as(sees)):
        return True
    return False if window is None and bool(sees.all()) else None


def _range(valid: torch.Tensor) -> tuple[int, int] | None:
    """The first True and one past the last; None if not all between are."""
    places = valid.nonzero().flatten()
    if not len(places):
        return 0, 0
    first, end = int(places[0]), int(places[-1]) + 1
    return (first, end) if end - first == len(places) else None


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
    **more: Any,
) -> torch.Tensor | None:
    """Transformers' mask function for "tilewright".

    Raises:
        UnsupportedMaskError: keys are hidden between others.
    """

    def matrix() -> torch.Tensor:
        sees: Any = sdpa_mask(
            batch_size, q_length, kv_length, cast(int, q_offset), kv_offset, mask_function,
            attention_mask,
            **{**more, "allow_is_causal_skip": False, "allow_is_bidirectional_skip": False},
            device=device,
        )  # fmt: skip
        assert isinstance(sees, torch.Tensor)  # nothing may be left out
        return sees

    if q_length == 1 and not allow_is_causal_skip:
        return matrix()  # it may be for a graph that is compiled already
    padding = prepare_padding_mask(attention_mask, kv_length, kv_offset)
    is_plain = mask_function is causal_mask_function and padding is None
    if torch.compiler.is_compiling() and not (is_plain and isinstance(q_offset, int)):
        return matrix()  # no value of a tensor is known
    start = int(q_offset) - kv_offset
    causal: bool | None = True
    window = None if local_size is None or local_size >= kv_length else local_size
    if mask_function is not causal_mask_function:
        queries = _rows(q_length, not allow_is_causal_skip) + int(q_offset)
        keys = torch.arange(kv_length) + kv_offset
        causal = _is_causal(mask_function, batch_size, queries, keys, window)
    end = min(kv_length, start + q_length) if causal else kv_length
    ranges: list[tuple[int, int] | None] = [(0, end)] * batch_size
    if padding is not None:
        ranges = [_range(row) for row in padding[:, kv_offset : kv_offset + end].cpu()]
    if causal is None or None in ranges:
        return matrix()
    all_keys = kv_length == start + q_length and all(r == (0, kv_length) for r in ranges)
    if causal and window is None and all_keys and torch.compiler.is_compiling():
        return None  # which is causal if the layer says so: not all that are do
    left = -1 if window is None else window - 1
    runs = []
    for first, stop in filter(None, ranges):
        # The operator puts the last query at the last key; those before the first key see none.
        high = min(max(stop - start, 0), q_length) if causal else q_length
        runs.append([Run(0, high, first, stop, left, causal)] if stop > first and high else [])
    return RangeMask(runs, q_length, kv_length, device)
