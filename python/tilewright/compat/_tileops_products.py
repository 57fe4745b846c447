"""TileOPs' matrix multiplications and what experts make of them."""

from __future__ import annotations

import torch

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._tensors import tensor

_GATED = ("silu_and_mul", "gelu_and_mul")


@uses("matmul")
def gemm(
    a: torch.Tensor, b: torch.Tensor, *, trans_a: bool = False, trans_b: bool = True
) -> torch.Tensor:
    """The product of two matrices; b is [N, K] unless trans_b is False."""
    return bmm((a.mT if trans_a else a)[None], (b.mT if trans_b else b)[None])[0]


@uses("matmul")
def bmm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The products of matrices [B, M, K] and [B, K, N]."""
    return tensor(ops.matmul(a, b))


def _dtype(name: str, out_dtype: str | torch.dtype) -> torch.dtype:
    found = getattr(torch, out_dtype, None) if isinstance(out_dtype, str) else out_dtype
    if found not in (torch.bfloat16, torch.float16):
        raise ValueError(f"{name}: out_dtype must be bfloat16 or float16, not {out_dtype!r}")
    return found


def _scaled(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """X times a scale of all, of each row, or of blocks that divide both dimensions."""
    scale = scale.float()
    for d in (-2, -1) if scale.dim() >= 2 else ():
        size, count = x.shape[d], scale.shape[d]
        if count not in (1, size):
            scale = scale.repeat_interleave(-(-size // count), d).narrow(d, 0, size)
    if scale.dim() == 1 and scale.numel() != 1:
        scale = scale.view(*scale.shape, *(1,) * (x.dim() - 1))
    if scale.dim() < x.dim():
        scale = scale.reshape((1,) * (x.dim() - scale.dim()) + tuple(scale.shape))
    return tensor(ops.mul(x.float(), scale))


@uses("mul", "linear")
def gemm_fp8(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    out_dtype: str | torch.dtype = "bfloat16",
) -> torch.Tensor:
    """A [M, K] times b [N, K], 8-bit floats with scales, in float32."""
    kind = _dtype("gemm_fp8", out_dtype)
    shift = None if bias is None else bias.float()
    return tensor(ops.linear(_scaled(a, scale_a), _scaled(b, scale_b), shift)).to(kind)


@uses("mul", "matmul")
def bmm_fp8_kn(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    out_dtype: str | torch.dtype = "bfloat16",
) -> torch.Tensor:
    """The products of [B, M, K] and [B, K, N], 8-bit floats with scales, in float32."""
    kind = _dtype("bmm_fp8_kn", out_dtype)
    return tensor(ops.matmul(_scaled(a, scale_a), _scaled(b, scale_b))).to(kind)


@uses("mul", "matmul")
def bmm_fp8_nk(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    out_dtype: str | torch.dtype = "bfloat16",
) -> torch.Tensor:
    """The products of [B, M, K] and [B, N, K], 8-bit floats with scales, in float32."""
    kind = _dtype("bmm_fp8_nk", out_dtype)
    return tensor(ops.matmul(_scaled(a, scale_a), _scaled(b, scale_b).mT)).to(kind)


@uses("matmul")
def grouped_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    batch_sizes: torch.Tensor,
    batch_offsets: torch.Tensor,
    batch_padded_offsets: torch.Tensor,
    *,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> torch.Tensor:
    """Rows [offset, offset + size) of a times their own matrix of b.

    With transpose_a, b has the same rows, and each group gives the product of a's columns with b's.
    """
    spans = list(zip(batch_offsets.tolist(), batch_sizes.tolist(), strict=True))
    if transpose_a:
        pairs = [(a[at : at + n], b[at : at + n]) for at, n in spans]
        return torch.stack([bmm(x.mT[None], (y.mT if transpose_b else y)[None])[0]
                            for x, y in pairs])  # fmt: skip
    out = a.new_zeros(len(a), b.shape[1 if transpose_b else 2])
    for (at, n), weight in zip(spans, b, strict=True):
        if n:
            out[at : at + n] = gemm(a[at : at + n], weight, trans_b=transpose_b)
    return out


@uses("matmul")
def moe_grouped_gemm_nopad(
    a: torch.Tensor,
    b: torch.Tensor,
    true_sizes: torch.Tensor,
    true_offsets: torch.Tensor,
    *,
    numel: int,
    num_experts: int,
    n: int,
    k: int,
) -> torch.Tensor:
    """Rows [offset, offset + size) of a [numel, k] times their expert's matrix [n, k]."""
    return grouped_gemm(a, b, true_sizes, true_offsets, true_offsets)


@uses("matmul", *_GATED)
def moe_gate_up(
    a: torch.Tensor,
    b: torch.Tensor,
    true_sizes: torch.Tensor,
    true_offsets: torch.Tensor,
    *,
    numel: int,
    num_experts: int,
    ffn: int,
    k: int,
    activation: str = "silu_and_mul",
) -> torch.Tensor:
    """As moe_grouped_gemm_nopad with matrices [2 ffn, k], then the gated activation."""
    if activation not in _GATED:
        raise ValueError(f"moe_gate_up: activation must be one of {_GATED}, not {activation!r}")
    both = grouped_gemm(a, b, true_sizes, true_offsets, true_offsets)
    return tensor(getattr(ops, activation)(both))


@uses("linear", "silu_and_mul")
def moe_shared_expert_mlp(
    x: torch.Tensor, w_gate_up: torch.Tensor, w_down: torch.Tensor
) -> torch.Tensor:
    """The gated layer with weights [2F, H], gate rows first, and [H, F]."""
    return tensor(ops.linear(ops.silu_and_mul(ops.linear(x, w_gate_up)), w_down))


__all__ = list(provided(vars()))
