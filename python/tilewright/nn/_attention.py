"""Attention and rotary embedding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F

from tilewright import _layouts, ops
from tilewright._values import score_scale
from tilewright._weights import (
    attention_by_weights,
    attention_with_bias,
    sees_and_bias,
    sees_in_range,
)

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
        interleaved: bool = True,
    ) -> None:
        """Tables of all positions.

        Args:
            dim: how many dimensions of a head are rotated; the others stay.
            max_seq_len: how many positions there are.
            base: of the geometric series of wavelengths.
            interleaved: whether neighbours are pairs, as in torchtune; else halves of a head are.

        Raises:
            ValueError: dim is odd.
        """
        super().__init__()
        if dim % 2:
            raise ValueError(f"RotaryEmbedding: dim = {dim} must be even")
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
    """Attention without parameters: flash-attn's FlashSelfAttention and FlashCrossAttention.

    Takes qkv [B, S, 3, H, D], or q, k, v [B, S, H, D] with possibly fewer heads of k and v; of
    sequences one after the other, as cu_seqlens divides them, all without B.
    """

    alibi_slopes: torch.Tensor | None

    def __init__(
        self,
        causal: bool = False,
        softmax_scale: float | None = None,
        attention_dropout: float = 0.0,
        window_size: tuple[int, int] = (-1, -1),
        alibi_slopes: torch.Tensor | None = None,
        deterministic: bool = False,
        *,
        softcap: float = 0.0,
    ) -> None:
        """Keeps the options.

        Dropout, while training, and gradients with alibi_slopes take the memory of the weights.

        Args:
            causal: whether a query sees no key behind its own position.
            softmax_scale: of the scores, by default 1 / sqrt(D).
            attention_dropout: the probability with which a weight is dropped while training.
            window_size: how many keys a query sees before and behind its own; -1 is all.
            alibi_slopes: float32 [H], times whose -|distance| is added to the scores.
            deterministic: accepted for flash-attn's sake: gradients always are.
            softcap: c * tanh(score / c) replaces each score, unless it is 0.

        Raises:
            ValueError: alibi_slopes is of another rank.
        """
        super().__init__()
        if alibi_slopes is not None and alibi_slopes.dim() != 1:
            shown = tuple(alibi_slopes.shape)
            raise ValueError(f"FlashAttention: alibi_slopes is {shown}, but [H] is needed")
        self.attention_dropout = attention_dropout
        self.causal = causal
        self.softmax_scale = softmax_scale
        self.window_size = window_size
        self.register_buffer("alibi_slopes", alibi_slopes, persistent=False)
        self.deterministic = deterministic
        self.softcap = softcap

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None = None,
        v: torch.Tensor | None = None,
        causal: bool | None = None,
        *,
        cu_seqlens: torch.Tensor | None = None,
        max_seqlen: int | None = None,
        cu_seqlens_k: torch.Tensor | None = None,
        max_seqlen_k: int | None = None,
    ) -> torch.Tensor:
        """[B, S, H, D]; a causal query sees keys up to its own, the last one all of them.

        Args:
            q: queries, or queries, keys and values.
            k: keys.
            v: values.
            causal: instead of the module's option.
            cu_seqlens: int32 [C + 1], where each of C sequences starts and the last one ends.
            max_seqlen: accepted for flash-attn's sake, as max_seqlen_k is: nothing depends on it.
            cu_seqlens_k: the same of the keys, by default as the queries have it.
            max_seqlen_k: see max_seqlen.

        Raises:
            TypeError: k or v is no tensor, or only one of them is given.
            ValueError: neither is given, and q is not all three; or only cu_seqlens_k is given.
        """
        if cu_seqlens is None and cu_seqlens_k is not None:
            raise ValueError("FlashAttention: cu_seqlens_k needs cu_seqlens")
        q, k, v = _separate(q, k, v, is_packed=cu_seqlens is not None)
        is_causal = self.causal if causal is None else causal
        dropout = self.attention_dropout if self.training else 0.0
        records = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
        by_weights = dropout or (records and self.alibi_slopes is not None)
        if cu_seqlens is None:
            if by_weights:
                return self._by_weights(q, k, v, is_causal, dropout)
            attended: torch.Tensor = ops.attention(q, k, v, **self._options(is_causal))
            return attended
        ends = cu_seqlens if cu_seqlens_k is None else cu_seqlens_k
        if not by_weights:
            attended = ops.attention_varlen(q, k, v, cu_seqlens, ends, **self._options(is_causal))
            return attended
        out = q.new_zeros(*q.shape[:2], v.shape[2])  # rows outside all sequences stay so
        rows, keys = cu_seqlens.tolist(), ends.tolist()
        for a, b, c, d in zip(rows, rows[1:], keys, keys[1:], strict=False):
            one = (q[None, a:b], k[None, c:d], v[None, c:d])
            out[a:b] = self._by_weights(*one, is_causal, dropout)[0]
        return out

    def _options(self, is_causal: bool) -> dict[str, Any]:
        """Of the operators."""
        left, right = self.window_size
        slopes = self.alibi_slopes
        return {
            "scale": score_scale(self.softmax_scale),
            "causal": is_causal,
            "window_left": left,
            "window_right": -1 if is_causal else right,
            "softcap": self.softcap,
            "alibi_slopes": None if slopes is None else slopes.float(),  # narrow with its module
        }

    def _by_weights(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool, dropout: float
    ) -> torch.Tensor:
        """The same by the weights, of which some are dropped."""
        options = self._options(is_causal)
        queries, keys = q.shape[1], k.shape[1]
        sees = sees_in_range(
            queries,
            keys,
            causal=is_causal,
            left=options["window_left"],
            right=options["window_right"],
        )
        bias = None
        if (slopes := options["alibi_slopes"]) is not None:
            at = torch.arange(keys - queries, keys, device=q.device)[:, None]
            distance = (torch.arange(keys, device=q.device) - at).abs()
            bias = -slopes[:, None, None] * distance
        out, _ = attention_by_weights(
            *(x.transpose(1, 2) for x in (q, k, v)),
            sees=sees.to(q.device),
            bias=bias,
            dropout=dropout,
            scale=options["scale"],
            softcap=self.softcap,
        )
        return out.transpose(1, 2).contiguous()

    def extra_repr(self) -> str:
        """The options."""
        return (
            f"causal={self.causal}, window_size={self.window_size}, softcap={self.softcap}, "
            f"attention_dropout={self.attention_dropout}"
        )


def _separate(
    q: torch.Tensor, k: torch.Tensor | None, v: torch.Tensor | None, is_packed: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values, which may be in one tensor."""
    given = [x for x in (k, v) if x is not None]
    if len(given) == 1 or not all(isinstance(x, torch.Tensor) for x in given):
        kinds = ", ".join(type(x).__name__ for x in (k, v))
        raise TypeError(f"FlashAttention: k and v are {kinds}, but both must be tensors")
    if k is not None and v is not None:
        return q, k, v
    needed = "[N, 3, H, D]" if is_packed else "[B, S, 3, H, D]"
    if q.dim() != needed.count(",") + 1 or q.shape[-3] != 3:
        raise ValueError(
            f"FlashAttention: q is {tuple(q.shape)}, but without k and v {needed} is needed"
        )
    q, k, v = q.unbind(-3)
    return q, k, v


class MultiheadAttention(torch.nn.MultiheadAttention):
    """torch.nn.MultiheadAttention by the operators linear and attention.

    Weights that are asked for, dropout, and gradients with masks other than the causal one take the
    memory of the weights.
    """

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        key_padding_mask: torch.Tensor | None = None,
        need_weights: bool = True,
        attn_mask: torch.Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The attended values, and their weights if these are needed.

        Raises:
            ValueError: is_causal without a mask, of another number of keys than queries.
        """
        q, k, v = self._projected(query, key, value)  # [B, H, S, D]
        is_square = q.shape[2] == k.shape[2]
        if is_causal and attn_mask is None and not is_square:
            raise ValueError(
                f"MultiheadAttention: is_causal of {q.shape[2]} queries and {k.shape[2]} keys "
                "needs an attn_mask"
            )
        dropout = self.dropout if self.training else 0.0
        is_masked = key_padding_mask is not None or (
            attn_mask is not None and not (is_causal and is_square)
        )
        if need_weights or dropout or is_masked:
            if is_causal and attn_mask is None:
                attn_mask = ~sees_in_range(q.shape[2], k.shape[2], causal=True).to(q.device)
            self._check_masks(attn_mask, key_padding_mask, q, k)
            sees, bias = self._sees_and_bias(attn_mask, key_padding_mask, len(q), k.shape[2])
            out, weights = attention_with_bias(
                q, k, v, sees=sees, bias=bias, dropout=dropout, needs_weights=need_weights
            )
        else:
            out, weights = _layouts.attention(q, k, v, causal=is_causal), None
        out = out.transpose(1, 2).flatten(2)
        if query.dim() == 2:
            out = out[0]
        elif not self.batch_first:
            out = out.transpose(0, 1)
        out = ops.linear(out, self.out_proj.weight, self.out_proj.bias)
        if weights is None or not need_weights:
            return out, None
        weights = weights.mean(1) if average_attn_weights else weights
        return out, weights[0] if query.dim() == 2 else weights

    def _projected(self, *given: torch.Tensor) -> Iterator[torch.Tensor]:
        """Queries, keys and values [B, H, S, D], and what the module adds to the latter two."""
        if self.in_proj_weight is not None:
            matrices = self.in_proj_weight.chunk(3)
        else:
            matrices = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        added = (None, self.bias_k, self.bias_v)
        for x, matrix, bias, more in zip(given, matrices, biases, added, strict=True):
            out = ops.linear(x, matrix, bias)
            if x.dim() == 2:
                out = out[None]
            elif not self.batch_first:
                out = out.transpose(0, 1)
            if more is not None:
                out = torch.cat((out, more.expand(len(out), 1, -1)), 1)
            if self.add_zero_attn and matrix is not matrices[0]:
                out = F.pad(out, (0, 0, 0, 1))
            yield out.view(*out.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)

    def _check_masks(
        self,
        attn_mask: torch.Tensor | None,
        key_padding_mask: torch.Tensor | None,
        q: torch.Tensor,
        k: torch.Tensor,
    ) -> None:
        """Refuses masks of other shapes than PyTorch's module takes."""
        batch, heads, queries = q.shape[:3]
        keys = k.shape[2] - (self.bias_k is not None) - self.add_zero_attn
        each = (queries, keys), (batch * heads, queries, keys)
        of_keys = ((batch, keys), (keys,)) if batch == 1 else ((batch, keys),)
        masks = ("attn_mask", attn_mask, each), ("key_padding_mask", key_padding_mask, of_keys)
        for name, mask, shapes in masks:
            if mask is not None and tuple(mask.shape) not in shapes:
                told = " or ".join(str(list(shape)) for shape in shapes)
                raise ValueError(
                    f"MultiheadAttention: {name} is {list(mask.shape)}, but {told} is needed"
                )

    def _sees_and_bias(
        self,
        attn_mask: torch.Tensor | None,
        key_padding_mask: torch.Tensor | None,
        batch: int,
        keys: int,
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """PyTorch's masks, True for what is hidden or to be added, for `attention_with_bias`."""
        masks = []
        if attn_mask is not None:
            by_heads = attn_mask.dim() == 3
            masks.append(attn_mask.reshape(-1, self.num_heads if by_heads else 1,
                                           *attn_mask.shape[-2:]))  # fmt: skip
        if key_padding_mask is not None:
            masks.append(key_padding_mask.reshape(batch, 1, 1, -1))
        sees: torch.Tensor | None = None
        bias: torch.Tensor | None = None
        for mask in masks:
            is_hidden = mask.dtype == torch.bool
            mask = F.pad(mask, (0, keys - mask.shape[-1]))  # the keys that the module adds are seen
            one, more = sees_and_bias(~mask if is_hidden else mask)
            sees = one if sees is None else sees & one
            bias = bias if more is None else more if bias is None else bias + more
        return sees, bias
