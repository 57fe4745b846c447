"""TileOPs' classes: their names, and how they differ from the functions that serve them.

Names and parameters are those of TileOPs 0.1.0; names that it had before stand after them.
"""

from __future__ import annotations

from typing import Any

import torch

# Classes by family, without the ending FwdOp (Op for gradients), older names after a "|". The
# function that serves one has its name in small letters, or stands after a "=".
FAMILIES = {
    "attention": """
        GQADense|GroupedQueryAttentionDense GQADenseWithLSE
        GQADenseBwd GQAVarlen|GroupedQueryAttentionVarlen
        GQAPaged|GroupedQueryAttentionPaged MHAPaged
        GQAPrefillPagedWithKVCache|GroupedQueryAttentionPrefillPagedWithKVCache
        GQABwd|GroupedQueryAttentionBwd
        MHADecodePagedWithKVCache|MultiHeadAttentionDecodePagedWithKVCache
        MLADenseDecode|MLADecodeWithKVCache|MultiHeadLatentAttentionDecodeWithKVCache
        MLADenseBwd MLAVarlenBwd
        MLAPaged|MultiHeadLatentAttentionPaged MLAVarlen|MultiHeadLatentAttentionVarlen
        MLAKVCacheWrite|MultiHeadLatentAttentionKVCacheWrite=mla_kv_cache_write
        DSADense|DSADecodeWithKVCache|DeepSeekSparseAttentionDecodeWithKVCache
        DSAPaged|DeepSeekSparseAttentionPaged NSACompressedVarlen|NSACmpVarlen NSATopKVarlen
        NSATopkVarlen NSAVarlen FP8LightningIndexer
        TopKSelect|TopkSelector
        MergeAttentionStates PagedKVCacheWrite PagedKVCacheGather
        MultiHeadAttention MultiHeadAttentionBwd MultiHeadAttentionDecodeWithKVCache
        GroupedQueryAttention GroupedQueryAttentionPrefill GroupedQueryAttentionPrefillVarlen
        GroupedQueryAttentionDecodeWithKVCache GroupedQueryAttentionDecodePagedWithKVCache
        GroupedQueryAttentionSlidingWindow GroupedQueryAttentionSlidingWindowVarlen
    """,
    "convolution": "Conv1d Conv2d Conv3d",
    "elementwise": """
        Abs Add Alibi BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil ClampScalar
        ClampTensor|Clamp Cos Div Dropout ELU|Elu Eq Erf Exp Expm1 FloorDivide Floor Ge
        GELUAndMul|GeluAndMul GELU|Gelu GeluTanhAndMul Gt Hardsigmoid Hardswish
        Hardtanh Isfinite Isinf Isnan LeakyReLU|LeakyRelu Le LerpScalar|Lerp
        LerpTensor Log1p Log LogicalAnd LogicalNot LogicalOr Lt
        MaskedFillTensor|MaskedFill MaskedFillScalar Maximum Minimum Mish Mul NanToNum
        Ne Neg Pow PReLU|Prelu Reciprocal ReLU|Relu Remainder Round Rsqrt SELU|Selu
        Sigmoid Sign SiLUAndMul|SiluAndMul SiLU|Silu Sin Sinusoidal Softplus Sqrt
        Sub Tanh Trunc Where
    """,
    "fft": "FFTC2C=fft_c2c",
    "gemm": """
        GEMM|Gemm GEMMFP8|GemmFP8|GemmFp8
        GEMMW4A16|GemmW4A16=gemm_w4a16_prepacked GEMMW4A8|GemmW4A8=gemm_w4a8
        GEMMINT8W8A8|GemmINT8W8A8|GemmInt8W8A8=gemm_int8_w8a8 BMM|Bmm
        BMMFP8|BmmFP8|BmmFp8 BmmFp8KN BmmFp8NK
        GroupedGEMM|GroupedGemm
    """,
    "linear_attention": """
        DeltaNet|DeltaNetInference=delta_net_inference DeltaNetChunk=delta_net
        DeltaNetChunkBwd|DeltaNetBwd DeltaNetRecurrent|DeltaNetDecode
        DeltaNetAutograd GDN|GatedDeltaNet KDA|KimiDeltaAttention GLA|GLAInference=gla_inference
        GLAChunk GLAChunkBwd GLARecurrent|GLADecode GLABwd
        GatedDeltaNetBTHD GatedDeltaNetBHTD
        GatedDeltaNetBwd GatedDeltaNetDecode
        GatedDeltaNetPrefillBTHD
        GatedDeltaNetPrefillBHTD
    """,
    "mamba": """
        Mamba2 SSDChunkCumsum|DaCumsum SSDChunkCoupling SSDChunkState SSDStatePassing
        SSDChunkScan SSDRecurrent|SSDDecode SelectiveScan CausalConv1d
        CausalConv1dUpdate CBProducer
    """,
    "moe": """
        FusedTopK MoEPrePermute|MoePrePermute MoEPermuteAlign|MoePermuteAlign
        MoEGroupedGEMM|MoEGroupedGemm|MoeGroupedGemm
        MoEGroupedGEMMFP8|MoEGroupedGemmFP8 MoEExpertMLP|MoeExpertMLP
        MoEPostPermute|MoePostPermute FusedMoEExperts FusedMoE|FusedMoe
        FusedMoESharedExpert|FusedMoeSharedExpert IndexedExpertMLP SharedExpertMLP
        MoeGateUp MoeGroupedGemmNopad MoePermuteNopad MoeUnpermute
    """,
    "norm": """
        RMSNorm LayerNorm AdaLayerNorm AdaLayerNormZero FusedAddLayerNorm FusedAddRMSNorm
        FusedAddRMSNormPerTokenQuant FusedQKNormRoPE|FusedQKNormRope BatchNorm
        BatchNormBwd GroupNorm InstanceNorm
    """,
    "pool": """
        AvgPool1d AvgPool2d AvgPool3d MaxPool1d MaxPool1dIndices MaxPool2d MaxPool2dIndices
        MaxPool3d MaxPool3dIndices AdaptiveAvgPool2d AdaptiveMaxPool2d AdaptiveMaxPool2dIndices
        MeanPooling
    """,
    "quantization": """
        FP8Quant FP8QuantPerBlock INT4QuantPerGroup
        INT8QuantPerTensor INT8QuantPerChannel
        INT8QuantPerTokenGroup|INT8QuantPerBlock
        FP8QuantPerTokenGroup INT8DequantPerTensor INT8DequantPerChannel INT8DequantPerBlock
        SmoothQuant
    """,
    "reduction": """
        Sum Mean Prod Amax Amin Var VarMean Std Argmax Argmin Softmax LogSoftmax LogSumExp
        VectorNorm L1Norm L2Norm InfNorm Cumsum Cumprod All Any CountNonzero
    """,
    "rope": """
        RoPE RoPELlama31|RopeLlama31 YaRN|RopeYarn
        LongRoPE|RopeLongRope
        RoPENeoxPositionIds|RopeNeoxPositionIds RopeNeox RopeNonNeox
    """,
    "sampling": """
        TopKMask TopPMask MinPMask TopKTopPMask SamplingFromProbs ChainSpeculativeSampling
    """,
    "sequence_modeling": "MHCPre MHCPost EngramGateConv EngramGateConvBwd EngramDecode",
    "transform": "HadamardTransform",
}

# Parameters and tensors of a function, and what its class calls them; either is taken.
_INPUT = (
    "layer_norm group_norm instance_norm sum mean prod amax amin var var_mean std argmax argmin "
    "log_softmax all any count_nonzero"
)
_SCALES = "scale_a=a_scale scale_b=b_scale"
_RENAMED = {
    **dict.fromkeys(_INPUT.split(), "x=input"),
    "bmm_fp8": _SCALES,
    "da_cumsum": "chunk_len=chunk_size dtype=out_dtype",
    "delta_net_bwd": "S=h",
    "fp8_lightning_indexer": "cu_seqlen_ks=starts cu_seqlen_ke=ends",
    "fused_add_rms_norm": "x=input",
    "gemm_fp8": _SCALES,
    "gla_decode": "gk=g",
    "gqa_paged": "k_pages=k_cache v_pages=v_cache page_table=block_table",
    "grouped_gemm": "transpose_a=trans_a transpose_b=trans_b",
    "rope_llama31": "layout=input_layout scale_factor=scaling_factor",
    "rope_long_rope": "layout=input_layout max_position_embeddings=max_position "
    "original_max_position_embeddings=original_max_position",
    "rope_neox": "layout=input_layout",
    "rope_neox_position_ids": "position_ids=positions",
    "rope_non_neox": "layout=input_layout",
    "rope_yarn": "layout=input_layout scale=scaling_factor",
    "silu_and_mul": "x=input",
    "ssd_chunk_state": "Bmat=B",
    "ssd_decode": "B_in=B C_in=C",
    "topk_selector": "topk=top_k index_score=logits",
}
RENAMED = {
    function: dict(pair.split("=") for pair in pairs.split())
    for function, pairs in _RENAMED.items()
}

# Defaults of classes that are not those of their functions.
DEFAULTS: dict[str, dict[str, Any]] = {
    "bmm_fp8": {"out_dtype": torch.bfloat16},
    "da_cumsum": {"dtype": torch.float32},
    "fused_add_layer_norm": {"eps": 1e-6},
    "fused_add_rms_norm_per_token_quant": {"quant_dtype": torch.float8_e4m3fn},
    "gemm_fp8": {"out_dtype": torch.bfloat16},
    "gemm_int8_w8a8": {"out_dtype": torch.bfloat16},
    "gla_decode": {"scale": None},
    "gqa_paged": {"is_causal": False},
    "gqa_varlen": {"is_causal": False},
    "rms_norm": {"eps": None},
}

# Parameters that classes take and functions do not, with their defaults; they change nothing.
ADDED: dict[str, dict[str, Any]] = {"gqa_paged": {"validate_inputs": False}}

# What parameters must be when a class is made, by function: the parameter, and its values.
CHOICES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "div": ("rounding_mode", (None, "trunc", "floor")),
    "gelu": ("approximate", ("none", "tanh")),
    "gelu_and_mul": ("approximate", ("none", "tanh")),
    "rope": ("rope_layout", ("neox", "interleaved")),
}


def refused(function: str, options: dict[str, Any]) -> str:
    """Why a class of this function cannot be made with these parameters; nothing if it can."""
    name, values = CHOICES.get(function, ("", ()))
    if name and options[name] not in values:
        return f"{name} = {options[name]!r} is none of {', '.join(map(repr, values))}"
    if function == "clamp_scalar" and options["min"] is None and options["max"] is None:
        return "one of min and max must be given: present(min) or present(max)"
    dim = options.get("dim", 0)
    if function == "prod" and not isinstance(dim, int):
        return f"dim = {dim!r} is not one dimension"
    if function == "log_sum_exp" and dim is None:
        return "dim = None names no dimension"
    experts = options.get("experts")
    if experts is not None and options["activation"] not in ("silu_and_mul", experts.activation):
        return f"activation = {options['activation']!r} is not that of experts"
    return ""
