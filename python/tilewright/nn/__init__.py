"""torch.nn modules that run tilewright's operators.

Each has the arguments and the state_dict keys of the module that it replaces, so that weights load
and classes can be swapped.

Example:
    >>> import torch
    >>> from tilewright import nn
    >>> norm = nn.RMSNorm(8, eps=1e-5).requires_grad_(False)
    >>> norm(torch.ones(2, 8)).shape
    torch.Size([2, 8])
"""

from __future__ import annotations

from tilewright.nn._attention import FlashAttention, MultiheadAttention, RotaryEmbedding
from tilewright.nn._flex_attention import flex_attention
from tilewright.nn._layers import Dropout, GatedMLP, LayerNorm, Linear, RMSNorm, SwiGLU

Attention = FlashAttention

__all__ = [
    "Attention",
    "Dropout",
    "FlashAttention",
    "GatedMLP",
    "LayerNorm",
    "Linear",
    "MultiheadAttention",
    "RMSNorm",
    "RotaryEmbedding",
    "SwiGLU",
    "flex_attention",
]
