"""What a program without tilewright would call, by operator.

That is the function of testing/python/composites.py, but for those whose quickest form is not the
one that holds for all arguments. Each takes its operator's arguments by position; one that is not
there, or that raises NotImplementedError, is no peer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from composites import COMPOSITES


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


def int_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """One product after the other."""
    return torch.stack([torch._int_mm(x, y) for x, y in zip(a, b, strict=True)])


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
    attn_bias: torch.Tensor | None,
    alibi_slopes: torch.Tensor | None,
    scale: float,
    causal: bool,
    window_left: int,
    window_right: int,
    softcap: float,
    score_mod: str,
    mask_mod: str,
    *_numbers: torch.Tensor | None,
) -> torch.Tensor:
    """scaled_dot_product_attention of [B, S, H, D]."""
    special = (kv_lens, sinks, k_scale, v_scale, alibi_slopes)
    plain = all(tensor is None for tensor in special) and k.dtype == q.dtype
    changed = softcap or score_mod or mask_mod
    if not plain or max(window_left, window_right) >= 0 or changed:
        raise NotImplementedError("attention with windows, sinks, slopes, caps, scales or mods")
    if causal and (attn_bias is not None or q.shape[1] not in (1, k.shape[1])):
        raise NotImplementedError("causal attention of fewer queries than keys, or with a bias")
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    out = F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=attn_bias,
        is_causal=causal and q.shape[2] > 1,
        scale=scale or None,
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return out.transpose(1, 2)


def without_bias(options: Sequence[Any]) -> tuple[Any, ...]:
    """The options of attention from those of its forms that take no attn_bias."""
    sinks, k_scale, v_scale, *rest = options
    return sinks, k_scale, v_scale, None, *rest


def attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_kv: torch.Tensor,
    *options: Any,
) -> torch.Tensor:
    """One call per sequence."""
    starts, kv_starts = cu_seqlens_q.tolist(), cu_seqlens_kv.tolist()
    out = torch.zeros(*q.shape[:2], v.shape[2], dtype=q.dtype)
    for b in range(len(starts) - 1):
        rows = slice(starts[b], starts[b + 1])
        keys = slice(kv_starts[b], kv_starts[b + 1])
        parts = q[None, rows], k[None, keys], v[None, keys]
        out[rows] = attention(*parts, None, *without_bias(options))[0]
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
        parts = q[b][None, None], k[None], v[None]
        out[b] = attention(*parts, None, *without_bias(options))[0, 0]
    return out


def topk(
    x: torch.Tensor, k: int, starts: torch.Tensor | None, ends: torch.Tensor | None
) -> tuple[torch.Tensor, ...]:
    """Of equals any one."""
    if starts is not None or ends is not None:
        raise NotImplementedError("topk of windows")
    return tuple(x.topk(k))


def _unpacked(packed: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The weight [N, K] of bytes packed for linear_packed (kernels/panel_layout.h)."""
    header = packed[:64].view(torch.int64).tolist()
    n, k, width = header[1], header[2], header[3]
    pair = 2 if dtype == torch.bfloat16 else 1
    panels = packed[64:].view(dtype).view(-1, -(-k // pair), width, pair)
    return panels.permute(0, 2, 1, 3).reshape(len(panels) * width, -1)[:n, :k].contiguous()


def linear_packed(
    x: torch.Tensor,
    packed: torch.Tensor,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    activation: str,
) -> torch.Tensor:
    """oneDNN's, of a weight that it has packed beforehand; what TorchInductor calls too."""
    if residual is not None or activation != "none":
        raise NotImplementedError("linear_packed with more than a bias")
    if not hasattr(packed, "onednn"):
        rows = x.numel() // x.shape[-1]
        try:
            weight = torch.ops.mkldnn._reorder_linear_weight(_unpacked(packed, x.dtype), rows)
        except RuntimeError as error:  # float16, where the processor does not multiply it
            raise NotImplementedError(str(error)) from error
        packed.onednn = weight  # type: ignore[attr-defined]
    out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
        x,
        packed.onednn,  # type: ignore[attr-defined]
        bias,
        "none",
        [],
        "",
    )
    return out


# Of no use as a peer: their random numbers, or their loop over time, are a definition's.
DEFINITIONS = {"dropout", "linear_attention"}
# Results name elements, and of equal ones peers may name another.
ANY_OF_EQUALS = {"topk"}
# What torch.compile would make of these is the same call.
EAGER_ONLY = {"linear_packed"}

PEER_OF: dict[str, Callable[..., Any]] = {
    **{name: function for name, function in COMPOSITES.items() if name not in DEFINITIONS},
    "attention": attention,
    "attention_paged": attention_paged,
    "attention_varlen": attention_varlen,
    "grouped_matmul": grouped_matmul,
    "int_matmul": int_matmul,
    "k_grouped_matmul": k_grouped_matmul,
    "linear_packed": linear_packed,
    "rope": rope,
    "topk": topk,
}
