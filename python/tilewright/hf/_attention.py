"""transformers' attention function for "tilewright"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tilewright import ops
from tilewright._values import score_scale
from tilewright._weights import attention_with_bias, sees_and_bias
from tilewright.hf._masks import UnsupportedMaskError, runs_of
from tilewright.hf._range_mask import RangeMask, Run, decoded, encoded, matrix_of

_Piece = tuple[slice, Run, slice | torch.Tensor]


def _pieces(mask: torch.Tensor, kv_length: int) -> Iterator[_Piece]:
    """Sequences, the queries of theirs that run together, and the keys these see."""
    known = mask.runs if isinstance(mask, RangeMask) else decoded(mask)
    rows = runs_of(mask[..., :kv_length]) if known is None else [(row, None) for row in known]
    if all(row[0] == rows[0][0] and row[1] is None for row in rows) or len(rows) == 1:
        parts = [(slice(None), *rows[0])]
    else:
        parts = [(slice(b, b + 1), *row) for b, row in enumerate(rows)]
    for sequences, runs, keys in parts:
        for run in runs:
            seen = slice(run.first, run.end)
            yield sequences, run, seen if keys is None else keys[seen]


def _pieces_if_any(mask: torch.Tensor, kv_length: int) -> list[_Piece] | None:
    """The pieces of a mask; None where it is of another kind."""
    try:
        return list(_pieces(mask, kv_length))
    except UnsupportedMaskError:
        return None


def _piecewise(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    pieces: list[_Piece],
    options: dict[str, Any],
) -> torch.Tensor:
    """Attention piece by piece; queries that see nothing give zeros."""
    out = q.new_zeros(*q.shape[:3], v.shape[3])
    for b, run, keys in pieces:
        queries = slice(run.begin, run.stop)
        piece: torch.Tensor = ops.attention(
            q[b, queries], k[b, keys], v[b, keys], causal=bool(run.causal), window_left=run.left,
            **options,
        )  # fmt: skip
        if piece.shape == out.shape:
            return piece
        out[b, queries] = piece
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


def _biased(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    run: Run,
    position_bias: torch.Tensor | None,
    options: dict[str, Any],
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Attention with any mask; `run` is what all queries see where there is none."""
    if mask is None:
        mask = matrix_of([[run]], q.shape[2], k.shape[2]).to(q.device)
    elif mask.dtype != torch.bool and not mask.is_floating_point():
        raise UnsupportedMaskError(f"a mask of one's own, {mask.dtype}{list(mask.shape)}")
    sees, bias = sees_and_bias(mask[..., : k.shape[2]])
    if position_bias is not None:
        bias = position_bias if bias is None else bias + position_bias
    out, weights = attention_with_bias(q, k, v, sees=sees, bias=bias, **options)
    return out.transpose(1, 2).contiguous(), weights


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
    position_bias: torch.Tensor | None = None,
    **more: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Attention of query [B, H, S, D]; returns [B, S, H, Dv], and the weights if it had them.

    The operator `attention` does it; by the weights, which take memory, it is done where these are
    asked for, where some are dropped, and where scores with a bias or another mask than ranges of
    keys have a gradient.

    Raises:
        NotImplementedError: the model asks for something that there is no operator for.
    """
    if more.get("cache") is not None:
        raise UnsupportedMaskError("attention has no paged cache")
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    left = sliding_window - 1 if sliding_window and causal else -1
    options: dict[str, Any] = {"scale": score_scale(scaling), "softcap": softcap or 0.0,
                               "sinks": None if s_aux is None else s_aux.float()}  # fmt: skip
    run = Run(0, query.shape[2], 0, key.shape[2], left, causal)
    pieces, traced = None, torch.compiler.is_compiling()
    if attention_mask is not None and not traced:
        pieces = _pieces_if_any(attention_mask, key.shape[2])
    is_range = attention_mask is None or traced or pieces is not None
    columns = more.get("sinks")  # one of each query's own
    needs_weights = bool(more.get("output_attentions"))
    is_plain = not (dropout or needs_weights) and position_bias is None and columns is None
    if not (is_plain and is_range):
        options |= {"dropout": dropout, "needs_weights": needs_weights,
                    "sinks": options["sinks"] if columns is None else columns}  # fmt: skip
        return _biased(query, key, value, attention_mask, run, position_bias, options)
    q, k, v = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    if s_aux is not None and torch.is_grad_enabled():  # `masked_attention` has their gradient
        pieces = None
        if attention_mask is None:
            attention_mask = encoded([[run]])
        elif isinstance(attention_mask, RangeMask):
            attention_mask = encoded(attention_mask.runs)
    out: torch.Tensor
    if attention_mask is None:
        out = ops.attention(q, k, v, causal=causal, window_left=left, **options)
    elif pieces is None:
        out, _ = masked_attention(q, k, v, attention_mask, **options)
    else:
        out = _piecewise(q, k, v, pieces, options)
    return out, None
