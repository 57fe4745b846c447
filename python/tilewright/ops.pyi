"""Every operator of the catalog. Written by tools/python_stubs.py; do not edit."""

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

_Array = TypeVar("_Array")

def add(
    x: _Array,
    other: Any,
    alpha: float = 1.0,
    *,
    backend: str | None = None,
) -> _Array:
    """add(x: T[...], other: T[...], alpha: f32 = 1) -> out: T[...]"""

def argmax(
    x: _Array,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    """argmax(x: T[*, C], dim: i64 = -1) -> out: i64[*]"""

def attention(
    q: _Array,
    k: Any,
    v: Any,
    kv_lens: Any | None = None,
    sinks: Any | None = None,
    k_scale: Any | None = None,
    v_scale: Any | None = None,
    scale: float = 0.0,
    causal: bool = False,
    window_left: int = -1,
    window_right: int = -1,
    softcap: float = 0.0,
    *,
    backend: str | None = None,
) -> _Array:
    """attention(q: T[B, S, Hq, D], k: U[B, L, H, D], v: U[B, L, H, Dv], kv_lens: i32[B]?, sinks: f32[Hq]?, k_scale: f32[B, L, H]?, v_scale: f32[B, L, H]?, scale: f32 = 0, causal: bool = false, window_left: i64 = -1, window_right: i64 = -1, softcap: f32 = 0) -> out: T[B, S, Hq, Dv], lse: f32[B, Hq, S]?"""

def attention_paged(
    q: _Array,
    k_pages: Any,
    v_pages: Any,
    block_table: Any,
    kv_lens: Any,
    cu_seqlens_q: Any | None = None,
    sinks: Any | None = None,
    k_scale: Any | None = None,
    v_scale: Any | None = None,
    scale: float = 0.0,
    causal: bool = False,
    window_left: int = -1,
    window_right: int = -1,
    softcap: float = 0.0,
    *,
    backend: str | None = None,
) -> _Array:
    """attention_paged(q: T[N, Hq, D], k_pages: U[P, S, H, D], v_pages: U[P, S, H, Dv], block_table: i32[B, W], kv_lens: i32[B], cu_seqlens_q: i32[C]?, sinks: f32[Hq]?, k_scale: f32[P, S, H]?, v_scale: f32[P, S, H]?, scale: f32 = 0, causal: bool = false, window_left: i64 = -1, window_right: i64 = -1, softcap: f32 = 0) -> out: T[N, Hq, Dv], lse: f32[Hq, N]?"""

def attention_varlen(
    q: _Array,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_kv: Any,
    sinks: Any | None = None,
    k_scale: Any | None = None,
    v_scale: Any | None = None,
    scale: float = 0.0,
    causal: bool = False,
    window_left: int = -1,
    window_right: int = -1,
    softcap: float = 0.0,
    *,
    backend: str | None = None,
) -> _Array:
    """attention_varlen(q: T[N, Hq, D], k: U[M, H, D], v: U[M, H, Dv], cu_seqlens_q: i32[C], cu_seqlens_kv: i32[C], sinks: f32[Hq]?, k_scale: f32[M, H]?, v_scale: f32[M, H]?, scale: f32 = 0, causal: bool = false, window_left: i64 = -1, window_right: i64 = -1, softcap: f32 = 0) -> out: T[N, Hq, Dv], lse: f32[Hq, N]?"""

def copy(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    """copy(x: T[...]) -> out: T[...]"""

def embedding(
    weight: _Array,
    indices: Any,
    *,
    backend: str | None = None,
) -> _Array:
    """embedding(weight: T[V, C], indices: I[*]) -> out: T[*, C]"""

def erf(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    """erf(x: T[...]) -> out: T[...]"""

def exp(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    """exp(x: T[...]) -> out: T[...]"""

def fused_add_rms_norm(
    x: _Array,
    residual: Any,
    weight: Any,
    eps: float = 1e-06,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array]:
    """fused_add_rms_norm(x: T[*, C], residual: T[*, C], weight: T[C], eps: f32 = 1e-6) -> out: T[*, C], residual_out: T[*, C]"""

def gelu(
    x: _Array,
    approximate: Literal["none", "tanh"] = "none",
    *,
    backend: str | None = None,
) -> _Array:
    """gelu(x: T[...], approximate: none|tanh = none) -> out: T[...]"""

def gelu_tanh_and_mul(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    """gelu_tanh_and_mul(x: T[*, 2*H]) -> out: T[*, H]"""

def linear(
    x: _Array,
    weight: Any,
    bias: Any | None = None,
    residual: Any | None = None,
    activation: Literal["none", "relu", "gelu", "gelu_tanh", "silu"] = "none",
    *,
    backend: str | None = None,
) -> _Array:
    """linear(x: T[*, K], weight: T[N, K], bias: T[N]?, residual: T[*, N]?, activation: none|relu|gelu|gelu_tanh|silu = none) -> out: T[*, N]"""

def linear_packed(
    x: _Array,
    packed: Any,
    bias: Any | None = None,
    residual: Any | None = None,
    activation: Literal["none", "relu", "gelu", "gelu_tanh", "silu"] = "none",
    *,
    backend: str | None = None,
) -> _Array:
    """linear_packed(x: T[*, K], packed: u8[P], bias: T[N]?, residual: T[*, N]?, activation: none|relu|gelu|gelu_tanh|silu = none) -> out: T[*, N]"""

def linear_quantized(
    x: _Array,
    packed: Any,
    bias: Any | None = None,
    residual: Any | None = None,
    activation: Literal["none", "relu", "gelu", "gelu_tanh", "silu", "silu_and_mul", "gelu_tanh_and_mul"] = "none",
    exact: bool = False,
    *,
    backend: str | None = None,
) -> _Array:
    """linear_quantized(x: T[*, K], packed: u8[P], bias: T[N]?, residual: T[*, N]?, activation: none|relu|gelu|gelu_tanh|silu|silu_and_mul|gelu_tanh_and_mul = none, exact: bool = false) -> out: T[*, N]"""

def log(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    """log(x: T[...]) -> out: T[...]"""

def matmul(
    a: _Array,
    b: Any,
    alpha: float = 1.0,
    *,
    backend: str | None = None,
) -> _Array:
    """matmul(a: T[B, M, K], b: T[B, K, N], alpha: f32 = 1) -> out: T[B, M, N]"""

def mul(
    x: _Array,
    other: Any,
    *,
    backend: str | None = None,
) -> _Array:
    """mul(x: T[...], other: T[...]) -> out: T[...]"""

def permute(
    x: _Array,
    dims: Sequence[int],
    *,
    backend: str | None = None,
) -> _Array:
    """permute(x: T[...], dims: i64[R]) -> out: T[...]"""

def relu(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    """relu(x: T[...]) -> out: T[...]"""

def rms_norm(
    x: _Array,
    weight: Any,
    eps: float = 1e-06,
    *,
    backend: str | None = None,
) -> _Array:
    """rms_norm(x: T[*, C], weight: T[C], eps: f32 = 1e-6) -> out: T[*, C]"""

def rope(
    x: _Array,
    cos: Any,
    sin: Any,
    positions: Any | None = None,
    interleaved: bool = False,
    *,
    backend: str | None = None,
) -> _Array:
    """rope(x: T[B, S, H, D], cos: f32[P, R], sin: f32[P, R], positions: i32[B, S]?, interleaved: bool = false) -> out: T[B, S, H, D]"""

def sample(
    logits: _Array,
    history: Any | None = None,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    frequency_penalty: float = 0.0,
    presence_penalty: float = 0.0,
    seed: int = 0,
    offset: int = 0,
    *,
    backend: str | None = None,
) -> _Array:
    """sample(logits: f32[*, V], history: i32[*, L]?, temperature: f32 = 1, top_k: i64 = 0, top_p: f32 = 1, min_p: f32 = 0, repetition_penalty: f32 = 1, frequency_penalty: f32 = 0, presence_penalty: f32 = 0, seed: i64 = 0, offset: i64 = 0) -> out: i32[*]"""

def sigmoid(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    """sigmoid(x: T[...]) -> out: T[...]"""

def silu(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    """silu(x: T[...]) -> out: T[...]"""

def silu_and_mul(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    """silu_and_mul(x: T[*, 2*H]) -> out: T[*, H]"""

def softmax(
    x: _Array,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    """softmax(x: T[*, C], dim: i64 = -1) -> out: T[*, C]"""

def sum(
    x: _Array,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    """sum(x: T[*, C], dim: i64 = -1) -> out: T[*]"""

def tanh(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    """tanh(x: T[...]) -> out: T[...]"""

def transpose(
    x: _Array,
    dim0: int = -2,
    dim1: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    """transpose(x: T[...], dim0: i64 = -2, dim1: i64 = -1) -> out: T[...]"""

def type_as(
    x: _Array,
    other: Any,
    *,
    backend: str | None = None,
) -> _Array:
    """type_as(x: T[...], other: U[N]) -> out: U[...]"""
