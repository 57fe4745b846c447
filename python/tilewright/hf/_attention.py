"""transformers' attention function for "tilewright"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tilewright import ops
from tilewright.hf._masks import Run, UnsupportedMaskError, runs_of


def _pieces(
    mask: torch.Tensor, kv_length: int
) -> Iterator[tuple[slice, Run, slice | torch.Tensor]]:
    """Sequences, the queries of theirs that run together, and the keys these see."""
    rows: list[tuple[list[Run], torch.Tensor | None]]
    if mask.dtype == torch.int32 and mask.shape[1:2] + mask.shape[3:] == (1, len(Run._fields)):
        read = [[Run(*run) for run in row] for row in mask[:, 0].tolist()]
        rows = [([run for run in row if run.stop > run.begin], None) for row in read]
    else:
        rows = runs_of(mask[..., :kv_length])
    if all(row[0] == rows[0][0] and row[1] is None for row in rows) or len(rows) == 1:
        parts = [(slice(None), *rows[0])]
    else:
        parts = [(slice(b, b + 1), *row) for b, row in enumerate(rows)]
    for sequences, runs, keys in parts:
        for run in runs:
            seen = slice(run.first, run.end)
            yield sequences, run, seen if keys is None else keys[seen]


def _piecewise(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor, options: dict[str, Any]
) -> torch.Tensor:
    """Attention piece by piece; queries that see nothing give zeros."""
    out = q.new_zeros(*q.shape[:3], v.shape[3])
    for b, run, keys in _pieces(mask, k.shape[1]):
        queries = slice(run.begin, run.stop)
        out[b, queries] = ops.attention(
            q[b, queries], k[b, keys], v[b, keys], causal=bool(run.causal), window_left=run.left,
            **options,
        )  # fmt: skip
    return out


@torch.library.custom_op("tilewright_hf::masked_attention", mutates_args=())
def masked_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor,
    sinks: torch.Tensor | None,
    scale: float,
    softcap: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `_piecewise`, and lse: what a mask says is not known while a graph is traced.

    Unlike the operator `attention` alone it has a gradient for sinks.
    """
    out = q.new_zeros(*q.shape[:3], v.shape[3])
    lse = q.new_full((len(q), q.shape[2], q.shape[1]), -torch.inf, dtype=torch.float32)
    for b, run, keys in _pieces(mask, k.shape[1]):
        queries = slice(run.begin, run.stop)
        out[b, queries], lse[b, :, queries] = torch.ops.tilewright.attention.full(
            q[b, queries], k[b, keys], v[b, keys], sinks=sinks, scale=scale, softcap=softcap,
            causal=bool(run.causal), window_left=run.left,
        )  # fmt: skip
    return out, lse


@masked_attention.register_fake
def _(q: Any, k: Any, v: Any, *_more: Any) -> tuple[torch.Tensor, torch.Tensor]:
    lse = q.new_empty(len(q), q.shape[2], q.shape[1], dtype=torch.float32)
    return q.new_empty(*q.shape[:3], v.shape[3]), lse


@torch.library.custom_op("tilewright_hf::masked_attention_backward", mutates_args=())
def masked_attention_backward(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    scale: float,
    softcap: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of q, k and v; with sinks, these are in out and lse already."""
    of_q, of_k, of_v = (torch.zeros_like(x) for x in (q, k, v))
    for b, run, keys in _pieces(mask, k.shape[1]):
        queries = slice(run.begin, run.stop)
        parts = torch.ops.tilewright.attention_backward(
            grad[b, queries], q[b, queries], k[b, keys], v[b, keys], out[b, queries],
            lse[b, :, queries], scale=scale, softcap=softcap, causal=bool(run.causal),
            window_left=run.left,
        )  # fmt: skip
        of_q[b, queries] = parts[0]
        of_k[b, keys] += parts[1]
        of_v[b, keys] += parts[2]
    return of_q, of_k, of_v


@masked_attention_backward.register_fake
def _(grad: Any, q: Any, k: Any, v: Any, *_more: Any) -> tuple[torch.Tensor, ...]:
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    q, k, v, mask, sinks, *ctx.numbers = inputs
    ctx.save_for_backward(q, k, v, mask, sinks, *output)


def _gradients(ctx: Any, grad: torch.Tensor, _of_lse: Any) -> tuple[torch.Tensor | None, ...]:
    q, k, v, mask, sinks, out, lse = ctx.saved_tensors
    of_qkv = masked_attention_backward(grad, q, k, v, mask, out, lse, *ctx.numbers)
    of_sinks = None
    if sinks is not None:  # minus the weight of a sink in what the output contributes
        sums = (grad.float() * out.float()).sum(-1).transpose(1, 2)  # [B, Hq, S]
        weights = torch.where(lse > -torch.inf, torch.exp(sinks[:, None] - lse), 0.0)
        of_sinks = -(weights * sums).sum((0, 2))
    return *of_qkv, None, of_sinks, None, None


masked_attention.register_autograd(_gradients, setup_context=_save)


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
    scale, cap = scaling or 0.0, softcap or 0.0
    sinks = None if s_aux is None else s_aux.float()
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    left = sliding_window - 1 if sliding_window and causal else -1
    if attention_mask is None and sinks is not None and torch.is_grad_enabled():
        run = Run(0, q.shape[1], 0, k.shape[1], left, bool(causal))
        attention_mask = torch.tensor([[[run]]], dtype=torch.int32)  # it has the sinks' gradient
    options: dict[str, Any] = {"scale": scale, "softcap": cap, "sinks": sinks}
    out: torch.Tensor
    if attention_mask is None:
        out = ops.attention(q, k, v, causal=bool(causal), window_left=left, **options)
    elif torch.compiler.is_compiling() or (sinks is not None and torch.is_grad_enabled()):
        out, _ = masked_attention(q, k, v, attention_mask, **options)
    else:
        out = _piecewise(q, k, v, attention_mask, options)
    return out, None
