"""torch.nn.attention.flex_attention, without a compiler."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention.flex_attention import AuxOutput, noop_mask

from tilewright import _layouts
from tilewright._score_text import Numbers, traced
from tilewright._values import score_scale
from tilewright.nn._flex_gradient import ByOperator, Modified, by_weights

Tensor = torch.Tensor
Function = Callable[..., Any] | str


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Function | None = None,
    block_mask: Any = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: Any = None,
    mask_mod: Function | None = None,
) -> Any:
    """Attention whose scores a function changes and another hides.

    Both functions are traced at each call, which takes some 0.1 ms; their text, as the operator
    `attention` takes it, is used as it is. On Hopper a kernel is compiled for a function when it is
    first called with it. A gradient is computed a part of the queries at a time; in the memory of
    all weights, if a captured tensor has one, or under torch.compile.

    Args:
        query: [B, Hq, S, D].
        key: [B, H, L, D].
        value: [B, H, L, Dv].
        score_mod: score_mod(score, b, h, q_idx, kv_idx), the score that replaces one. Tensors that
            it reads by index become float32 or int32; an index beyond their ends reads an end.
        block_mask: a torch BlockMask, of which the mask_mod is taken; its blocks where it has none.
        scale: of the products, by default 1 / sqrt(D).
        enable_gqa: whether H may divide Hq.
        return_lse: whether the logarithms of the sums [B, Hq, S] are returned, too.
        kernel_options: of PyTorch's kernels; nothing here depends on them.
        return_aux: a torch AuxRequest; the result is then (out, AuxOutput).
        mask_mod: mask_mod(b, h, q_idx, kv_idx), whether a query sees a key. A query that sees none
            gives zeros and -inf.

    Raises:
        TypeError: a function cannot be traced.
        ValueError: shapes do not fit, what a function computes has no meaning, or the greatest
            scores are asked for.
    """
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise ValueError(
            f"flex_attention: {query.shape[1]} heads of queries and {key.shape[1]} of keys need "
            "enable_gqa=True"
        )
    if return_aux is not None and (return_lse or return_aux.max_scores):
        raise ValueError("flex_attention: return_aux gives lse alone, and stands for return_lse")
    masks = [mask_mod] if mask_mod is not None else []
    if block_mask is not None:
        named = block_mask.mask_mod is not noop_mask
        masks.append(block_mask.mask_mod if named else _by_blocks(block_mask))
    wants_lse = return_lse or return_aux is not None
    out, lse = _attend((query, key, value), score_mod, masks, scale, wants_lse)
    if return_aux is not None:
        return out, AuxOutput(lse=lse if return_aux.lse else None)
    return (out, lse) if return_lse else out


def _attend(
    given: tuple[Tensor, Tensor, Tensor],
    score_mod: Function | None,
    masks: list[Function],
    scale: float | None,
    wants_lse: bool,
) -> tuple[Tensor, Tensor | None]:
    numbers = Numbers()
    texts = [traced(f, ("b", "h", "q", "k"), numbers) for f in masks]
    options: dict[str, Any] = {
        "scale": score_scale(scale),
        "score_mod": traced(score_mod, ("score", "b", "h", "q", "k"), numbers),
        "mask_mod": " and ".join(f"({text})" for text in texts),
    }
    options |= numbers.tensors(given[0].device)
    learns = any(x.requires_grad for x in given) or numbers.learn
    if learns and torch.is_grad_enabled() and not _has_text(score_mod, *masks):
        factor = 1 / math.sqrt(given[0].shape[3]) if scale is None else scale
        whole = numbers.learn or torch.compiler.is_compiling()
        run = by_weights if whole else ByOperator.apply
        both: tuple[Tensor, Tensor] = run(*given, Modified(score_mod, masks, factor, options))
        return both
    if wants_lse:
        return _layouts.attention_with_lse(*given, **options)
    return _layouts.attention(*given, **options), None


def _has_text(*functions: Function | None) -> bool:
    return any(isinstance(f, str) for f in functions)


def _by_blocks(block_mask: Any) -> Function:
    """Whether a query's block sees a key's."""
    rows, columns = block_mask.BLOCK_SIZE
    sees = block_mask.to_dense() != 0  # [B or 1, H or 1, blocks of queries, blocks of keys]

    def mask(b: Any, h: Any, q: Any, k: Any) -> Any:
        batch, head = (i if sees.shape[d] > 1 else 0 for d, i in enumerate((b, h)))
        return sees[batch, head, q // rows, k // columns]

    return mask
