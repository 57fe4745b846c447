"""transformers' attention function for "tilewright"."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import ops
from tilewright.hf._masks import UnsupportedMaskError, Visible


def _one_mask(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sees: Visible, options: dict[str, Any]
) -> torch.Tensor:
    """Attention of sequences that share a mask; queries that stand at padding give zeros."""
    first, end, start, left, causal = sees
    # The operator puts the last query at the last key; those in front of the first key see none.
    high = min(max(end - start, 0), q.shape[1]) if causal else q.shape[1]
    if end <= first:
        return q.new_zeros(*q.shape[:3], v.shape[3])
    out: torch.Tensor = ops.attention(
        q[:, :high],
        k[:, first:end],
        v[:, first:end],
        causal=bool(causal),
        window_left=left,
        **options,
    )
    if high < q.shape[1]:
        out = torch.nn.functional.pad(out, (0, 0, 0, 0, 0, q.shape[1] - high))
    return out


def _masked(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor, options: dict[str, Any]
) -> torch.Tensor:
    if mask.dtype != torch.int32 or mask.shape[1:] != (1, 1, len(Visible._fields)):
        raise UnsupportedMaskError(f"a mask of one's own, {mask.dtype}{list(mask.shape)}")
    rows = [Visible(*row) for row in mask.flatten(1).tolist()]
    if all(row == rows[0] for row in rows):
        return _one_mask(q, k, v, rows[0], options)
    parts = [
        _one_mask(q[b : b + 1], k[b : b + 1], v[b : b + 1], row, options)
        for b, row in enumerate(rows)
    ]
    return torch.cat(parts)


def attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **more: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of query [B, H, S, D]; returns [B, S, H, Dv], and None for the weights.

    Raises:
        NotImplementedError: the model asks for something that the operator does not have.
    """
    refused = {
        "dropout": bool(dropout),
        "attention weights": bool(more.get("output_attentions")),
        "position_bias": more.get("position_bias") is not None,
        "paged cache": more.get("cache") is not None,
    }
    for what, is_wanted in refused.items():
        if is_wanted:
            raise UnsupportedMaskError(f"attention has no {what}")
    q, k, v = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    options: dict[str, Any] = {"scale": scaling or 0.0, "softcap": softcap or 0.0}
    if s_aux is not None:
        options["sinks"] = s_aux.float()
    if attention_mask is not None:
        return _masked(q, k, v, attention_mask, options), None
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    left = sliding_window - 1 if sliding_window and causal else -1
    out: torch.Tensor = ops.attention(q, k, v, causal=bool(causal), window_left=left, **options)
    return out, None
