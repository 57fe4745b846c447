"""Products and quantization of the flashinfer suite of TileGym."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import ops
from tilewright.compat._quantization import scaled_product
from tilewright.compat._tensors import computable, tensor
from tilewright.compat.tilegym._backends import uses


@uses("matmul", "add")
def gemm_alpha_beta(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    trans_a: bool = False,
    trans_b: bool = True,
    alpha: float = 1.0,
    beta: float = 0.0,
    num_sms: int | None = 1,
    **_tuning: Any,
) -> torch.Tensor:
    """Overwrites c by alpha a b + beta c; b is [N, K] if trans_b."""
    left, right = a.mT if trans_a else a, b.mT if trans_b else b
    if beta == 0:
        return c.copy_(ops.matmul(computable(left)[None], computable(right)[None], alpha)[0])
    made = ops.matmul(left[None].float(), right[None].float(), alpha)[0]
    return c.copy_(ops.add(made, c.float(), beta))


@uses("grouped_matmul")
def masked_bmm(
    a: torch.Tensor,
    b: torch.Tensor,
    masked_m: torch.Tensor,
    transpose_a: bool = False,
    transpose_b: bool = False,
    static_persistent: bool | None = None,
    **_tuning: Any,
) -> torch.Tensor:
    """The products of the first masked_m rows of each matrix [Q, M, K] with [Q, K, N]; then 0."""
    left, right = a.mT if transpose_a else a, b.mT if transpose_b else b
    batch, rows, _ = left.shape
    starts = torch.arange(0, batch * rows, max(rows, 1), dtype=torch.int32, device=a.device)[:batch]
    ends = starts + masked_m.to(torch.int32)
    flat = computable(left.flatten(0, 1))
    made = ops.grouped_matmul(flat, computable(right), ends, starts)
    return tensor(made).view(batch, rows, -1).to(a.dtype)


@uses("grouped_matmul")
def ragged_bmm(
    a: torch.Tensor,
    b: torch.Tensor,
    m_indptr: torch.Tensor,
    max_m: int,
    max_m_device: torch.Tensor | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
    out_dtype: torch.dtype | None = None,
    **_tuning: Any,
) -> torch.Tensor:
    """Rows [m_indptr[q], m_indptr[q + 1]) of a times matrix q of b, [N, K] if transpose_b."""
    kind = out_dtype or (torch.bfloat16 if a.dtype.itemsize == 1 else a.dtype)
    left, right = a.mT if transpose_a else a, b.mT if transpose_b else b
    bounds = m_indptr.to(torch.int32)
    return tensor(ops.grouped_matmul(left.to(kind), right.to(kind), bounds[1:], bounds[:-1]))


@uses("scaled_grouped_matmul")
def ragged_block_scaled_bmm(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor | None,
    b_scale: torch.Tensor,
    m_indptr: torch.Tensor,
    max_m: int,
    max_m_device: torch.Tensor | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
    out_dtype: torch.dtype | None = None,
    **_tuning: Any,
) -> torch.Tensor:
    """As ragged_bmm, of 8-bit floats with scales by block: of a row of a, of a matrix of b."""
    left, right = a.mT if transpose_a else a, b if transpose_b else b.mT
    if a_scale is None:
        a_scale = b_scale.new_ones(left.shape[0], b_scale.shape[-1])
    made = scaled_product(left, right, a_scale, b_scale, m_indptr[1:].to(torch.int32))
    return made.to(out_dtype or torch.bfloat16)


@uses("quantize_fp8", "quantize_int8")
def per_token_group_quant_8bit(
    x: torch.Tensor,
    group_size: int,
    eps: float = 1e-10,
    dst_dtype: torch.dtype | None = None,
    column_major_scales: bool = False,
    scale_tma_aligned: bool = False,
    scale_ue8m0: bool = False,
    **_tuning: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """X in groups of columns as f8 or int8, and their scales; by columns if asked for.

    Raises:
        ValueError: another dtype.
    """
    if dst_dtype in (None, torch.float8_e4m3fn):
        codes, scale = ops.quantize_fp8(x, group_size, eps, scale_ue8m0)
    elif dst_dtype == torch.int8:
        codes, scale = ops.quantize_int8(x, group_size, eps, scale_ue8m0, True)
    else:
        raise ValueError(f"per_token_group_quant_8bit: dst_dtype {dst_dtype}")
    if column_major_scales:
        rows, groups = scale.shape[-2:]
        pitch = -(-rows // 4) * 4 if scale_tma_aligned else rows
        by_column = scale.new_empty(*scale.shape[:-2], groups, pitch).mT[..., :rows, :]
        scale = by_column.copy_(scale)
    return codes, scale


def _to(
    x: torch.Tensor | None, scale: float, dtype: torch.dtype, out: torch.Tensor | None
) -> torch.Tensor | None:
    if x is None:
        return out
    made = (x if scale == 1 else tensor(ops.scale(x.float(), scale))).to(dtype)
    return made if out is None else out.copy_(made)


@uses("rope", "scale")
def rope_quantize_fp8(
    q_rope: torch.Tensor,
    k_rope: torch.Tensor,
    q_nope: torch.Tensor | None,
    k_nope: torch.Tensor | None,
    cos_sin_cache: torch.Tensor,
    pos_ids: torch.Tensor,
    is_neox: bool = True,
    quantize_dtype: torch.dtype | None = None,
    quant_scale_q: float = 1.0,
    quant_scale_kv: float = 1.0,
    q_rope_out: torch.Tensor | None = None,
    k_rope_out: torch.Tensor | None = None,
    q_nope_out: torch.Tensor | None = None,
    k_nope_out: torch.Tensor | None = None,
    **_tuning: Any,
) -> tuple[torch.Tensor | None, ...]:
    """Rotates q_rope and k_rope by tables [P, R] of cos and sin, and gives all in 8 bits."""
    outs = (q_rope_out, k_rope_out, q_nope_out, k_nope_out)
    given = next((out.dtype for out in outs if out is not None), torch.float8_e4m3fn)
    kind = quantize_dtype or given
    cos, sin = (half.contiguous() for half in cos_sin_cache.float().chunk(2, -1))
    positions = pos_ids.to(torch.int32)[None]

    def rotated(x: torch.Tensor) -> torch.Tensor:
        heads = x if x.dim() == 3 else x[:, None]
        return tensor(ops.rope(heads[None], cos, sin, positions, not is_neox))[0].view(x.shape)

    q, k = quant_scale_q, quant_scale_kv
    return (
        _to(rotated(q_rope), q, kind, q_rope_out),
        _to(rotated(k_rope), k, kind, k_rope_out),
        _to(q_nope, q, kind, q_nope_out),
        _to(k_nope, k, kind, k_nope_out),
    )
