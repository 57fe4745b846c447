"""Attention and rotary embedding."""

from __future__ import annotations

import torch

from tilewright import ops

__all__ = ["FlashAttention", "MultiheadAttention", "RotaryEmbedding"]


class RotaryEmbedding(torch.nn.Module):
    """Rotates queries or keys [B, S, H, D] by their positions: torchtune's module of this kind."""

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(
        self,
        dim: int,
        max_seq_len: int = 4096,
        base: float = 10000.0,
        *,
        interleaved: bool = False,
    ) -> None:
        """Tables of all positions.

        Args:
            dim: how many dimensions of a head are rotated; the others stay.
            max_seq_len: how many positions there are.
            base: of the geometric series of wavelengths.
            interleaved: whether neighbours are pairs; else halves of a head are.
        """
        super().__init__()
        self.interleaved = interleaved
        frequencies = 1.0 / base ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)
        angles = torch.outer(torch.arange(max_seq_len, dtype=torch.float32), frequencies)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x: torch.Tensor, input_pos: torch.Tensor | None = None) -> torch.Tensor:
        """X rotated; input_pos [B, S] or [S] holds positions, by default 0, 1, ..."""
        positions = None
        if input_pos is not None:
            positions = input_pos.to(torch.int32).expand(x.shape[:2])
        cos, sin = self.cos.float(), self.sin.float()
        out: torch.Tensor = ops.rope(x, cos, sin, positions, self.interleaved)
        return out


class FlashAttention(torch.nn.Module):
    """Attention without weights of its own: flash-attn's FlashSelfAttention and its function.

    Takes qkv [B, S, 3, H, D], or q, k, v [B, S, H, D] with possibly fewer heads of k and v.
    """

    def __init__(
        self,
        causal: bool = False,
        softmax_scale: float | None = None,
        attention_dropout: float = 0.0,
        window_size: tuple[int, int] = (-1, -1),
        softcap: float = 0.0,
    ) -> None:
        """Keeps the options.

        Raises:
            NotImplementedError: attention_dropout is not 0.
        """
        super().__init__()
        if attention_dropout:
            raise NotImplementedError("FlashAttention: there is no attention with dropout")
        self.causal = causal
        self.softmax_scale = softmax_scale
        self.window_size = window_size
        self.softcap = softcap

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None = None,
        v: torch.Tensor | None = None,
        causal: bool | None = None,
    ) -> torch.Tensor:
        """[B, S, H, D]; a causal query sees keys up to its own, the last one all of them."""
        if k is None or v is None:
            q, k, v = q.unbind(2)
        is_causal = self.causal if causal is None else causal
        left, right = self.window_size
        out: torch.Tensor = ops.attention(
            q,
            k,
            v,
            scale=self.softmax_scale or 0.0,
            causal=is_causal,
            window_left=left,
            window_right=-1 if is_causal else right,
            softcap=self.softcap,
        )
        return out

    def extra_repr(self) -> str:
        """The options."""
        return f"causal={self.causal}, window_size={self.window_size}, softcap={self.softcap}"


class MultiheadAttention(torch.nn.MultiheadAttention):
    """torch.nn.MultiheadAttention by the operators linear and attention.

    There are no attention weights (need_weights=False) and no masks but the causal one.
    """

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        key_padding_mask: torch.Tensor | None = None,
        need_weights: bool = False,
        attn_mask: torch.Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[torch.Tensor, None]:
        """The attended values, and None for their weights.

        Raises:
            NotImplementedError: an option is used that the operators do not have.
        """
        self._refuse(key_padding_mask, need_weights, attn_mask, is_causal)
        if self.in_proj_weight is not None:
            w_q, w_k, w_v = self.in_proj_weight.chunk(3)
        else:
            w_q, w_k, w_v = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        q, k, v = (
            ops.linear(x, w, b).unflatten(-1, (self.num_heads, self.head_dim))  # type: ignore[no-untyped-call]
            for x, w, b in zip((query, key, value), (w_q, w_k, w_v), biases, strict=True)
        )
        if query.dim() == 2:
            q, k, v = (x[None] for x in (q, k, v))
        elif not self.batch_first:
            q, k, v = (x.transpose(0, 1) for x in (q, k, v))
        out = ops.attention(q, k, v, causal=is_causal).flatten(2)
        if query.dim() == 2:
            out = out[0]
        elif not self.batch_first:
            out = out.transpose(0, 1)
        return ops.linear(out, self.out_proj.weight, self.out_proj.bias), None

    def _refuse(
        self,
        key_padding_mask: torch.Tensor | None,
        need_weights: bool,
        attn_mask: torch.Tensor | None,
        is_causal: bool,
    ) -> None:
        missing = {
            "key_padding_mask": key_padding_mask is not None,
            "need_weights=True": need_weights,
            "an attn_mask that is not causal": attn_mask is not None
            and not (is_causal and attn_mask.shape[-2] == attn_mask.shape[-1]),
            "dropout": self.training and self.dropout > 0,
            "add_bias_kv": self.bias_k is not None,
            "add_zero_attn": self.add_zero_attn,
        }
        used = [name for name, is_used in missing.items() if is_used]
        if used:
            raise NotImplementedError(f"MultiheadAttention: there is no {' and no '.join(used)}")
