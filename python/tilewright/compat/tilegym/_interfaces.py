"""What wraps TileGym's attention operators: its interfaces, and attention functions for models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch

from tilewright.compat._tensors import unflatten
from tilewright.compat.tilegym._attention import (
    attention_sink,
    fmha,
    fmha_decode,
    gemma_attention,
    gemma_attention_decode,
    mla,
    mla_decoding_split_kv,
)
from tilewright.compat.tilegym._backends import uses

Interface = Callable[..., tuple[torch.Tensor, None]]


class FlashAttentionFunction:
    """fmha under the name of TileGym's autograd function."""

    @staticmethod
    def apply(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sm_scale: float, is_causal: bool
    ) -> torch.Tensor:
        """As fmha."""
        return fmha(q, k, v, sm_scale, is_causal)


@uses("attention")
def attention_sink_interface(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    sinks: torch.Tensor,
    scaling: float | None = None,
    sliding_window: int | None = None,
    start_q: int | torch.Tensor | None = None,
    backend: str | None = None,
    **tuning: Any,
) -> torch.Tensor:
    """As attention_sink, also of q [B, H, S, D] over k and v [B, heads, L, D]."""
    scale = q.shape[-1] ** -0.5 if scaling is None else scaling
    start = 0 if start_q is None else start_q
    if q.dim() == 4:
        q = unflatten(q, 1, k.shape[1], -1).movedim(3, 1)
        k, v = k.transpose(1, 2), v.transpose(1, 2)
    return attention_sink(q, k, v, sinks, scale, sliding_window, start, backend=backend)


@uses("attention")
def get_attention_sink_interface(backend: str | None = None) -> Interface:
    """An attention function for transformers' GPT-OSS: the module has the sinks."""

    def interface(
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        scaling: float,
        dropout: float = 0.0,
        sliding_window: int | None = None,
        start_q: int | torch.Tensor | None = None,
        **_more: Any,
    ) -> tuple[torch.Tensor, None]:
        start = key.shape[2] - query.shape[2] if start_q is None else start_q
        sinks = cast(torch.Tensor, module.sinks)
        options = (sinks, scaling, sliding_window, start, backend)
        out = attention_sink_interface(query, key, value, *options)
        return unflatten(out, -1, query.shape[1], -1), None

    return interface


@uses("attention")
def fmha_interface(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    is_causal: bool = True,
    scaling: float | None = None,
    backend: str | None = None,
    has_backward: bool = False,
    kernel_configs: dict[str, Any] | None = None,
    **tuning: Any,
) -> torch.Tensor:
    """As fmha."""
    return fmha(q, k, v, scaling, is_causal, backend=backend)


@uses("attention")
def mla_interface(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    qpe: torch.Tensor,
    kpe: torch.Tensor,
    is_causal: bool,
    scaling: float | None = None,
    kernel_configs: dict[str, Any] | None = None,
    backend: str | None = None,
) -> torch.Tensor:
    """As mla."""
    return mla(q, k, v, qpe, kpe, is_causal, scaling, backend=backend)


@uses("attention")
def mla_decoding_interface(
    q: torch.Tensor,
    qpe: torch.Tensor,
    kv: torch.Tensor,
    kpe: torch.Tensor,
    sm_scale: float | None,
    transpose: bool | None,
    backend: str | None = None,
) -> torch.Tensor:
    """As mla_decoding_split_kv."""
    return mla_decoding_split_kv(q, qpe, kv, kpe, sm_scale, backend=backend)


@uses("attention")
def get_fmha_interface(
    backend: str | None = None, kernel_configs: dict[str, Any] | None = None
) -> Interface:
    """An attention function for transformers, without masks: one query sees all keys.

    It returns [B, S, H, D], but [B, H, 1, D] of one query, as TileGym's does.
    """

    def interface(
        module: torch.nn.Module,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        attention_mask: torch.Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        is_causal: bool | None = None,
        has_backward: bool | None = None,
        **_more: Any,
    ) -> tuple[torch.Tensor, None]:
        if q.shape[2] == 1:
            return fmha_decode(q, k, v, scaling, backend=backend), None
        out = fmha(q, k, v, scaling, is_causal is not False, backend=backend)
        return out.transpose(1, 2).contiguous(), None

    return interface


@uses("attention")
def get_fmha_gemma3_interface(
    backend: str | None = None, kernel_configs: dict[str, Any] | None = None
) -> Interface:
    """An attention function for transformers' Gemma 3: windows and capped scores, no masks."""

    def interface(
        module: torch.nn.Module,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        attention_mask: torch.Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        sliding_window: int | None = None,
        softcap: float | None = None,
        **_more: Any,
    ) -> tuple[torch.Tensor, None]:
        if softcap is None:
            where = (module, getattr(module, "config", None))
            owner = next((x for x in where if hasattr(x, "attn_logit_softcapping")), None)
            softcap = getattr(owner, "attn_logit_softcapping", None)
        window = sliding_window or 0
        if q.shape[2] == 1:
            out = gemma_attention_decode(q, k, v, scaling, window, softcap, backend=backend)
        else:
            causal = bool(getattr(module, "is_causal", True))
            out = gemma_attention(q, k, v, scaling, window, softcap, causal, backend=backend)
        return out.transpose(1, 2).contiguous(), None

    return interface
