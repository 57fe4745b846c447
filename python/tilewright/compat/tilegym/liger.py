"""The liger suite of TileGym."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilewright import _layouts, ops
from tilewright.compat._coverage import by_name, refuse, uses

MISSING = by_name(
    {
        "cross-entropy": "cross_entropy fused_linear_cross_entropy",
        "divergence between distributions": "fused_linear_jsd jsd kl_div tvd",
        "group normalization": "group_norm",
        "layer normalization": "layer_norm",
        "neighbourhood attention": "fused_neighborhood_attention",
        "policy loss": "grpo_loss",
        "convolution": "multi_token_attention",
        "normalization of powers": "poly_norm",
        "rotary embedding by sections": "qwen2vl_mrope",
        "sparsemax": "sparsemax",
        "recomputation by shards": "tiled_mlp",
    }
)


def __getattr__(name: str) -> Callable[..., Any]:
    return refuse(__name__, MISSING, name)


def _tensor(x: torch.Tensor) -> torch.Tensor:
    return x


def _weight(W: torch.Tensor, offset: float) -> torch.Tensor:
    return W + offset if offset else W


@uses("fused_add_rms_norm")
def fused_add_rms_norm(
    X: torch.Tensor,
    R: torch.Tensor,
    W: torch.Tensor,
    eps: float = 1e-6,
    offset: float = 0.0,
    casting_mode: str = "llama",
) -> tuple[torch.Tensor, torch.Tensor]:
    """X + R normalized, and X + R."""
    y, s = ops.fused_add_rms_norm(X, R, _weight(W, offset), eps)
    return y, s


@uses("rms_norm")
def rms_norm(
    X: torch.Tensor,
    W: torch.Tensor | None,
    eps: float,
    offset: float = 0.0,
    casting_mode: str = "llama",
    in_place: bool = True,
    row_mode: bool | None = None,
) -> torch.Tensor:
    """RMS normalization over the last dimension, times W + offset."""
    weight = X.new_ones(X.shape[-1]) if W is None else _weight(W, offset)
    return _tensor(ops.rms_norm(X, weight, eps))


@uses("rope")
def rope(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Q and k [B, H, S, D] rotated by tables [B or 1, S, D]."""
    pairs = q.shape[-1] // 2
    q, k = (_layouts.rotate(x, cos, sin, pairs=pairs).contiguous() for x in (q, k))
    return q, k


@uses("rope")
def llama4_rope(
    q: torch.Tensor, k: torch.Tensor, freqs_cis: torch.Tensor, BLOCK_SIZE: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Q and k [B, S, H, D], pairs of neighbours rotated in place.

    freqs_cis is [S, D / 2] complex, [S, D / 2, 2] real, or [S, D]: cosines, then sines.
    """
    pairs = q.shape[-1] // 2
    if freqs_cis.is_complex():
        freqs_cis = torch.view_as_real(freqs_cis)
    if freqs_cis.dim() == 3:
        cos, sin = freqs_cis.unbind(-1)
    else:
        cos, sin = freqs_cis[:, :pairs], freqs_cis[:, pairs:]
    for x in (q, k):
        options: dict[str, Any] = {"pairs": pairs, "heads_first": False, "interleaved": True}
        x.copy_(_layouts.rotate(x, cos[None], sin[None], **options))
    return q, k


@uses("softmax")
def softmax(input: torch.Tensor) -> torch.Tensor:
    """The softmax along the last dimension."""
    return _tensor(ops.softmax(input))


@uses("gelu", "mul")
def geglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """gelu(a) * b, by tanh."""
    return _tensor(ops.mul(ops.gelu(a, "tanh"), b))


@uses("silu", "mul")
def swiglu(
    a: torch.Tensor,
    b: torch.Tensor,
    gate_multiplier: float = 1.0,
    down_multiplier: float = 1.0,
) -> torch.Tensor:
    """silu(a * gate_multiplier) * b * down_multiplier."""
    gate = a if gate_multiplier == 1 else a * gate_multiplier
    out = _tensor(ops.mul(ops.silu(gate), b))
    return out if down_multiplier == 1 else out * down_multiplier


@uses("relu", "mul")
def relu_squared(input: torch.Tensor) -> torch.Tensor:
    """max(x, 0) squared."""
    positive = ops.relu(input)
    return _tensor(ops.mul(positive, positive))


@uses("mul", "tanh", "add")
def dyt(
    x: torch.Tensor, alpha: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor | None = None
) -> torch.Tensor:
    """tanh(alpha * x) * gamma + beta."""
    out = ops.mul(ops.tanh(ops.mul(x, alpha)), gamma)
    return _tensor(out if beta is None else ops.add(out, beta))
