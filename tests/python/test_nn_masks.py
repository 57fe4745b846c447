"""What nn.MultiheadAttention says of masks that do not fit."""

from __future__ import annotations

import re

import pytest
import torch

from tilewright import nn


@pytest.mark.parametrize(
    ("name", "shape", "told"),
    [
        ("attn_mask", (3, 5), "attn_mask is [3, 5], but [5, 5] or [8, 5, 5] is needed"),
        ("attn_mask", (2, 5, 5), "attn_mask is [2, 5, 5], but [5, 5] or [8, 5, 5] is needed"),
        ("key_padding_mask", (5,), "key_padding_mask is [5], but [2, 5] is needed"),
    ],
)
def test_masks_of_another_shape_are_named(name: str, shape: tuple[int, ...], told: str) -> None:
    attention = nn.MultiheadAttention(24, 4, batch_first=True, add_bias_kv=True)
    x = torch.randn(2, 5, 24)
    attention(x, x, x, attn_mask=torch.zeros(8, 5, 5), key_padding_mask=torch.zeros(2, 5))
    with pytest.raises(ValueError, match=re.escape(f"MultiheadAttention: {told}")):
        attention(x, x, x, **{name: torch.zeros(shape)})
