"""Operators on the layouts that PyTorch models use: heads before positions, full rotary tables."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import _functions, _torch, ops

_torch.load()  # so that what is compiled finds the operators
_attention_full = _functions.full("attention")


def rotary_tables(
    cos: torch.Tensor, sin: torch.Tensor, pairs: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Tables [B or 1, S, 2 * pairs or pairs] of each token as the operator `rope` takes them.

    Returns:
        cos and sin [P, pairs], and the row of each token; None where that is its place.
    """
    batch, length = cos.shape[0], cos.shape[1]
    tables = [t[..., :pairs].reshape(batch * length, pairs).float() for t in (cos, sin)]
    if batch == 1:
        return tables[0], tables[1], None
    rows = torch.arange(batch * length, dtype=torch.int32, device=cos.device)
    return tables[0], tables[1], rows.view(batch, length)


def rotate(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    pairs: int,
    heads_first: bool = True,
    interleaved: bool = False,
    backend: str | None = None,
) -> torch.Tensor:
    """`rope` of x [B, H, S, D], or [B, S, H, D], with tables [B or 1, S, ...]."""
    c, s, positions = rotary_tables(cos, sin, pairs)
    if positions is None and len(x) > 1 and len(c) != x.shape[2 if heads_first else 1]:
        raise ValueError(f"rope: {len(c)} positions in the tables, but x is {tuple(x.shape)}")
    x = x.transpose(1, 2) if heads_first else x
    out: torch.Tensor = ops.rope(x, c, s, positions, interleaved, backend=backend)
    return out.transpose(1, 2) if heads_first else out


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> torch.Tensor:
    """`attention` of q [B, Hq, S, D] and k, v [B, H, L, D]; the result is [B, Hq, S, Dv] in place.

    It is laid out as [B, S, Hq, Dv], which is what an output projection reads.
    """
    out: torch.Tensor = ops.attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), **options
    )
    return out.transpose(1, 2)


def attention_with_lse(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `attention`, and the logarithms of the sums [B, Hq, S]."""
    swapped = (x.transpose(1, 2) for x in (q, k, v))
    out, lse = _attention_full(*swapped, **options)
    return out.transpose(1, 2), lse


def gated(gate: torch.Tensor, up: torch.Tensor, activation: str) -> torch.Tensor:
    """activation(gate) * up."""
    out: torch.Tensor
    if activation == "silu":
        out = ops.swiglu(gate, up)
    elif activation == "relu":
        out = ops.mul(ops.relu(gate), up)
    else:
        out = ops.mul(ops.gelu(gate, "tanh" if activation == "gelu_tanh" else "none"), up)
    return out
