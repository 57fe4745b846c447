"""The operators written in PyTorch: what a program without tilewright would call.

Each takes its operator's arguments by position. An operator without an entry has no peer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "none": lambda x: x,
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    activation: str,
) -> torch.Tensor:
    """activation(x weightᵀ + bias) + residual."""
    out = ACTIVATIONS[activation](F.linear(x, weight, bias))
    return out if residual is None else out + residual


def grouped_matmul(
    a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor, starts: torch.Tensor | None
) -> torch.Tensor:
    """One product after the other."""
    out = a.new_zeros(len(a), b.shape[-1])
    ends = offsets.tolist()
    begins = [0, *ends[:-1]] if starts is None else starts.tolist()
    for g, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        torch.mm(a[begin:end], b[g], out=out[begin:end])
    return out


def k_grouped_matmul(
    a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor, starts: torch.Tensor | None
) -> torch.Tensor:
    """One product after the other."""
    ends = offsets.tolist()
    begins = [0, *ends[:-1]] if starts is None else starts.tolist()
    return torch.stack(
        [a[:, begin:end] @ b[begin:end] for begin, end in zip(begins, ends, strict=True)]
    )


def matmul(a: torch.Tensor, b: torch.Tensor, alpha: float) -> torch.Tensor:
    """Alpha * a b."""
    return torch.bmm(a, b) if alpha == 1 else torch.bmm(a, b) * alpha


def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum normalized, and the sum."""
    total = x + residual
    return F.rms_norm(total, weight.shape, weight, eps), total


def rope(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None,
    interleaved: bool,
    inverse: bool,
) -> torch.Tensor:
    """As transformers writes it: x cos + rotate_half(x) sin."""
    if interleaved or inverse or 2 * cos.shape[1] != x.shape[3]:
        raise NotImplementedError("rope of neighbours or of a part of a head")
    c, s = (
        t[: x.shape[1]][None, :, None] if positions is None else t[positions.long()][:, :, None]
        for t in (cos.to(x.dtype), sin.to(x.dtype))
    )
    a, b = x.chunk(2, -1)
    return x * torch.cat([c, c], -1) + torch.cat([-b, a], -1) * torch.cat([s, s], -1)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    kv_lens: torch.Tensor | None,
    sinks: torch.Tensor | None,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
    scale: float,
    causal: bool,
    window_left: int,
    window_right: int,
    softcap: float,
) -> torch.Tensor:
    """scaled_dot_product_attention of [B, S, H, D]."""
    plain = kv_lens is None and sinks is None and k_scale is None and v_scale is None
    if not plain or max(window_left, window_right) >= 0 or softcap or k.dtype != q.dtype:
        raise NotImplementedError("attention with windows, sinks, caps or scales")
    if causal and q.shape[1] not in (1, k.shape[1]):
        raise NotImplementedError("causal attention of fewer queries than keys")
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    out = F.scaled_dot_product_attention(
        q,
        k,
        v,
        is_causal=causal and q.shape[2] > 1,
        scale=scale or None,
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return out.transpose(1, 2)


def attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_kv: torch.Tensor,
    *options: Any,
) -> torch.Tensor:
    """One call per sequence."""
    sinks, k_scale, v_scale, scale, causal, left, right, softcap = options
    starts, kv_starts = cu_seqlens_q.tolist(), cu_seqlens_kv.tolist()
    out = torch.zeros(*q.shape[:2], v.shape[2], dtype=q.dtype)
    for b in range(len(starts) - 1):
        rows = slice(starts[b], starts[b + 1])
        keys = slice(kv_starts[b], kv_starts[b + 1])
        rest = (None, sinks, k_scale, v_scale, scale, causal, left, right, softcap)
        out[rows] = attention(q[None, rows], k[None, keys], v[None, keys], *rest)[0]
    return out


def attention_paged(
    q: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_table: torch.Tensor,
    kv_lens: torch.Tensor,
    cu_seqlens_q: torch.Tensor | None,
    *options: Any,
) -> torch.Tensor:
    """Pages gathered, then one call per sequence."""
    if cu_seqlens_q is not None or len(q) != len(kv_lens):
        raise NotImplementedError("paged attention of several queries per sequence")
    out = torch.empty(*q.shape[:2], v_pages.shape[3], dtype=q.dtype)
    for b, length in enumerate(kv_lens.tolist()):
        k, v = (pages[block_table[b].long()].flatten(0, 1)[:length] for pages in (k_pages, v_pages))
        out[b] = attention(q[b][None, None], k[None], v[None], None, *options)[0, 0]
    return out


def cross_entropy(
    x: torch.Tensor,
    target: torch.Tensor,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
    z_loss: float,
) -> torch.Tensor:
    """Cross-entropy of logits [N, V]."""
    if z_loss:
        raise NotImplementedError("cross-entropy with z_loss")
    options: dict[str, Any] = {"reduction": reduction, "label_smoothing": label_smoothing}
    return F.cross_entropy(x, target.long(), ignore_index=ignore_index, **options)


def activation(x: torch.Tensor, function: str, a: float, b: float, c: float) -> torch.Tensor:
    """The activations that PyTorch has a function for."""
    plain = {"hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "mish": F.mish}
    if function not in plain:
        raise NotImplementedError(f"activation {function}")
    return plain[function](x)


def binary(x: torch.Tensor, other: torch.Tensor, function: str) -> torch.Tensor:
    """Division; x above 0 and x other below."""
    if function == "prelu":
        return torch.where(x > 0, x, x * other)
    if function != "div":
        raise NotImplementedError(f"binary {function}")
    return x / other


def reduce(x: torch.Tensor, function: str, dim: int) -> torch.Tensor:
    """The norms and logsumexp."""
    if function == "logsumexp":
        return x.logsumexp(dim)
    orders = {"norm1": 1, "norm2": 2, "norm_inf": torch.inf}
    if function not in orders:
        raise NotImplementedError(f"reduce {function}")
    return torch.linalg.vector_norm(x, orders[function], dim)


def var_mean(x: torch.Tensor, dim: int, correction: float, root: bool) -> tuple[torch.Tensor, ...]:
    """torch.var_mean, or std_mean."""
    return (torch.std_mean if root else torch.var_mean)(x, dim, correction=correction)


COMPOSITES: dict[str, Callable[..., Any]] = {
    "activation": activation,
    "add": lambda x, other, alpha: torch.add(x, other, alpha=alpha),
    "amax": lambda x, dim: x.amax(dim),
    "argmax": lambda x, dim: x.argmax(dim),
    "attention": attention,
    "attention_paged": attention_paged,
    "attention_varlen": attention_varlen,
    "binary": binary,
    "bitwise": lambda x, other, function: getattr(torch, f"bitwise_{function}")(x, other),
    "compare": lambda x, other, relation: getattr(torch, relation)(x, other),
    "copy": torch.clone,
    "count_nonzero": lambda x, dim: torch.count_nonzero(x, dim),
    "cross_entropy": cross_entropy,
    "embedding": lambda weight, indices: F.embedding(indices, weight),
    "erf": torch.erf,
    "exp": torch.exp,
    "extremum": lambda x, other, function: getattr(torch, function)(x, other),
    "fused_add_rms_norm": fused_add_rms_norm,
    "grouped_matmul": grouped_matmul,
    "gelu": lambda x, approximate: F.gelu(x, approximate=approximate),
    "gelu_and_mul": lambda x: F.gelu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1],
    "gelu_tanh_and_mul": lambda x: (
        F.gelu(x.chunk(2, -1)[0], approximate="tanh") * x.chunk(2, -1)[1]
    ),
    "k_grouped_matmul": k_grouped_matmul,
    "layer_norm": lambda x, weight, bias, eps: F.layer_norm(x, x.shape[-1:], weight, bias, eps),
    "lerp": lambda x, end, weight, amount: torch.lerp(
        x, end, torch.tensor(amount) if weight is None else weight
    ),
    "linear": linear,
    "log": torch.log,
    "log_softmax": lambda x, dim: x.log_softmax(dim),
    "matmul": matmul,
    "mean": lambda x, dim: x.mean(dim),
    "mul": torch.mul,
    "permute": lambda x, dims: x.permute(dims).contiguous(),
    "reduce": reduce,
    "relu": torch.relu,
    "rms_norm": lambda x, weight, eps: F.rms_norm(x, weight.shape, weight, eps),
    "rope": rope,
    "scan": lambda x, function, dim: getattr(torch, f"cum{function}")(x, dim),
    "scale": lambda x, factor: x * factor,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "silu_and_mul": lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1],
    "softmax": lambda x, dim: x.softmax(dim),
    "sum": lambda x, dim: x.sum(dim),
    "swiglu": lambda gate, up: F.silu(gate) * up,
    "tanh": torch.tanh,
    "transpose": lambda x, dim0, dim1: x.transpose(dim0, dim1).contiguous(),
    "unary": lambda x, function: getattr(torch, function)(x),
    "var_mean": var_mean,
    "where": torch.where,
}
