"""What the mappings of linear attention share: tensors are [B, T, H, D], gates logarithms."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import _functions, ops
from tilewright.compat._tensors import tensor

_forward, _backward = (_functions.full(f"linear_attention{end}") for end in ("", "_backward"))


def gates(g: torch.Tensor | None, like: torch.Tensor, heads: int) -> torch.Tensor:
    """Gates [B, T, heads] for every key dimension, without a copy; zeros where there are none."""
    if g is None:
        g = like.new_zeros((1, 1, 1), dtype=torch.float32)
    return g.float()[..., None].expand(*like.shape[:2], heads, like.shape[-1])


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
    **options: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output and the last state, which is float32."""
    out, last = ops.linear_attention(
        q, k, v, g.float(), None if beta is None else beta.float(), _float(state), **options
    )
    return out, last


def attend_by_chunks(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    chunk_size: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output, unscaled, and the states before each chunk and after the last."""
    out, _, states = _forward(q, k, v, g, beta.float(), None, 1.0, chunk_size)
    return out, states


def gradients(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor | None,
    state: torch.Tensor | None,
    final_grad: torch.Tensor | None,
    scale: float,
) -> tuple[torch.Tensor, ...]:
    """Those of q, k, v, g, and beta."""
    given = (None if beta is None else beta.float(), _float(state), _float(final_grad))
    made: tuple[torch.Tensor, ...] = _backward(grad, q, k, v, g.float(), *given, scale)
    return made[:5]


def normalized(x: torch.Tensor) -> torch.Tensor:
    """X / sqrt(sum of squares + 1e-6) along its last dimension."""
    n = x.shape[-1]
    return tensor(ops.rms_norm(x, x.new_full((n,), n**-0.5), 1e-6 / n))


def _float(x: torch.Tensor | None) -> torch.Tensor | None:
    return None if x is None else x.float()
