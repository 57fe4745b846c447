"""TileOPs' operators as classes by family: parameters at construction, tensors by call."""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tilewright.compat import _tileops_expert_layouts, _tileops_unified
from tilewright.compat._paths import also_at

# Classes by family, without the ending FwdOp (Op for gradients). The function that serves one has
# its name in small letters, or stands after a "=".
FAMILIES = {
    "attention": """
        GQADense GQAVarlen GQAPaged GQAPrefillPagedWithKVCache GQABwd=grouped_query_attention_bwd
        MHADecodePagedWithKVCache=multi_head_attention_decode_paged_with_kv_cache
        MLADecodeWithKVCache MLAPaged MLAVarlen MLAKVCacheWrite=mla_kv_cache_write
        DSADecodeWithKVCache DSAPaged
        NSACompressedVarlen NSATopKVarlen NSAVarlen FP8LightningIndexer TopKSelect=topk_selector
        MergeAttentionStates PagedKVCacheWrite PagedKVCacheGather
        MultiHeadAttention MultiHeadAttentionBwd MultiHeadAttentionDecodeWithKVCache
        MultiHeadAttentionDecodePagedWithKVCache GroupedQueryAttention GroupedQueryAttentionBwd
        GroupedQueryAttentionDense=gqa_dense GroupedQueryAttentionVarlen=gqa_varlen
        GroupedQueryAttentionPaged=gqa_paged GroupedQueryAttentionPrefill
        GroupedQueryAttentionPrefillVarlen GroupedQueryAttentionDecodeWithKVCache
        GroupedQueryAttentionDecodePagedWithKVCache GroupedQueryAttentionSlidingWindow
        GroupedQueryAttentionPrefillPagedWithKVCache=gqa_prefill_paged_with_kv_cache
        GroupedQueryAttentionSlidingWindowVarlen MultiHeadLatentAttentionPaged=mla_paged
        MultiHeadLatentAttentionVarlen=mla_varlen
        MultiHeadLatentAttentionDecodeWithKVCache=mla_decode_with_kv_cache
        MultiHeadLatentAttentionKVCacheWrite=mla_kv_cache_write
        DeepSeekSparseAttentionDecodeWithKVCache=dsa_decode_with_kv_cache
        DeepSeekSparseAttentionPaged=dsa_paged NSACmpVarlen=nsa_compressed_varlen
        NSATopkVarlen=nsa_topk_varlen TopkSelector
    """,
    "convolution": "Conv1d Conv2d Conv3d",
    "elementwise": """
        Abs Add Alibi BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Clamp ClampScalar Cos Div
        Dropout Elu Eq Erf Exp Expm1 FloorDivide Floor Ge GeluAndMul Gelu GeluTanhAndMul Gt
        Hardsigmoid Hardswish Hardtanh Isfinite Isinf Isnan LeakyRelu Le Lerp LerpTensor Log1p Log
        LogicalAnd LogicalNot LogicalOr Lt MaskedFill MaskedFillScalar Maximum Minimum Mish Mul
        NanToNum Ne Neg Pow Prelu Reciprocal Relu Remainder Round Rsqrt Selu Sigmoid Sign SiluAndMul
        Silu Sin Sinusoidal Softplus Sqrt Sub Tanh Trunc Where
    """,
    "fft": "FFTC2C=fft_c2c",
    "gemm": """
        Gemm GemmFP8 GemmFp8=gemm_fp8 GemmW4A16=gemm_w4a16_prepacked GemmW4A8=gemm_w4a8
        GemmINT8W8A8=gemm_int8_w8a8 GemmInt8W8A8=gemm_int8_w8a8 Bmm BmmFP8 BmmFp8=bmm_fp8
        BmmFp8KN=bmm_fp8_kn BmmFp8NK=bmm_fp8_nk GroupedGemm
    """,
    "linear_attention": """
        DeltaNetInference DeltaNetChunk=delta_net DeltaNetChunkBwd=delta_net_bwd
        DeltaNetRecurrent=delta_net_decode GDN KDA GLAInference GLAChunk=gla GLAChunkBwd=gla_bwd
        GLARecurrent=gla_decode DeltaNet DeltaNetBwd DeltaNetDecode DeltaNetAutograd
        GatedDeltaNet=gdn KimiDeltaAttention=kda GLA GLABwd GLADecode
        GatedDeltaNetBTHD=gated_delta_net_bthd GatedDeltaNetBHTD=gated_delta_net_bhtd
        GatedDeltaNetBwd GatedDeltaNetDecode
        GatedDeltaNetPrefillBTHD=gated_delta_net_prefill_bthd
        GatedDeltaNetPrefillBHTD=gated_delta_net_prefill_bhtd
    """,
    "mamba": """
        Mamba2 SSDChunkCumsum=da_cumsum SSDChunkCoupling SSDChunkState SSDStatePassing SSDChunkScan
        SSDRecurrent=ssd_decode SelectiveScan CausalConv1d CausalConv1dUpdate DaCumsum
        CBProducer=cb_producer SSDDecode
    """,
    "moe": """
        FusedTopK MoEPrePermute MoEPermuteAlign MoEGroupedGemm MoEGroupedGemmFP8 MoEExpertMLP
        MoEPostPermute FusedMoEExperts FusedMoE FusedMoESharedExpert IndexedExpertMLP
        SharedExpertMLP MoePrePermute MoePermuteAlign MoeGroupedGemm MoeExpertMLP MoePostPermute
        FusedMoe FusedMoeSharedExpert MoeGateUp MoeGroupedGemmNopad MoePermuteNopad MoeUnpermute
    """,
    "norm": """
        RMSNorm LayerNorm AdaLayerNorm AdaLayerNormZero FusedAddLayerNorm FusedAddRMSNorm
        FusedAddRMSNormPerTokenQuant FusedQKNormRoPE FusedQKNormRope=fused_qk_norm_rope BatchNorm
        BatchNormBwd GroupNorm InstanceNorm
    """,
    "pool": """
        AvgPool1d AvgPool2d AvgPool3d MaxPool1d MaxPool1dIndices MaxPool2d MaxPool2dIndices
        MaxPool3d MaxPool3dIndices AdaptiveAvgPool2d AdaptiveMaxPool2d AdaptiveMaxPool2dIndices
        MeanPooling
    """,
    "quantization": """
        FP8Quant FP8QuantPerBlock INT4QuantPerGroup=int4_quant_per_group_with_zeros
        INT8QuantPerTensor INT8QuantPerChannel INT8QuantPerBlock=int8_quant_per_token_group
        INT8QuantPerTokenGroup FP8QuantPerTokenGroup INT8DequantPerTensor INT8DequantPerChannel
        INT8DequantPerBlock SmoothQuant
    """,
    "reduction": """
        Sum Mean Prod Amax Amin Var VarMean Std Argmax Argmin Softmax LogSoftmax LogSumExp L1Norm
        L2Norm InfNorm Cumsum Cumprod All Any CountNonzero
    """,
    "rope": """
        RoPE=rope RoPELlama31=rope_llama31 YaRN=rope_yarn LongRoPE=rope_long_rope
        RoPENeoxPositionIds=rope_neox_position_ids RopeNeox RopeNonNeox RopeLlama31 RopeYarn
        RopeLongRope RopeNeoxPositionIds
    """,
    "sampling": """
        TopKMask TopPMask MinPMask TopKTopPMask SamplingFromProbs ChainSpeculativeSampling
    """,
    "sequence_modeling": "MHCPre MHCPost EngramGateConv EngramGateConvBwd EngramDecode",
    "transform": "HadamardTransform",
}

# Parameters whose names have changed; either is taken.
_RENAMED = {"input_layout": "layout", "out_dtype": "dtype"}

# Defaults of classes that are not those of their functions.
_DEFAULTS = {"gqa_dense": {"is_causal": True}}

TARGET = "tilewright"


class Op:
    """An operator: its parameters are told once, its tensors at each call.

    `target` names whose kernels run it, of which there are tilewright's; `kernel_map` and `tune`
    are about TileOPs' own and change nothing.
    """

    function: ClassVar[Callable[..., Any]]
    operators: ClassVar[tuple[str, ...]]
    parameters: ClassVar[inspect.Signature]

    def __init__(self, *positional: Any, **named: Any) -> None:
        """Keeps the parameters, each of which is an attribute, too."""
        names = self.parameters.parameters
        given = {_RENAMED[n] if _RENAMED.get(n) in names else n: x for n, x in named.items()}
        try:
            bound = self.parameters.bind(*positional, **given)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        bound.apply_defaults()
        settings = {name: bound.arguments.pop(name) for name in ("target", "kernel_map", "tune")}
        if settings["target"] not in (None, TARGET) and repr(settings["target"]) != "BUILTIN":
            raise ValueError(f"{type(self).__name__}: there is no target {settings['target']!r}")
        self.options = dict(bound.arguments)
        self.__dict__.update(self.options)

    def forward(self, *tensors: Any, **named: Any) -> Any:
        """Runs the operator."""
        return type(self).function(*tensors, **named, **self.options)

    __call__ = forward


def _snake(name: str) -> str:
    """RMSNorm as rms_norm."""
    plain = name.replace("MoE", "Moe").replace("RoPE", "Rope")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", plain).lower()


def _parameters(function: Callable[..., Any], defaults: Mapping[str, Any]) -> inspect.Signature:
    """Those that are not tensors, first the ones that must be given; then what TileOPs adds."""
    own = [
        p.replace(
            kind=inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=defaults.get(p.name, p.default),
            annotation=inspect.Parameter.empty,
        )
        for p in inspect.signature(function).parameters.values()
        if p.kind is inspect.Parameter.KEYWORD_ONLY and p.name != "out"
    ]
    own.sort(key=lambda p: p.default is not inspect.Parameter.empty)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, default in (("target", None), ("kernel_map", None), ("tune", False))
    ]
    return inspect.Signature([*own, *added])


def _optional(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose tensors that may be None may also be left out."""
    signature = inspect.signature(function)
    may_be_none = {
        n: None for n, p in signature.parameters.items()
        if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        and p.default is inspect.Parameter.empty and "None" in str(p.annotation)
    }  # fmt: skip

    def called(*tensors: Any, **named: Any) -> Any:
        given = signature.bind_partial(*tensors, **named).arguments
        return function(**{**may_be_none, **given})

    return called if may_be_none else function


def _class(name: str, function: Callable[..., Any]) -> type[Op]:
    parameters = _parameters(function, _DEFAULTS.get(function.__name__, {}))
    body = {
        "__doc__": f"{function.__name__} as a class: {(function.__doc__ or '').splitlines()[0]}",
        "__signature__": parameters,
        "parameters": parameters,
        "function": staticmethod(_optional(function)),
        "operators": function.__dict__["operators"],
    }
    return type(name, (Op,), body)


def classes(functions: Mapping[str, Any]) -> dict[str, dict[str, type[Op]]]:
    """The classes of each family, each served by one of these functions."""
    made: dict[str, dict[str, type[Op]]] = {}
    for family, names in FAMILIES.items():
        of_family = made.setdefault(family, {})
        for entry in names.split():
            stem, _, function = entry.partition("=")
            name = f"{stem}Op" if stem.endswith("Bwd") else f"{stem}FwdOp"
            key = function or _snake(stem)
            served = vars(_tileops_unified).get(key) or functions[key]
            of_family[name] = _class(name, served)
    weights = made["gemm"]["GemmW4A16FwdOp"]
    weights.repack = staticmethod(functions["repack_w4a16"])  # type: ignore[attr-defined]
    return made


def install(parent: str, functions: Mapping[str, Any]) -> None:
    """Makes parent.FAMILY and parent.ops, with parent.ops.FAMILY, modules of classes."""
    whole = types.ModuleType(f"{parent}.ops", "TileOPs' operators as classes.")
    whole.__dict__.update(Op=Op, MISSING={})
    sys.modules[whole.__name__] = whole
    sys.modules[parent].__dict__["ops"] = whole
    for family, made in classes(functions).items():
        module = types.ModuleType(f"{parent}.{family}", f"TileOPs' operators of {family}.")
        for cls in made.values():
            cls.__module__ = module.__name__
        module.__dict__.update(made)
        whole.__dict__.update(made)
        sys.modules[module.__name__] = module
        also_at(module.__name__, f"{whole.__name__}.{family}")
        if not hasattr(sys.modules[parent], family):  # a function of the family's name stays
            setattr(sys.modules[parent], family, module)
    contracts = {n: c for n, c in vars(_tileops_expert_layouts).items() if isinstance(c, type)}
    sys.modules[f"{parent}.moe"].__dict__.update(contracts)
