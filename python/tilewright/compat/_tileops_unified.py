"""What TileOPs' classes take where that is not what its first functions took.

Sizes that these were told are those of the tensors, and inputs that nobody read are gone.
"""

from __future__ import annotations

from typing import Any

import torch

from tilewright.compat import _tileops_attention as attention
from tilewright.compat import _tileops_elementwise as elementwise
from tilewright.compat import _tileops_expert_stages as stages
from tilewright.compat import _tileops_experts as experts
from tilewright.compat import _tileops_rope as rotary
from tilewright.compat import _tileops_sparse as sparse
from tilewright.compat import _tileops_state_space as state_space
from tilewright.compat._coverage import uses
from tilewright.compat._linear_attention import attend, gates
from tilewright.compat._tensors import Kind
from tilewright.compat._tileops_recurrences import States, delta_rule, within

Tensor = torch.Tensor


@uses("mla")
def mla_decode_with_kv_cache(q: Tensor, q_pe: Tensor, k: Tensor, k_pe: Tensor) -> Tensor:
    """One query [B, H, D] over latent keys."""
    width = q_pe.shape[-1]
    return attention.multi_head_latent_attention_decode_with_kv_cache(
        q, q_pe, k, k_pe, pe_dim=width
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
    offsets: Tensor,
    chunk_offsets: Tensor,
    token_indices: Tensor,
    *,
    scale: float,
    bs: int,
) -> tuple[Tensor, Tensor]:
    """Attention to summaries of blocks."""
    given = (q, k_cmp, v_cmp, offsets, chunk_offsets, token_indices)
    return sparse.nsa_cmp_fwd_varlen(*given, scale=scale, bc=bs, bs=bs)


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
    offsets: Tensor,
    token_indices: Tensor,
    *,
    is_causal: bool,
    scale: float,
    block_size: int,
) -> Tensor:
    """Attention to the blocks of each token."""
    given = (q, k, v, block_indices, block_counts, offsets, token_indices)
    return sparse.nsa_fwd_varlen(
        *given, is_causal=is_causal, scale=scale, block_size=block_size,
        groups=q.shape[1] // k.shape[1], selected_blocks=block_indices.shape[-1],
    )  # fmt: skip


@uses("grouped_matmul", "k_grouped_matmul")
def grouped_gemm(
    a: Tensor,
    b: Tensor,
    batch_sizes: Tensor,
    batch_offsets: Tensor,
    batch_padded_offsets: Tensor | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> Tensor:
    """Rows of a times their own matrix of b."""
    options = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    return experts.grouped_gemm(a, b, batch_sizes, batch_offsets, batch_offsets, **options)


@uses("moe_topk")
def fused_top_k(
    gating_output: Tensor,
    correction_bias: Tensor | None = None,
    *,
    top_k: int,
    scoring_func: Any = "softmax",
    renormalize: bool = False,
) -> tuple[Tensor, Tensor]:
    """The weights and numbers of each token's experts."""
    options: dict[str, Any] = {"scoring_func": scoring_func, "renormalize": renormalize}
    return experts.moe_fused_topk(gating_output, correction_bias, top_k=top_k, **options)


@uses("moe_align")
def moe_permute_align(
    topk_ids: Tensor, *, num_experts: int, block_size: int = 64
) -> tuple[Tensor, Tensor, Tensor]:
    """Entries by expert in blocks."""
    tokens, top_k = topk_ids.shape
    return experts.moe_permute_align(
        topk_ids, total_tokens=tokens, top_k=top_k, num_experts=num_experts, block_size=block_size
    )


@uses("matmul", "where")
def ssd_chunk_coupling(C_mat: Tensor, B_mat: Tensor, *, chunk_len: int) -> Tensor:
    """The products of a chunk's C and B, causal."""
    batch, length, groups, width = C_mat.shape
    return state_space.cb_producer(
        C_mat, B_mat, batch=batch, num_chunks=length // chunk_len, n_groups=groups,
        chunk_len=chunk_len, d_state=width,
    )  # fmt: skip


@uses("rope")
def rope(
    x: Tensor, *, rope_layout: str = "neox", input_layout: str = "1d", base: float = 10000.0
) -> Tensor:
    """Pairs are halves of a head (neox), or neighbours (interleaved)."""
    if rope_layout not in ("neox", "interleaved"):
        raise ValueError(f"rope_layout must be 'neox' or 'interleaved', not {rope_layout!r}")
    function = rotary.rope_neox if rope_layout == "neox" else rotary.rope_non_neox
    return function(x, layout=input_layout, base=base)


@uses("unary", "binary", "mul")
def alibi(*, seq_len: int, num_heads: int, out_dtype: Kind = None, device: Any = None) -> Tensor:
    """-slope * |i - j| [H, S, S]."""
    made = elementwise.alibi(seq_len=seq_len, num_heads=num_heads, dtype=out_dtype or "float32")
    return made if device is None else made.to(device)


@uses("unary", "binary")
def sinusoidal(*, seq_len: int, d_model: int, out_dtype: Kind = None, device: Any = None) -> Tensor:
    """Sines and cosines in turn [S, D]."""
    made = elementwise.sinusoidal(seq_len=seq_len, d_model=d_model, dtype=out_dtype or "float32")
    return made if device is None else made.to(device)


@uses("linear_attention")
def delta_net_inference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    initial_state: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    cu_seqlens_cpu: Tensor | None = None,
    *,
    scale: float | None = None,
    use_qk_l2norm_in_kernel: bool = False,
) -> States:
    """The delta rule without gates of [B, S, H, D], and the last states."""
    gate = gates(None, q, v.shape[2])
    return delta_rule(
        q, k, v, gate, beta, initial_state, cu_seqlens, scale, l2norm=use_qk_l2norm_in_kernel
    )


@uses("linear_attention")
def delta_net_autograd(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, *, chunk_size: int = 64
) -> Tensor:
    """The delta rule of [B, H, S, D], with gradients."""
    q, k, v, beta = (x.transpose(1, 2) for x in (q, k, v, beta))
    out, _ = attend(q, k, v, gates(None, q, v.shape[2]), beta, scale=1.0)
    return out.transpose(1, 2).contiguous()


@uses("linear_attention")
def gla(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    initial_state: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    cu_seqlens_cpu: Tensor | None = None,
    *,
    chunk_size: int = 64,
    scale: float | None = None,
) -> States:
    """Gated linear attention of [B, S, H, D], and the last states; a scale of at most 0 is none."""
    wide = tuple(x.float() for x in (q, k, v, g))
    factor = None if scale is None or scale <= 0 else scale
    out, last = within(wide, initial_state, cu_seqlens, factor)
    return out.to(q.dtype), last


@uses("linear_attention")
def gla_inference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    initial_state: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    cu_seqlens_cpu: Tensor | None = None,
    *,
    scale: float | None = None,
) -> States:
    """As gla."""
    return gla(q, k, v, g, initial_state, cu_seqlens, cu_seqlens_cpu, scale=scale)


@uses("linear", "silu_and_mul")
def shared_expert_mlp(hidden_states: Tensor, w_gate_up: Tensor, w_down: Tensor) -> Tensor:
    """A gated layer of all tokens."""
    return experts.moe_shared_expert_mlp(hidden_states, w_gate_up, w_down)


@uses("fused_experts")
def indexed_expert_mlp(
    output: Tensor,
    hidden_states: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    *,
    routed_scaling_factor: float = 1.0,
) -> None:
    """Each token's experts into `output`."""
    stages.fused_moe_experts(
        output, hidden_states, w_gate_up, w_down, topk_weights, topk_ids,
        routed_scaling_factor=routed_scaling_factor,
    )  # fmt: skip
