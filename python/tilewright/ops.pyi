"""Every operator of the catalog. Written by tools/python_stubs.py; do not edit."""

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

_Array = TypeVar("_Array")

def activation(
    x: _Array,
    function: Literal["clamp", "hardsigmoid", "hardswish", "mish", "leaky_relu", "elu", "softplus", "nan_to_num", "round"],
    a: float = 0.0,
    b: float = 0.0,
    c: float = 0.0,
    *,
    backend: str | None = None,
) -> _Array:
    """activation(x: T[...], function: clamp|hardsigmoid|hardswish|mish|leaky_relu|elu|softplus|nan_to_num|round, a: f32 = 0, b: f32 = 0, c: f32 = 0) -> out: T[...]"""

def activation_backward(
    grad: _Array,
    x: Any,
    function: Literal["clamp", "hardsigmoid", "hardswish", "mish", "leaky_relu", "elu", "softplus", "nan_to_num", "round"],
    a: float = 0.0,
    b: float = 0.0,
    c: float = 0.0,
    *,
    backend: str | None = None,
) -> _Array:
    """activation_backward(grad: T[...], x: T[...], function: clamp|hardsigmoid|hardswish|mish|leaky_relu|elu|softplus|nan_to_num|round, a: f32 = 0, b: f32 = 0, c: f32 = 0) -> x_grad: T[...]"""

def add(
    x: _Array,
    other: Any,
    alpha: float = 1.0,
    *,
    backend: str | None = None,
) -> _Array:
    """add(x: T[...], other: T[...], alpha: f32 = 1) -> out: T[...]"""

def amax(
    x: _Array,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    """amax(x: T[*, C], dim: i64 = -1) -> out: T[*]"""

def amax_backward(
    grad: _Array,
    x: Any,
    output: Any,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    """amax_backward(grad: T[*], x: T[*, C], output: T[*], dim: i64 = -1) -> x_grad: T[*, C]"""

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

def attention_backward(
    grad: _Array,
    q: Any,
    k: Any,
    v: Any,
    output: Any,
    lse: Any,
    kv_lens: Any | None = None,
    scale: float = 0.0,
    causal: bool = False,
    window_left: int = -1,
    window_right: int = -1,
    softcap: float = 0.0,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array, _Array]:
    """attention_backward(grad: T[B, S, Hq, Dv], q: T[B, S, Hq, D], k: T[B, L, H, D], v: T[B, L, H, Dv], output: T[B, S, Hq, Dv], lse: f32[B, Hq, S], kv_lens: i32[B]?, scale: f32 = 0, causal: bool = false, window_left: i64 = -1, window_right: i64 = -1, softcap: f32 = 0) -> q_grad: T[B, S, Hq, D], k_grad: T[B, L, H, D], v_grad: T[B, L, H, Dv]"""

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

def attention_varlen_backward(
    grad: _Array,
    q: Any,
    k: Any,
    v: Any,
    output: Any,
    lse: Any,
    cu_seqlens_q: Any,
    cu_seqlens_kv: Any,
    scale: float = 0.0,
    causal: bool = False,
    window_left: int = -1,
    window_right: int = -1,
    softcap: float = 0.0,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array, _Array]:
    """attention_varlen_backward(grad: T[N, Hq, Dv], q: T[N, Hq, D], k: T[M, H, D], v: T[M, H, Dv], output: T[N, Hq, Dv], lse: f32[Hq, N], cu_seqlens_q: i32[C], cu_seqlens_kv: i32[C], scale: f32 = 0, causal: bool = false, window_left: i64 = -1, window_right: i64 = -1, softcap: f32 = 0) -> q_grad: T[N, Hq, D], k_grad: T[M, H, D], v_grad: T[M, H, Dv]"""

def binary(
    x: _Array,
    other: Any,
    function: Literal["div", "trunc_divide", "floor_divide", "remainder", "pow", "prelu"],
    *,
    backend: str | None = None,
) -> _Array:
    """binary(x: T[...], other: T[...], function: div|trunc_divide|floor_divide|remainder|pow|prelu) -> out: T[...]"""

def binary_backward(
    grad: _Array,
    x: Any,
    other: Any,
    function: Literal["div", "trunc_divide", "floor_divide", "remainder", "pow", "prelu", "maximum", "minimum"],
    *,
    backend: str | None = None,
) -> _Array:
    """binary_backward(grad: T[...], x: T[...], other: T[...], function: div|trunc_divide|floor_divide|remainder|pow|prelu|maximum|minimum) -> x_grad: T[...], other_grad: T[...]?"""

def bitwise(
    x: _Array,
    other: Any,
    function: Literal["and", "or", "xor"],
    *,
    backend: str | None = None,
) -> _Array:
    """bitwise(x: T[...], other: T[...], function: and|or|xor) -> out: T[...]"""

def compare(
    x: _Array,
    other: Any,
    relation: Literal["eq", "ne", "lt", "le", "gt", "ge", "and", "or"],
    *,
    backend: str | None = None,
) -> _Array:
    """compare(x: T[...], other: T[...], relation: eq|ne|lt|le|gt|ge|and|or) -> out: bool[...]"""

def copy(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    """copy(x: T[...]) -> out: T[...]"""

def count_nonzero(
    x: _Array,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    """count_nonzero(x: T[*, C], dim: i64 = -1) -> out: i64[*]"""

def cross_entropy(
    x: _Array,
    target: Any,
    ignore_index: int = -100,
    reduction: Literal["mean", "sum", "none"] = "mean",
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    *,
    backend: str | None = None,
) -> _Array:
    """cross_entropy(x: T[N, V], target: I[N], ignore_index: i64 = -100, reduction: mean|sum|none = mean, label_smoothing: f32 = 0, z_loss: f32 = 0) -> loss: T[*], lse: f32[N]?"""

def cross_entropy_backward(
    grad: _Array,
    x: Any,
    target: Any,
    lse: Any,
    ignore_index: int = -100,
    reduction: Literal["mean", "sum", "none"] = "mean",
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    *,
    backend: str | None = None,
) -> _Array:
    """cross_entropy_backward(grad: T[*], x: T[N, V], target: I[N], lse: f32[N], ignore_index: i64 = -100, reduction: mean|sum|none = mean, label_smoothing: f32 = 0, z_loss: f32 = 0) -> x_grad: T[N, V]"""

def delta_rule_transform(
    k: _Array,
    beta: Any,
    g: Any | None = None,
    chunk_size: int = 64,
    *,
    backend: str | None = None,
) -> _Array:
    """delta_rule_transform(k: T[B, L, Hv, D], beta: U[B, L, Hv], g: U[B, L, Hv]?, chunk_size: i64 = 64) -> out: U[B, L, Hv, chunk_size]"""

def dequantize(
    x: _Array,
    scale: Any,
    block_m: int = 128,
    block_n: int = 128,
    *,
    backend: str | None = None,
) -> _Array:
    """dequantize(x: Q[M, N], scale: f32[A, B], block_m: i64 = 128, block_n: i64 = 128) -> out: f32[M, N]"""

def dequantize_int4(
    x: _Array,
    scale: Any,
    zero: Any,
    group_size: int = 128,
    *,
    backend: str | None = None,
) -> _Array:
    """dequantize_int4(x: i8[N, P], scale: T[N, G], zero: i8[N, G], group_size: i64 = 128) -> out: T[N, 2*P]"""

def dropout(
    x: _Array,
    p: float = 0.5,
    seed: int = 0,
    *,
    backend: str | None = None,
) -> _Array:
    """dropout(x: T[...], p: f32 = 0.5, seed: i64 = 0) -> out: T[...]"""

def embedding(
    weight: _Array,
    indices: Any,
    *,
    backend: str | None = None,
) -> _Array:
    """embedding(weight: T[V, C], indices: I[*]) -> out: T[*, C]"""

def embedding_backward(
    grad: _Array,
    indices: Any,
    weight: Any,
    *,
    backend: str | None = None,
) -> _Array:
    """embedding_backward(grad: T[*, C], indices: I[*], weight: T[V, C]) -> weight_grad: T[V, C]"""

def erf(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    """erf(x: T[...]) -> out: T[...]"""

def erf_backward(
    grad: _Array,
    x: Any,
    *,
    backend: str | None = None,
) -> _Array:
    """erf_backward(grad: T[...], x: T[...]) -> x_grad: T[...]"""

def exp(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    """exp(x: T[...]) -> out: T[...]"""

def extremum(
    x: _Array,
    other: Any,
    function: Literal["maximum", "minimum"],
    *,
    backend: str | None = None,
) -> _Array:
    """extremum(x: T[...], other: T[...], function: maximum|minimum) -> out: T[...]"""

def fft(
    x: _Array,
    inverse: bool = False,
    *,
    backend: str | None = None,
) -> _Array:
    """fft(x: T[B, N, 2], inverse: bool = false) -> out: T[B, N, 2]"""

def fused_add_rms_norm(
    x: _Array,
    residual: Any,
    weight: Any,
    eps: float = 1e-06,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array]:
    """fused_add_rms_norm(x: T[*, C], residual: T[*, C], weight: T[C], eps: f32 = 1e-6) -> out: T[*, C], residual_out: T[*, C]"""

def fused_linear_cross_entropy(
    x: _Array,
    weight: Any,
    target: Any,
    ignore_index: int = -100,
    reduction: Literal["mean", "sum"] = "mean",
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    *,
    backend: str | None = None,
) -> _Array:
    """fused_linear_cross_entropy(x: T[N, H], weight: T[V, H], target: I[N], ignore_index: i64 = -100, reduction: mean|sum = mean, label_smoothing: f32 = 0, z_loss: f32 = 0) -> loss: T[], x_grad: T[N, H]?, weight_grad: T[V, H]?"""

def gelu(
    x: _Array,
    approximate: Literal["none", "tanh"] = "none",
    *,
    backend: str | None = None,
) -> _Array:
    """gelu(x: T[...], approximate: none|tanh = none) -> out: T[...]"""

def gelu_and_mul(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    """gelu_and_mul(x: T[*, 2*H]) -> out: T[*, H]"""

def gelu_and_mul_backward(
    grad: _Array,
    x: Any,
    *,
    backend: str | None = None,
) -> _Array:
    """gelu_and_mul_backward(grad: T[*, H], x: T[*, 2*H]) -> x_grad: T[*, 2*H]"""

def gelu_backward(
    grad: _Array,
    x: Any,
    approximate: Literal["none", "tanh"] = "none",
    *,
    backend: str | None = None,
) -> _Array:
    """gelu_backward(grad: T[...], x: T[...], approximate: none|tanh = none) -> x_grad: T[...]"""

def gelu_tanh_and_mul(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    """gelu_tanh_and_mul(x: T[*, 2*H]) -> out: T[*, H]"""

def gelu_tanh_and_mul_backward(
    grad: _Array,
    x: Any,
    *,
    backend: str | None = None,
) -> _Array:
    """gelu_tanh_and_mul_backward(grad: T[*, H], x: T[*, 2*H]) -> x_grad: T[*, 2*H]"""

def grouped_matmul(
    a: _Array,
    b: Any,
    offsets: Any,
    starts: Any | None = None,
    *,
    backend: str | None = None,
) -> _Array:
    """grouped_matmul(a: T[M, K], b: T[G, K, N], offsets: i32[G], starts: i32[G]?) -> out: T[M, N]"""

def k_grouped_matmul(
    a: _Array,
    b: Any,
    offsets: Any,
    starts: Any | None = None,
    *,
    backend: str | None = None,
) -> _Array:
    """k_grouped_matmul(a: T[M, K], b: T[K, N], offsets: i32[G], starts: i32[G]?) -> out: T[G, M, N]"""

def layer_norm(
    x: _Array,
    weight: Any | None = None,
    bias: Any | None = None,
    eps: float = 1e-05,
    *,
    backend: str | None = None,
) -> _Array:
    """layer_norm(x: T[*, C], weight: T[C]?, bias: T[C]?, eps: f32 = 1e-5) -> out: T[*, C]"""

def layer_norm_backward(
    grad: _Array,
    x: Any,
    weight: Any | None = None,
    eps: float = 1e-05,
    *,
    backend: str | None = None,
) -> _Array:
    """layer_norm_backward(grad: T[*, C], x: T[*, C], weight: T[C]?, eps: f32 = 1e-5) -> x_grad: T[*, C], weight_grad: T[C]?, bias_grad: T[C]?"""

def lerp(
    x: _Array,
    end: Any,
    weight: Any | None = None,
    amount: float = 0.5,
    *,
    backend: str | None = None,
) -> _Array:
    """lerp(x: T[...], end: T[...], weight: T[...]?, amount: f32 = 0.5) -> out: T[...]"""

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

def linear_attention(
    q: _Array,
    k: Any,
    v: Any,
    g: Any,
    beta: Any | None = None,
    initial_state: Any | None = None,
    scale: float = 0.0,
    chunk_size: int = 64,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array]:
    """linear_attention(q: T[B, L, H, D], k: T[B, L, H, D], v: T[B, L, Hv, Dv], g: U[B, L, Hv, D], beta: U[B, L, Hv]?, initial_state: U[B, Hv, D, Dv]?, scale: f32 = 0, chunk_size: i64 = 64) -> out: T[B, L, Hv, Dv], final_state: U[B, Hv, D, Dv], states: U[B, Hv, L/chunk_size+1, D, Dv]?"""

def linear_attention_backward(
    grad: _Array,
    q: Any,
    k: Any,
    v: Any,
    g: Any,
    beta: Any | None = None,
    initial_state: Any | None = None,
    final_grad: Any | None = None,
    scale: float = 0.0,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array, _Array, _Array]:
    """linear_attention_backward(grad: T[B, L, Hv, Dv], q: T[B, L, H, D], k: T[B, L, H, D], v: T[B, L, Hv, Dv], g: U[B, L, Hv, D], beta: U[B, L, Hv]?, initial_state: U[B, Hv, D, Dv]?, final_grad: U[B, Hv, D, Dv]?, scale: f32 = 0) -> q_grad: T[B, L, H, D], k_grad: T[B, L, H, D], v_grad: T[B, L, Hv, Dv], g_grad: U[B, L, Hv, D], beta_grad: U[B, L, Hv]?, initial_grad: U[B, Hv, D, Dv]?"""

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

def log_backward(
    grad: _Array,
    x: Any,
    *,
    backend: str | None = None,
) -> _Array:
    """log_backward(grad: T[...], x: T[...]) -> x_grad: T[...]"""

def log_softmax(
    x: _Array,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    """log_softmax(x: T[*, C], dim: i64 = -1) -> out: T[*, C]"""

def log_softmax_backward(
    grad: _Array,
    output: Any,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    """log_softmax_backward(grad: T[*, C], output: T[*, C], dim: i64 = -1) -> x_grad: T[*, C]"""

def matmul(
    a: _Array,
    b: Any,
    alpha: float = 1.0,
    *,
    backend: str | None = None,
) -> _Array:
    """matmul(a: T[B, M, K], b: T[B, K, N], alpha: f32 = 1) -> out: T[B, M, N]"""

def mean(
    x: _Array,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    """mean(x: T[*, C], dim: i64 = -1) -> out: T[*]"""

def mean_backward(
    grad: _Array,
    x: Any,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    """mean_backward(grad: T[*], x: T[*, C], dim: i64 = -1) -> x_grad: T[*, C]"""

def mla(
    q_nope: _Array,
    q_pe: Any,
    ckv: Any,
    kpe: Any,
    kv_lens: Any | None = None,
    scale: float = 0.0,
    causal: bool = False,
    *,
    backend: str | None = None,
) -> _Array:
    """mla(q_nope: T[B, S, Hq, D], q_pe: T[B, S, Hq, R], ckv: T[B, L, H, D], kpe: T[B, L, H, R], kv_lens: i32[B]?, scale: f32 = 0, causal: bool = false) -> out: T[B, S, Hq, D], lse: f32[B, Hq, S]?"""

def mla_paged(
    q_nope: _Array,
    q_pe: Any,
    ckv_pages: Any,
    kpe_pages: Any,
    block_table: Any,
    kv_lens: Any,
    cu_seqlens_q: Any | None = None,
    scale: float = 0.0,
    causal: bool = False,
    *,
    backend: str | None = None,
) -> _Array:
    """mla_paged(q_nope: T[N, Hq, D], q_pe: T[N, Hq, R], ckv_pages: T[P, S, H, D], kpe_pages: T[P, S, H, R], block_table: i32[B, W], kv_lens: i32[B], cu_seqlens_q: i32[C]?, scale: f32 = 0, causal: bool = false) -> out: T[N, Hq, D], lse: f32[Hq, N]?"""

def moe_align(
    ids: _Array,
    experts: int,
    block_size: int = 1,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array, _Array, _Array]:
    """moe_align(ids: i32[*], experts: i64, block_size: i64 = 1) -> counts: i32[experts], offsets: i32[experts], order: i32[S], positions: i32[*]"""

def moe_combine(
    x: _Array,
    positions: Any,
    weights: Any | None = None,
    scale: float = 1.0,
    *,
    backend: str | None = None,
) -> _Array:
    """moe_combine(x: T[S, C], positions: i32[N, K], weights: f32[N, K]?, scale: f32 = 1) -> out: T[N, C]"""

def moe_combine_backward(
    grad: _Array,
    x: Any,
    positions: Any,
    weights: Any | None = None,
    scale: float = 1.0,
    *,
    backend: str | None = None,
) -> _Array:
    """moe_combine_backward(grad: T[N, C], x: T[S, C], positions: i32[N, K], weights: f32[N, K]?, scale: f32 = 1) -> x_grad: T[S, C], weights_grad: f32[N, K]?"""

def moe_topk(
    gating: _Array,
    top_k: int,
    bias: Any | None = None,
    scoring: Literal["softmax", "sigmoid"] = "softmax",
    renormalize: bool = False,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array]:
    """moe_topk(gating: T[N, E], top_k: i64, bias: f32[E]?, scoring: softmax|sigmoid = softmax, renormalize: bool = false) -> weights: f32[N, top_k], ids: i32[N, top_k]"""

def moe_topk_backward(
    grad: _Array,
    gating: Any,
    ids: Any,
    scoring: Literal["softmax", "sigmoid"] = "softmax",
    renormalize: bool = False,
    *,
    backend: str | None = None,
) -> _Array:
    """moe_topk_backward(grad: f32[N, K], gating: T[N, E], ids: i32[N, K], scoring: softmax|sigmoid = softmax, renormalize: bool = false) -> gating_grad: T[N, E]"""

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

def quantize_fp8(
    x: _Array,
    group_size: int = 128,
    eps: float = 1e-10,
    power_of_two: bool = False,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array]:
    """quantize_fp8(x: T[*, C], group_size: i64 = 128, eps: f32 = 1e-10, power_of_two: bool = false) -> out: f8_e4m3fn[*, C], scale: f32[*, C/group_size]"""

def quantize_int8(
    x: _Array,
    group_size: int = 128,
    eps: float = 1e-10,
    power_of_two: bool = False,
    truncate: bool = False,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array]:
    """quantize_int8(x: T[*, C], group_size: i64 = 128, eps: f32 = 1e-10, power_of_two: bool = false, truncate: bool = false) -> out: i8[*, C], scale: f32[*, C/group_size]"""

def reduce(
    x: _Array,
    function: Literal["amin", "prod", "norm1", "norm2", "norm_inf", "logsumexp"],
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    """reduce(x: T[*, C], function: amin|prod|norm1|norm2|norm_inf|logsumexp, dim: i64 = -1) -> out: T[*]"""

def reduce_backward(
    grad: _Array,
    x: Any,
    function: Literal["amin", "prod", "norm1", "norm2", "norm_inf", "logsumexp"],
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    """reduce_backward(grad: T[*], x: T[*, C], function: amin|prod|norm1|norm2|norm_inf|logsumexp, dim: i64 = -1) -> x_grad: T[*, C]"""

def relu(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    """relu(x: T[...]) -> out: T[...]"""

def relu_backward(
    grad: _Array,
    output: Any,
    *,
    backend: str | None = None,
) -> _Array:
    """relu_backward(grad: T[...], output: T[...]) -> x_grad: T[...]"""

def rms_norm(
    x: _Array,
    weight: Any,
    eps: float = 1e-06,
    *,
    backend: str | None = None,
) -> _Array:
    """rms_norm(x: T[*, C], weight: T[C], eps: f32 = 1e-6) -> out: T[*, C]"""

def rms_norm_backward(
    grad: _Array,
    x: Any,
    weight: Any,
    residual_grad: Any | None = None,
    eps: float = 1e-06,
    *,
    backend: str | None = None,
) -> _Array:
    """rms_norm_backward(grad: T[*, C], x: T[*, C], weight: T[C], residual_grad: T[*, C]?, eps: f32 = 1e-6) -> x_grad: T[*, C], weight_grad: T[C]?"""

def rope(
    x: _Array,
    cos: Any,
    sin: Any,
    positions: Any | None = None,
    interleaved: bool = False,
    inverse: bool = False,
    *,
    backend: str | None = None,
) -> _Array:
    """rope(x: T[B, S, H, D], cos: f32[P, R], sin: f32[P, R], positions: i32[B, S]?, interleaved: bool = false, inverse: bool = false) -> out: T[B, S, H, D]"""

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

def scale(
    x: _Array,
    factor: float = 1.0,
    *,
    backend: str | None = None,
) -> _Array:
    """scale(x: T[...], factor: f32 = 1) -> out: T[...]"""

def scaled_grouped_matmul(
    a: _Array,
    b: Any,
    a_scale: Any,
    b_scale: Any,
    offsets: Any | None = None,
    block_n: int = 128,
    block_k: int = 128,
    *,
    backend: str | None = None,
) -> _Array:
    """scaled_grouped_matmul(a: Q[M, K], b: Q[G, N, K], a_scale: f32[M, A], b_scale: f32[G, B, A], offsets: i32[G]?, block_n: i64 = 128, block_k: i64 = 128) -> out: f32[M, N]"""

def scan(
    x: _Array,
    function: Literal["sum", "prod"] = "sum",
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    """scan(x: T[*, C], function: sum|prod = sum, dim: i64 = -1) -> out: T[*, C]"""

def scan_backward(
    grad: _Array,
    x: Any,
    function: Literal["sum", "prod"] = "sum",
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    """scan_backward(grad: T[*, C], x: T[*, C], function: sum|prod = sum, dim: i64 = -1) -> x_grad: T[*, C]"""

def segment_mean(
    x: _Array,
    starts: Any,
    ends: Any,
    *,
    backend: str | None = None,
) -> _Array:
    """segment_mean(x: T[B, L, C], starts: I[N], ends: I[N]) -> out: T[B, N, C]"""

def segment_mean_backward(
    grad: _Array,
    x: Any,
    starts: Any,
    ends: Any,
    *,
    backend: str | None = None,
) -> _Array:
    """segment_mean_backward(grad: T[B, N, C], x: T[B, L, C], starts: I[N], ends: I[N]) -> x_grad: T[B, L, C]"""

def sigmoid(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    """sigmoid(x: T[...]) -> out: T[...]"""

def sigmoid_backward(
    grad: _Array,
    output: Any,
    *,
    backend: str | None = None,
) -> _Array:
    """sigmoid_backward(grad: T[...], output: T[...]) -> x_grad: T[...]"""

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

def silu_and_mul_backward(
    grad: _Array,
    x: Any,
    *,
    backend: str | None = None,
) -> _Array:
    """silu_and_mul_backward(grad: T[*, H], x: T[*, 2*H]) -> x_grad: T[*, 2*H]"""

def silu_backward(
    grad: _Array,
    x: Any,
    *,
    backend: str | None = None,
) -> _Array:
    """silu_backward(grad: T[...], x: T[...]) -> x_grad: T[...]"""

def sinkhorn(
    x: _Array,
    iterations: int = 20,
    eps: float = 0.0,
    *,
    backend: str | None = None,
) -> _Array:
    """sinkhorn(x: T[B, M, N], iterations: i64 = 20, eps: f32 = 0) -> out: T[B, M, N]"""

def softmax(
    x: _Array,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    """softmax(x: T[*, C], dim: i64 = -1) -> out: T[*, C]"""

def softmax_backward(
    grad: _Array,
    output: Any,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    """softmax_backward(grad: T[*, C], output: T[*, C], dim: i64 = -1) -> x_grad: T[*, C]"""

def sum(
    x: _Array,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    """sum(x: T[*, C], dim: i64 = -1) -> out: T[*]"""

def sum_backward(
    grad: _Array,
    x: Any,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    """sum_backward(grad: T[*], x: T[*, C], dim: i64 = -1) -> x_grad: T[*, C]"""

def swiglu(
    gate: _Array,
    up: Any,
    *,
    backend: str | None = None,
) -> _Array:
    """swiglu(gate: T[...], up: T[...]) -> out: T[...]"""

def swiglu_backward(
    grad: _Array,
    gate: Any,
    up: Any,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array]:
    """swiglu_backward(grad: T[...], gate: T[...], up: T[...]) -> gate_grad: T[...], up_grad: T[...]"""

def tanh(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    """tanh(x: T[...]) -> out: T[...]"""

def tanh_backward(
    grad: _Array,
    output: Any,
    *,
    backend: str | None = None,
) -> _Array:
    """tanh_backward(grad: T[...], output: T[...]) -> x_grad: T[...]"""

def topk(
    x: _Array,
    k: int,
    starts: Any | None = None,
    ends: Any | None = None,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array]:
    """topk(x: T[*, C], k: i64, starts: i32[*]?, ends: i32[*]?) -> values: T[*, k], indices: i32[*, k]"""

def topk_backward(
    grad: _Array,
    indices: Any,
    x: Any,
    *,
    backend: str | None = None,
) -> _Array:
    """topk_backward(grad: T[*, K], indices: i32[*, K], x: T[*, C]) -> x_grad: T[*, C]"""

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

def unary(
    x: _Array,
    function: Literal["abs", "neg", "sign", "reciprocal", "sqrt", "rsqrt", "floor", "ceil", "trunc", "round", "sin", "cos", "expm1", "log1p"],
    *,
    backend: str | None = None,
) -> _Array:
    """unary(x: T[...], function: abs|neg|sign|reciprocal|sqrt|rsqrt|floor|ceil|trunc|round|sin|cos|expm1|log1p) -> out: T[...]"""

def unary_backward(
    grad: _Array,
    x: Any,
    function: Literal["abs", "neg", "sign", "reciprocal", "sqrt", "rsqrt", "floor", "ceil", "trunc", "round", "sin", "cos", "expm1", "log1p"],
    *,
    backend: str | None = None,
) -> _Array:
    """unary_backward(grad: T[...], x: T[...], function: abs|neg|sign|reciprocal|sqrt|rsqrt|floor|ceil|trunc|round|sin|cos|expm1|log1p) -> x_grad: T[...]"""

def var_mean(
    x: _Array,
    dim: int = -1,
    correction: float = 1.0,
    root: bool = False,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array]:
    """var_mean(x: T[*, C], dim: i64 = -1, correction: f32 = 1, root: bool = false) -> var: T[*], mean: T[*]"""

def var_mean_backward(
    x: _Array,
    var_grad: Any | None = None,
    mean_grad: Any | None = None,
    dim: int = -1,
    correction: float = 1.0,
    root: bool = False,
    *,
    backend: str | None = None,
) -> _Array:
    """var_mean_backward(x: T[*, C], var_grad: T[*]?, mean_grad: T[*]?, dim: i64 = -1, correction: f32 = 1, root: bool = false) -> x_grad: T[*, C]"""

def where(
    condition: _Array,
    x: Any,
    other: Any,
    *,
    backend: str | None = None,
) -> _Array:
    """where(condition: bool[...], x: T[...], other: T[...]) -> out: T[...]"""
