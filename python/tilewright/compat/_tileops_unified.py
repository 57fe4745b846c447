"""What TileOPs' classes take where that is not what its first functions took.

Sizes that these were told are those of the tensors, and inputs that nobody read are gone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from tilewright import ops
from tilewright.compat import _tileops_attention as attention
from tilewright.compat import _tileops_elementwise as elementwise
from tilewright.compat import _tileops_experts as experts
from tilewright.compat import _tileops_norms as norms
from tilewright.compat import _tileops_reductions as reductions
from tilewright.compat import _tileops_rope as rotary
from tilewright.compat import _tileops_sparse as sparse
from tilewright.compat._coverage import uses
from tilewright.compat._tensors import Dims, Kind, as_dtype, tensor

Tensor = torch.Tensor


@uses("mla")
def mla_decode_with_kv_cache(q: Tensor, q_pe: Tensor, k: Tensor, k_pe: Tensor) -> Tensor:
    """One query [B, H, D] over latent keys."""
    width = q_pe.shape[-1]
    return attention.multi_head_latent_attention_decode_with_kv_cache(
        q, q_pe, k, k_pe, pe_dim=width
    )


@uses("attention_paged")
def mha_paged(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_table: Tensor,
    cache_seqlens: Tensor,
    *,
    page_size: int,
    is_causal: bool = False,
) -> Tensor:
    """Queries [B, S, H, D] over keys in pages [tokens, H, D]."""
    given = (q, k_cache, v_cache, cache_seqlens, block_table)
    return attention.multi_head_attention_decode_paged_with_kv_cache(
        *given, page_size=page_size, is_causal=is_causal
    )


@uses("mla_paged")
def dsa_decode_with_kv_cache(
    q: Tensor,
    kv: Tensor,
    indices: Tensor,
    *,
    dim_tail: int,
    stride_kv: int,
    q_start_index_s: int,
    sm_scale: float | None = None,
    is_causal: bool = True,
) -> Tensor:
    """Queries to lists of latent keys."""
    return sparse.deep_seek_sparse_attention_decode_with_kv_cache(
        q, kv, indices, dim_tail=dim_tail, topk=indices.shape[-1], stride_kv=stride_kv,
        q_start_index_s=q_start_index_s, is_causal=is_causal, sm_scale=sm_scale,
    )  # fmt: skip


@uses("attention_paged", "rope")
def gqa_prefill_paged_with_kv_cache(
    q: Tensor,
    k_new: Tensor,
    v_new: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
    cu_seqlens_q: Tensor,
    cache_seqlens: Tensor,
    block_table: Tensor,
    *,
    page_size: int,
    max_seqlen_q: int,
    is_causal: bool = True,
    cache_dtype: torch.dtype | None = None,
    sm_scale: float | None = None,
    softcap: float | None = None,
    fuse_rope: bool = False,
    rope_base: float = 10000.0,
    max_position: int | None = None,
    rotary_dim: int | None = None,
) -> Tensor:
    """Writes new keys and values, then attends to all."""
    return attention.grouped_query_attention_prefill_paged_with_kv_cache(
        q, k_new, v_new, k_pages, v_pages, k_scale, v_scale, cu_seqlens_q, cache_seqlens,
        block_table, max_pages_per_req=block_table.shape[1], page_size=page_size,
        max_seqlen_q=max_seqlen_q, cache_dtype=cache_dtype, is_causal=is_causal, sm_scale=sm_scale,
        softcap=softcap, fuse_rope=fuse_rope, rope_base=rope_base, max_position=max_position,
        rotary_dim=rotary_dim,
    )  # fmt: skip


@uses("attention_paged")
def nsa_compressed_varlen(
    q: Tensor,
    k_cmp: Tensor,
    v_cmp: Tensor,
    cu_seqlens: Tensor,
    chunk_offsets: Tensor,
    token_indices: Tensor,
    *,
    block_size: int,
    sm_scale: float | None = None,
    validate_inputs: bool = False,
) -> tuple[Tensor, Tensor]:
    """Attention [T, H, D] to summaries of blocks, and the logarithms of its sums [H, T].

    Those are -inf before the end of the first block.
    """
    given = (q, k_cmp, v_cmp, chunk_offsets, token_indices)
    out, lse = sparse.attend_to_summaries(*given, sm_scale, block_size)
    return out, lse.T.contiguous()


@uses("matmul", "reduce", "exp", "sum", "topk")
def nsa_top_k_varlen(
    q: Tensor,
    k_cmp: Tensor,
    cu_seqlens: Tensor,
    chunk_offsets: Tensor,
    token_indices: Tensor,
    *,
    selected_block_num: int,
    block_size: int,
    sm_scale: float | None = None,
    validate_inputs: bool = False,
) -> Tensor:
    """The heaviest blocks of each token."""
    scale = q.shape[-1] ** -0.5 if sm_scale is None else sm_scale
    given = (q, k_cmp, cu_seqlens, chunk_offsets, token_indices)
    return sparse.nsa_top_k_varlen(
        *given, scale=scale, selected_block_num=selected_block_num, bs=block_size
    )


@uses("matmul", "reduce", "exp", "sum", "topk")
def nsa_topk_varlen(
    q: Tensor,
    k_cmp: Tensor,
    lse_in: Tensor,
    offsets: Tensor,
    chunk_offsets: Tensor,
    token_indices: Tensor,
    *,
    scale: float,
    selected_block_num: int,
    bs: int,
) -> Tensor:
    """The heaviest blocks of each token."""
    given = (q, k_cmp, lse_in, offsets, chunk_offsets, token_indices)
    options: dict[str, Any] = {"selected_block_num": selected_block_num, "bc": bs, "bs": bs}
    return sparse.nsa_topk_varlen(*given, scale=scale, **options)


@uses("attention_paged")
def nsa_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    block_indices: Tensor,
    block_counts: Tensor,
    cu_seqlens: Tensor,
    token_indices: Tensor,
    *,
    block_size: int,
    sm_scale: float | None = None,
    is_causal: bool = True,
    validate_inputs: bool = False,
) -> Tensor:
    """Attention to the blocks of each token."""
    given = (q, k, v, block_indices, block_counts, cu_seqlens, token_indices)
    return sparse.nsa_fwd_varlen(
        *given, is_causal=is_causal, scale=sm_scale, block_size=block_size,
        groups=q.shape[1] // k.shape[1], selected_blocks=block_indices.shape[-1],
    )  # fmt: skip


@uses("grouped_matmul", "k_grouped_matmul")
def grouped_gemm(
    a: Tensor,
    b: Tensor,
    batch_sizes: Tensor,
    batch_offsets: Tensor,
    *,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> Tensor:
    """Rows of a times their own matrix of b."""
    options = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    return experts.grouped_gemm(a, b, batch_sizes, batch_offsets, batch_offsets, **options)


@uses("linear", "mul")
def gemm_w4a8(
    activation: Tensor,
    packed_weight: Tensor,
    weight_group_scale: Tensor,
    weight_channel_scale: Tensor,
    activation_scale: Tensor,
    *,
    group_size: int = 128,
) -> Tensor:
    """8-bit floats [M, K] times signed weights [N, K], two in a byte and the low half first.

    A weight times the scale of its group is an 8-bit float; rows of both sides have scales.
    """
    halves = torch.stack([packed_weight << 4, packed_weight & 0xF0], -1).view(torch.int8)
    codes = (halves.flatten(-2) >> 4).float()
    scale = weight_group_scale.float().repeat_interleave(group_size, -1)
    weight = tensor(ops.mul(codes, scale)).to(torch.float8_e4m3fn).float()
    made = ops.linear(activation.float(), weight)
    made = ops.mul(made, activation_scale.float()[:, None])
    return tensor(ops.mul(made, weight_channel_scale.float())).bfloat16()


@uses()
def repack_w4a8(packed_weight: Tensor) -> Tensor:
    """Weights as they are: gemm_w4a8 takes them in no order of its own."""
    return packed_weight


@uses("rope")
def rope(
    x: Tensor, *, rope_layout: str = "neox", input_layout: str = "1d", base: float = 10000.0
) -> Tensor:
    """Pairs are halves of a head (neox), or neighbours (interleaved)."""
    function = rotary.rope_neox if rope_layout == "neox" else rotary.rope_non_neox
    return function(x, layout=input_layout, base=base)


@uses("unary", "binary", "mul")
def alibi(
    *, seq_len: int, num_heads: int, out_dtype: Kind = torch.float32, device: Any = None
) -> Tensor:
    """-slope * |i - j| [H, S, S]."""
    made = elementwise.alibi(seq_len=seq_len, num_heads=num_heads, dtype=out_dtype or "float32")
    return made if device is None else made.to(device)


@uses("unary", "binary")
def sinusoidal(
    *, seq_len: int, d_model: int, out_dtype: Kind = torch.float32, device: Any = None
) -> Tensor:
    """Sines and cosines in turn [S, D]."""
    made = elementwise.sinusoidal(seq_len=seq_len, d_model=d_model, dtype=out_dtype or "float32")
    return made if device is None else made.to(device)


@uses("dropout")
def dropout(
    input: Tensor,
    *,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    seed: int | None = None,
) -> Tensor:
    """Zeros with probability p, the same ones for a seed; the rest divided by 1 - p."""
    drawn = int(torch.randint(2**62, ())) if seed is None else seed
    made = elementwise.dropout(input, p=p, seed=drawn, training=training)
    return input.copy_(made) if inplace else made


@uses("gelu_and_mul", "gelu_tanh_and_mul")
def gelu_and_mul(input: Tensor, *, approximate: str = "none") -> Tensor:
    """gelu(first half) * second half, by erf or by tanh."""
    of = elementwise.gelu_and_mul if approximate == "none" else elementwise.gelu_tanh_and_mul
    return of(input)


@uses("reduce")
def vector_norm(
    x: Tensor, *, ord: float = 2, dim: Dims = None, keepdim: bool = False, dtype: Kind = None
) -> Tensor:
    """The norms of order 1, 2 or infinity along some dimensions, or of everything."""
    norm = {1: reductions.l1_norm, 2: reductions.l2_norm, math.inf: reductions.inf_norm}.get(ord)
    if norm is None:
        raise NotImplementedError(f"VectorNormFwdOp: ord = {ord} is none of 1, 2 and inf")
    return norm(as_dtype(x, dtype), ord=ord, dim=dim, keepdim=keepdim)


@uses("reduce")
def log_sum_exp(input: Tensor, *, dim: int | Sequence[int] = -1, keepdim: bool = False) -> Tensor:
    """The logarithms of the sums of exponentials along some dimensions."""
    if not isinstance(dim, int) and len(dim) == 0:
        raise ValueError("LogSumExpFwdOp: an empty dim is rejected")
    return reductions.log_sum_exp(input, dim=dim, keepdim=keepdim)


@uses("scan")
def cumsum(input: Tensor, *, dim: int = -1, dtype: Kind = None) -> Tensor:
    """The sums of the elements up to each along a dimension, of input in this dtype."""
    return reductions.cumsum(as_dtype(input, dtype), dim=dim)


@uses("scan")
def cumprod(input: Tensor, *, dim: int = -1, dtype: Kind = None) -> Tensor:
    """The products of the elements up to each along a dimension, of input in this dtype."""
    return reductions.cumprod(as_dtype(input, dtype), dim=dim)


@uses("var_mean", "unary", "mul", "add")
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Normalization of each channel; in training its means and inverse deviations, too."""
    options: dict[str, Any] = {"training": training, "momentum": momentum, "eps": eps}
    given = (input, running_mean, running_var, weight, bias)
    out, mean, var = norms.batch_norm_with_moments(*given, **options)
    rstd = None if var is None else tensor(ops.unary(var + eps, "rsqrt"))
    return out, mean, rstd


@uses("sum", "unary", "mul", "add")
def batch_norm_bwd(
    doutput: Tensor,
    input: Tensor,
    save_mean: Tensor,
    save_invstd: Tensor,
    weight: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of input, weight and bias of a BatchNorm in training."""
    factor = torch.ones_like(save_mean) if weight is None else weight
    return norms.batch_norm_bwd(doutput, input, factor, save_mean, save_invstd)
