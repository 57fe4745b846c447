"""TileOPs' operators: tensors by position, parameters by name, results in its order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.compat._coverage import by_name, refuse
from tilewright.compat._tileops_attention import (
    grouped_query_attention,
    grouped_query_attention_decode_paged_with_kv_cache,
    grouped_query_attention_decode_with_kv_cache,
    grouped_query_attention_prefill_paged_with_kv_cache,
    grouped_query_attention_prefill_varlen,
    grouped_query_attention_sliding_window,
    grouped_query_attention_sliding_window_varlen,
    multi_head_attention,
    multi_head_attention_decode_paged_with_kv_cache,
    multi_head_attention_decode_with_kv_cache,
    multi_head_latent_attention_decode_with_kv_cache,
)
from tilewright.compat._tileops_rope import (
    rope_llama31,
    rope_long_rope,
    rope_neox,
    rope_neox_position_ids,
    rope_non_neox,
    rope_yarn,
)
from tilewright.compat._tileops_simple import (
    add,
    argmax,
    bmm,
    erf,
    exp,
    fused_add_rms_norm,
    gelu,
    gelu_tanh_and_mul,
    gemm,
    log,
    moe_shared_expert_mlp,
    mul,
    neg,
    relu,
    rms_norm,
    sigmoid,
    silu,
    silu_and_mul,
    softmax,
    sub,
    sum,
    tanh,
)

MISSING = by_name(
    {
        "elementwise operator of this kind": "abs bitwise_and bitwise_not bitwise_or bitwise_xor "
        "ceil clamp clamp_scalar cos div elu eq expm1 floor floor_divide ge gt hardsigmoid "
        "hardswish hardtanh isfinite isinf isnan le leaky_relu lerp lerp_tensor log1p logical_and "
        "logical_not logical_or lt masked_fill masked_fill_scalar maximum minimum mish nan_to_num "
        "ne pow prelu reciprocal remainder round rsqrt selu sign sin softplus sqrt trunc where",
        "gated GELU by erf": "gelu_and_mul",
        "layer normalization": "ada_layer_norm ada_layer_norm_zero fused_add_layer_norm layer_norm",
        "normalization over a batch or over groups": "batch_norm batch_norm_bwd group_norm "
        "instance_norm",
        "pooling": "adaptive_avg_pool2d adaptive_max_pool2d adaptive_max_pool2d_indices "
        "avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool1d_indices max_pool2d "
        "max_pool2d_indices max_pool3d max_pool3d_indices mean_pooling",
        "convolution": "conv1d conv2d conv3d",
        "Fourier transform": "fft_c2c",
        "position tables": "alibi sinusoidal",
        "reduction of this kind": "all amax amin any argmin count_nonzero inf_norm l1_norm l2_norm "
        "log_softmax log_sum_exp mean prod std var var_mean",
        "scan": "cumprod cumsum",
        "dropout": "dropout",
        "quantization or 8-bit multiplication": "bmm_fp8_kn bmm_fp8_nk fp8_quant gemm_fp8 "
        "fp8_lightning_indexer",
        "multiplication by 4-bit weights in this layout": "gemm_w4a16",
        "grouped matrix multiplication": "grouped_gemm moe_gate_up moe_grouped_gemm_nopad",
        "routing to experts": "moe_fused_topk moe_permute_align moe_permute_nopad moe_unpermute",
        "attention gradient from a given lse": "grouped_query_attention_bwd "
        "multi_head_attention_bwd",
        "attention with scales per request": "grouped_query_attention_prefill",
        "sparse attention": "deep_seek_sparse_attention_decode_with_kv_cache nsa_cmp_fwd_varlen "
        "nsa_fwd_varlen nsa_topk_varlen topk_selector",
        "linear attention": "delta_net delta_net_bwd delta_net_decode gated_delta_net_bhtd "
        "gated_delta_net_bthd gated_delta_net_bwd gated_delta_net_decode "
        "gated_delta_net_prefill_bhtd gated_delta_net_prefill_bthd gla gla_bwd gla_decode",
        "state-space model": "cb_producer da_cumsum mamba2 ssd_chunk_scan ssd_chunk_state "
        "ssd_decode ssd_state_passing",
        "gated convolution": "engram_decode engram_gate_conv engram_gate_conv_bwd",
        "hyper-connections": "mhc_post mhc_pre",
    }
)

__all__ = [
    "MISSING",
    "add",
    "argmax",
    "bmm",
    "erf",
    "exp",
    "fused_add_rms_norm",
    "gelu",
    "gelu_tanh_and_mul",
    "gemm",
    "grouped_query_attention",
    "grouped_query_attention_decode_paged_with_kv_cache",
    "grouped_query_attention_decode_with_kv_cache",
    "grouped_query_attention_prefill_paged_with_kv_cache",
    "grouped_query_attention_prefill_varlen",
    "grouped_query_attention_sliding_window",
    "grouped_query_attention_sliding_window_varlen",
    "log",
    "moe_shared_expert_mlp",
    "mul",
    "multi_head_attention",
    "multi_head_attention_decode_paged_with_kv_cache",
    "multi_head_attention_decode_with_kv_cache",
    "multi_head_latent_attention_decode_with_kv_cache",
    "neg",
    "relu",
    "rms_norm",
    "rope_llama31",
    "rope_long_rope",
    "rope_neox",
    "rope_neox_position_ids",
    "rope_non_neox",
    "rope_yarn",
    "sigmoid",
    "silu",
    "silu_and_mul",
    "softmax",
    "sub",
    "sum",
    "tanh",
]


def __getattr__(name: str) -> Callable[..., Any]:
    return refuse(__name__, MISSING, name)
