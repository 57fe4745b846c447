"""TileGym's attention operators: q [B, H, S, D], causal masks aligned at the first key."""

from __future__ import annotations

import math
from typing import Any

import torch

from tilewright import _functions, _layouts, ops
from tilewright._values import score_scale
from tilewright.compat._tensors import computable, packed
from tilewright.compat.tilegym._backends import also_called, uses

_mla_full = _functions.full("mla")
_LOG2_E = math.log2(math.e)

Lengths = tuple[torch.Tensor, torch.Tensor]


def _options(
    q_len: int,
    kv_len: int,
    *,
    causal: bool,
    left: int = -1,
    right: int | None = None,
    start: int = 0,
    name: str,
) -> tuple[int, dict[str, Any]]:
    """How many keys there are to see, and the mask, where query i stands at key start + i.

    Without causality a window reaches as far to the right as to the left, if nothing is said.
    """
    if not causal:
        if left >= 0 and q_len != kv_len:
            raise NotImplementedError(f"{name}: a window needs as many keys as queries")
        return kv_len, {"window_left": left, "window_right": left if right is None else right}
    end = start + q_len  # the operator puts the last query at the last key
    if end > kv_len:
        beyond = end - kv_len
        if 0 <= left < beyond:
            raise NotImplementedError(f"{name}: a window that ends before the last key")
        return kv_len, {
            "window_left": left - beyond if left >= 0 else -1,
            "window_right": beyond,
        }
    return end, {"causal": True, "window_left": left}


def _attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None,
    causal: bool,
    name: str,
    left: int = -1,
    right: int | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    end, mask = _options(q.shape[2], k.shape[2], causal=causal, left=left, right=right, name=name)
    out = _layouts.attention(
        computable(q),
        computable(k[:, :, :end]),
        computable(v[:, :, :end]),
        scale=score_scale(scale),
        softcap=softcap or 0.0,
        **mask,
    )
    return packed(out).to(q.dtype)


@uses("attention")
def fmha(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scaling: float | None = None,
    is_causal: bool = True,
    **tuning: Any,
) -> torch.Tensor:
    """Attention of a prompt, grouped heads included."""
    return _attend(q, k, v, scale=scaling, causal=is_causal, name="fmha")


@uses("attention")
def tile_fmha_functional(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scaling: float | None = None,
    is_causal: bool = True,
    **tuning: Any,
) -> torch.Tensor:
    """As fmha."""
    return fmha(q, k, v, scaling, is_causal, **tuning)


@uses("attention")
def tile_fmha_with_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scaling: float | None = None,
    is_causal: bool = True,
    **tuning: Any,
) -> torch.Tensor:
    """As fmha."""
    return fmha(q, k, v, scaling, is_causal, **tuning)


@uses("attention")
def fmha_forward_with_lse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    sm_scale: float | None,
    is_causal: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As fmha, and the logarithms of the sums [B, H, S] to base 2."""
    end, mask = _options(q.shape[2], k.shape[2], causal=is_causal, name="fmha_forward_with_lse")
    options = {"scale": score_scale(sm_scale), **mask}
    out, lse = _layouts.attention_with_lse(q, k[:, :, :end], v[:, :, :end], **options)
    return packed(out), lse * _LOG2_E


@uses("attention_backward")
def fmha_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    do: torch.Tensor,
    lse: torch.Tensor,
    sm_scale: float,
    is_causal: bool = True,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of q, k and v, from what fmha_forward_with_lse returned."""
    end, mask = _options(q.shape[2], k.shape[2], causal=is_causal, name="fmha_backward")
    do, q, keys, values, o = (x.transpose(1, 2) for x in (do, q, k[:, :, :end], v[:, :, :end], o))
    options: dict[str, Any] = {"scale": score_scale(sm_scale), **mask}
    made = ops.attention_backward(do, q, keys, values, o, lse / _LOG2_E, **options)
    dq, dk, dv = (packed(gradient.transpose(1, 2)) for gradient in made)
    unseen = (0, 0, 0, k.shape[2] - end)
    return dq, torch.nn.functional.pad(dk, unseen), torch.nn.functional.pad(dv, unseen)


def _starts(count: int, length: int, lengths: torch.Tensor | None, like: torch.Tensor) -> Lengths:
    """Which of the positions [B, L] there are, and where each sequence begins among them."""
    if lengths is None:
        lengths = torch.full((count,), length, device=like.device)
    there = torch.arange(length, device=like.device) < lengths[:, None]
    return there, torch.nn.functional.pad(there.sum(1).cumsum(0), (1, 0)).int()


@uses("attention_varlen")
def fmha_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scaling: float | None = None,
    is_causal: bool = True,
    q_lens: torch.Tensor | None = None,
    kv_lens: torch.Tensor | None = None,
    **tuning: Any,
) -> torch.Tensor:
    """Attention of the first q_lens [B] queries to the first kv_lens keys; the rest is zero.

    The last query stands at the last key.
    """
    there, starts = _starts(len(q), q.shape[2], q_lens, q)
    keys_there, key_starts = _starts(len(k), k.shape[2], kv_lens, k)
    rows = q.transpose(1, 2)[there]
    keys, values = (x.transpose(1, 2)[keys_there] for x in (k, v))
    given = (rows, keys, values, starts, key_starts)
    made = ops.attention_varlen(*given, causal=is_causal, scale=score_scale(scaling))
    out = q.new_zeros(*there.shape, q.shape[1], v.shape[3])
    out[there] = made
    return packed(out.transpose(1, 2))


@uses("attention")
def fmha_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    sm_scale: float | None,
    kv_len_per_split: int | None = None,
    **tuning: Any,
) -> torch.Tensor:
    """Attention of one query [B, H, 1, D] to all keys."""
    return _attend(q, k, v, scale=sm_scale, causal=False, name="fmha_decode")


@uses("attention")
def gemma_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scaling: float | None = None,
    window_size: int = 0,
    soft_cap: float | None = None,
    is_causal: bool = True,
    **tuning: Any,
) -> torch.Tensor:
    """As fmha, with a window of keys at most window_size away and capped scores."""
    return _attend(
        q,
        k,
        v,
        scale=scaling,
        causal=is_causal,
        left=window_size if window_size > 0 else -1,
        softcap=soft_cap,
        name="gemma_attention",
    )


@uses("attention")
@also_called(sm_scale="scaling")
def gemma_attention_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scaling: float | None = None,
    window_size: int = 0,
    soft_cap: float | None = None,
    **tuning: Any,
) -> torch.Tensor:
    """As gemma_attention, of one query that stands at the last key; scaling or sm_scale."""
    out = _layouts.attention(
        q,
        k,
        v,
        scale=score_scale(scaling),
        window_left=window_size if window_size > 0 else -1,
        softcap=soft_cap or 0.0,
    )
    return packed(out)


@uses("attention")
def swa_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    window_size: int,
    scaling: float | None = None,
    is_causal: bool = True,
    **tuning: Any,
) -> torch.Tensor:
    """Attention to the window_size keys that end at the query's; without causality also later."""
    left = window_size - 1 if window_size > 0 else -1
    options: dict[str, Any] = {"scale": scaling, "causal": is_causal, "left": left, "right": -1}
    return _attend(q, k, v, name="swa_attention", **options)


def _latent(
    q: torch.Tensor, qpe: torch.Tensor, k: torch.Tensor, kpe: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries and keys with their rotated dimensions, which all heads of keys share."""
    shared = kpe.expand(*k.shape[:-1], kpe.shape[-1])
    return torch.cat([q, qpe], -1), torch.cat([k, shared], -1)


@uses("attention")
def mla(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    qpe: torch.Tensor,
    kpe: torch.Tensor,
    is_causal: bool,
    scaling: float | None = None,
    **tuning: Any,
) -> torch.Tensor:
    """Attention whose queries and keys have further, rotated dimensions: kpe [B, 1, S, Dpe]."""
    q, k = _latent(q, qpe, k, kpe)
    return _attend(q, k, v, scale=scaling, causal=is_causal, name="mla")


@uses("mla")
def mla_decoding(
    q: torch.Tensor,
    qpe: torch.Tensor,
    kv: torch.Tensor,
    kpe: torch.Tensor,
    sm_scale: float | None = None,
    transpose: bool = True,
    **tuning: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One query [B, H, D] over latent keys that are the values, too; and its lse in base 2."""
    queries = (computable(x)[:, None] for x in (q, qpe))
    keys = (computable(x)[:, :, None] for x in (kv, kpe))
    out, lse = _mla_full(*queries, *keys, scale=score_scale(sm_scale))
    return out[:, 0].to(q.dtype), lse[:, :, 0] * _LOG2_E


@uses("mla")
def mla_decoding_split_kv(
    q: torch.Tensor,
    qpe: torch.Tensor,
    kv: torch.Tensor,
    kpe: torch.Tensor,
    sm_scale: float | None = None,
    kv_len_per_split: int | None = None,
    **tuning: Any,
) -> torch.Tensor:
    """As mla_decoding, without lse."""
    return mla_decoding(q, qpe, kv, kpe, sm_scale, **tuning)[0]


@uses("softmax", "matmul")
def splitk_reduce(
    attn_splitk_out: torch.Tensor,
    lse_splitk_out: torch.Tensor,
    attn_out: torch.Tensor,
    S_kv: int,
    **tuning: Any,
) -> torch.Tensor:
    """Parts of attention [B, H, parts, D] by their lse [B, H, parts] in base 2, into attn_out."""
    weights = ops.softmax(lse_splitk_out.float() * math.log(2))
    rows = (attn_splitk_out.float().flatten(0, 1), weights.flatten(0, 1)[:, None])
    merged: torch.Tensor = ops.matmul(rows[1], rows[0])
    return attn_out.copy_(merged.view(attn_out.shape))


def _sink(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sinks: torch.Tensor,
    sm_scale: float,
    sliding_window: int | None,
    start_q: int | torch.Tensor,
    name: str,
) -> torch.Tensor:
    start = int(start_q)
    left = sliding_window - 1 if sliding_window else -1
    end, mask = _options(
        query.shape[1], key.shape[1], causal=True, left=left, start=start, name=name
    )
    out: torch.Tensor = ops.attention(
        query.flatten(2, 3),
        key[:, :end],
        value[:, :end],
        sinks=sinks.float(),
        scale=sm_scale,
        **mask,
    )
    return out.flatten(2)


@uses("attention")
def attention_sink(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sinks: torch.Tensor,
    sm_scale: float = 0.125,
    sliding_window: int | None = None,
    start_q: int | torch.Tensor = 0,
    **tuning: Any,
) -> torch.Tensor:
    """Query [B, S, H, G, D] over keys [B, L, H, D], a sink per query head; [B, S, H * G * D]."""
    return _sink(query, key, value, sinks, sm_scale, sliding_window, start_q, "attention_sink")


@uses("attention")
def attention_sink_decode(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sinks: torch.Tensor,
    sm_scale: float = 0.125,
    sliding_window: int | None = None,
    start_q: int | torch.Tensor = 0,
    kv_len_per_split: int | None = None,
    **tuning: Any,
) -> torch.Tensor:
    """As attention_sink."""
    name = "attention_sink_decode"
    return _sink(query, key, value, sinks, sm_scale, sliding_window, start_q, name)
