"""TileGym's operators, with its arguments, layouts and results.

Arguments that tune TileGym's kernels (`use_tma`, `static_persistent`, `mode`, `kernel_configs`)
are accepted and change nothing; `backend` names one of tilewright's, or one of TileGym's sets of
kernels (`cutile`), in whose place tilewright's own stand. `tilegym.ops`, `tilegym.suites` and
`tilegym.backend` are where TileGym has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.compat._coverage import by_name, refuse
from tilewright.compat._paths import also_at
from tilewright.compat.tilegym import backend, flashinfer, liger, logger, unsloth
from tilewright.compat.tilegym._attention import (
    attention_sink,
    attention_sink_decode,
    fmha,
    fmha_backward,
    fmha_decode,
    fmha_forward_with_lse,
    fmha_varlen,
    gemma_attention,
    gemma_attention_decode,
    mla,
    mla_decoding,
    mla_decoding_split_kv,
    splitk_reduce,
    swa_attention,
    tile_fmha_functional,
    tile_fmha_with_backward,
)
from tilewright.compat.tilegym._attention_variant import fmha_variant
from tilewright.compat.tilegym._dropout import dropout
from tilewright.compat.tilegym._experts import (
    fused_moe,
    invoke_fused_moe_kernel,
    mhc_apply_residual,
    mhc_gemm_rms_scale,
    mhc_sinkhorn,
    moe_actgrad_bwd,
    moe_align_block_size,
)
from tilewright.compat.tilegym._interfaces import (
    FlashAttentionFunction,
    attention_sink_interface,
    fmha_interface,
    get_attention_sink_interface,
    get_fmha_gemma3_interface,
    get_fmha_interface,
    mla_decoding_interface,
    mla_interface,
)
from tilewright.compat.tilegym._layers import (
    PartiallyFusedGEGLUMLP,
    PartiallyFusedSwiGLUMLP,
    apply_rope_base,
    bmm,
    fused_linear_cross_entropy,
    geglu,
    gelu,
    get_apply_rope_func,
    get_fused_swiglu_module,
    get_swiglu,
    get_swiglu_module,
    group_gemm,
    linear_gluact_linear,
    matmul,
    relu,
    silu_and_mul,
    softmax,
    transpose,
    w8a8_block_fp8_matmul,
)
from tilewright.compat.tilegym._linear_attention import (
    chunk_gated_delta_rule,
    mamba2_chunk_backward,
    mamba2_chunk_forward,
    recurrent_gated_delta_rule,
)
from tilewright.compat.tilegym._norms import (
    get_rms_norm_module,
    layer_norm,
    layer_norm_legacy,
    persistent_layer_norm,
    rms_norm,
)
from tilewright.compat.tilegym._nvfp4 import nvfp4_quantize
from tilewright.compat.tilegym._references import (
    attention_sink_ref,
    fused_experts_impl,
    fused_moe_torch,
    gemma3_eager_attention_forward,
    moe_align_block_size_torch,
    repeat_kv,
)
from tilewright.compat.tilegym._sparse_attention import sparse_mla
from tilewright.compat.tilegym.backend import (
    get_available_backends,
    get_current_backend,
    is_backend_available,
    set_backend,
)

MISSING: dict[str, str] = by_name({})

also_at(
    __name__,
    f"{__name__}.ops",
    f"{__name__}.ops.activation",
    f"{__name__}.ops.attn_interface",
    f"{__name__}.ops.cutile",
    f"{__name__}.ops.cutile.attention",
    f"{__name__}.ops.cutile.experimental",
    f"{__name__}.ops.cutile.experimental.fused_linear_cross_entropy",
    f"{__name__}.ops.moe_interface",
    f"{__name__}.suites",
)
for _suite in ("flashinfer", "liger", "unsloth"):
    _paths = (f"{__name__}.suites.{_suite}", f"{__name__}.suites.{_suite}.ops")
    also_at(f"{__name__}.{_suite}", f"{__name__}.{_suite}.ops", *_paths)

__all__ = [
    "MISSING",
    "FlashAttentionFunction",
    "PartiallyFusedGEGLUMLP",
    "PartiallyFusedSwiGLUMLP",
    "apply_rope_base",
    "attention_sink",
    "attention_sink_decode",
    "attention_sink_interface",
    "attention_sink_ref",
    "backend",
    "bmm",
    "chunk_gated_delta_rule",
    "dropout",
    "flashinfer",
    "fmha",
    "fmha_backward",
    "fmha_decode",
    "fmha_forward_with_lse",
    "fmha_interface",
    "fmha_variant",
    "fmha_varlen",
    "fused_experts_impl",
    "fused_linear_cross_entropy",
    "fused_moe",
    "fused_moe_torch",
    "geglu",
    "gelu",
    "gemma3_eager_attention_forward",
    "gemma_attention",
    "gemma_attention_decode",
    "get_apply_rope_func",
    "get_attention_sink_interface",
    "get_available_backends",
    "get_current_backend",
    "get_fmha_gemma3_interface",
    "get_fmha_interface",
    "get_fused_swiglu_module",
    "get_rms_norm_module",
    "get_swiglu",
    "get_swiglu_module",
    "group_gemm",
    "invoke_fused_moe_kernel",
    "is_backend_available",
    "layer_norm",
    "layer_norm_legacy",
    "liger",
    "linear_gluact_linear",
    "logger",
    "mamba2_chunk_backward",
    "mamba2_chunk_forward",
    "matmul",
    "mhc_apply_residual",
    "mhc_gemm_rms_scale",
    "mhc_sinkhorn",
    "mla",
    "mla_decoding",
    "mla_decoding_interface",
    "mla_decoding_split_kv",
    "mla_interface",
    "moe_actgrad_bwd",
    "moe_align_block_size",
    "moe_align_block_size_torch",
    "nvfp4_quantize",
    "persistent_layer_norm",
    "recurrent_gated_delta_rule",
    "relu",
    "repeat_kv",
    "rms_norm",
    "set_backend",
    "silu_and_mul",
    "softmax",
    "sparse_mla",
    "splitk_reduce",
    "swa_attention",
    "tile_fmha_functional",
    "tile_fmha_with_backward",
    "transpose",
    "unsloth",
    "w8a8_block_fp8_matmul",
]


def __getattr__(name: str) -> Callable[..., Any]:
    return refuse(__name__, MISSING, name)
