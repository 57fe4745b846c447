"""Every operator of the catalog. Written by tools/python_stubs.py; do not edit."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeVar

class _DLPack(Protocol):
    @property
    def __dlpack__(self) -> Any: ...

_Array = TypeVar("_Array", bound=_DLPack)

def activation(
    x: _Array,
    function: Literal["clamp", "hardsigmoid", "hardswish", "mish", "leaky_relu", "elu", "softplus", "nan_to_num", "round"],
    a: float = 0.0,
    b: float = 0.0,
    c: float = 0.0,
    *,
    backend: str | None = None,
) -> _Array:
    r"""An activation with parameters a, b, c, elementwise. clamp: to [a, b]; leaky_relu: slope a;
    elu: b (a (e^x - 1)) below 0, b x above; softplus: beta a, threshold b; nan_to_num: a for
    NaN, b and c for the infinities; round: to a digits. `out` may alias `x`.

    activation(x: T[...], function:
    clamp|hardsigmoid|hardswish|mish|leaky_relu|elu|softplus|nan_to_num|round, a: f32 = 0, b:
    f32 = 0, c: f32 = 0) -> out: T[...]

    Args:
        x: T[...].
        function: clamp, hardsigmoid, hardswish, mish, leaky_relu, elu, softplus, nan_to_num, round.
        a: f32, by default 0.
        b: f32, by default 0.
        c: f32, by default 0.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.activation(
        ...     np.zeros((3,), np.float32),
        ...     "clamp",
        ... ).shape
        (3,)
    """

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
    r"""The gradient of activation. `x_grad` may alias an argument.

    activation_backward(grad: T[...], x: T[...], function:
    clamp|hardsigmoid|hardswish|mish|leaky_relu|elu|softplus|nan_to_num|round, a: f32 = 0, b:
    f32 = 0, c: f32 = 0) -> x_grad: T[...]

    Args:
        grad: T[...].
        x: T[...].
        function: clamp, hardsigmoid, hardswish, mish, leaky_relu, elu, softplus, nan_to_num, round.
        a: f32, by default 0.
        b: f32, by default 0.
        c: f32, by default 0.
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.activation_backward(
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ...     "clamp",
        ... ).shape
        (3,)
    """

def add(
    x: _Array,
    other: Any,
    alpha: float = 1.0,
    *,
    backend: str | None = None,
) -> _Array:
    r"""x + alpha * other with NumPy broadcasting; alpha of integers is one. `out` may alias an
    input of its own shape.

    add(x: T[...], other: T[...], alpha: f64 = 1) -> out: T[...]

    Args:
        x: T[...].
        other: T[...].
        alpha: f64, by default 1.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.add(
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ... ).shape
        (3,)
    """

def amax(
    x: _Array,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The largest value along one dimension; NaN is the largest.

    amax(x: T[*, C], dim: i64 = -1) -> out: T[*]

    Args:
        x: T[*, C].
        dim: i64, by default -1.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.amax(np.zeros((2, 4), np.float32)).shape
        (2,)
    """

def amax_backward(
    grad: _Array,
    x: Any,
    output: Any,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of amax: grad shared evenly by the elements equal to the maximum, as PyTorch
    does. `x_grad` may alias `x`.

    amax_backward(grad: T[*], x: T[*, C], output: T[*], dim: i64 = -1) -> x_grad: T[*, C]

    Args:
        grad: T[*].
        x: T[*, C].
        output: T[*].
        dim: i64, by default -1.
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[*, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.amax_backward(
        ...     np.zeros((2,), np.float32),
        ...     np.zeros((2, 4), np.float32),
        ...     np.zeros((2,), np.float32),
        ... ).shape
        (2, 4)
    """

def argmax(
    x: _Array,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The index of the largest value along one dimension; the first one of equals; NaN is the
    largest.

    argmax(x: T[*, C], dim: i64 = -1) -> out: i64[*]

    Args:
        x: T[*, C].
        dim: i64, by default -1.
        backend: which one runs it, by default the current one.

    Returns:
        out: i64[*].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.argmax(np.zeros((2, 4), np.float32)).shape
        (2,)
    """

def attention(
    q: _Array,
    k: Any,
    v: Any,
    kv_lens: Any | None = None,
    sinks: Any | None = None,
    k_scale: Any | None = None,
    v_scale: Any | None = None,
    attn_bias: Any | None = None,
    alibi_slopes: Any | None = None,
    scale: float = 0.0,
    causal: bool = False,
    window_left: int = -1,
    window_right: int = -1,
    softcap: float = 0.0,
    score_mod: str = "",
    mask_mod: str = "",
    mod_f32: Any | None = None,
    mod_i32: Any | None = None,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Attention over keys and values in one tensor per batch entry: a prompt, or a cache of which
    kv_lens[b] keys are filled. Hq may be a multiple of H (grouped queries). A query sees the
    keys up to its own position (causal) or within the window; the last query stands at the last
    key. A row that sees no key gives zeros, and lse = -inf (or the sink). attn_bias is added to
    the capped scores, and -alibi_slopes[h] times the distance of query and key; -inf hides a
    key. Values of 8 bits times their scales must be numbers of T. Last, score_mod gives the
    score that replaces each, and mask_mod says whether it counts: expressions in score, b, h,
    q, k, q_len, kv_len and the elements of mod_f32 and mod_i32, such as "score - 0.5 * abs(q -
    k)" and "mod_i32[q] == mod_i32[k]", with q and k counted from 0.

    attention(q: T[B, S, Hq, D], k: U[B, L, H, D], v: U[B, L, H, Dv], kv_lens: i32[B]?, sinks:
    f32[Hq]?, k_scale: f32[B, L, H]?, v_scale: f32[B, L, H]?, attn_bias: T[B, Hq, S, L]?,
    alibi_slopes: f32[Hq]?, scale: f32 = 0, causal: bool = false, window_left: i64 = -1,
    window_right: i64 = -1, softcap: f32 = 0, score_mod: text = "", mask_mod: text = "",
    mod_f32: f32[F]?, mod_i32: i32[I]?) -> out: T[B, S, Hq, Dv], lse: f32[B, Hq, S]?

    Args:
        q: T[B, S, Hq, D].
        k: U[B, L, H, D].
        v: U[B, L, H, Dv].
        kv_lens: i32[B], or None.
        sinks: f32[Hq], or None.
        k_scale: f32[B, L, H], or None.
        v_scale: f32[B, L, H], or None.
        attn_bias: T[B, Hq, S, L], or None.
        alibi_slopes: f32[Hq], or None.
        scale: f32, by default 0.
        causal: bool, by default false.
        window_left: i64, by default -1.
        window_right: i64, by default -1.
        softcap: f32, by default 0.
        score_mod: text, by default "".
        mask_mod: text, by default "".
        mod_f32: f32[F], or None.
        mod_i32: i32[I], or None.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[B, S, Hq, Dv].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.attention(
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ... ).shape
        (4, 4, 4, 4)
    """

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
    r"""Gradients of attention without sinks and scales of keys, from its output and lse. Keys that
    kv_lens leaves out have gradient 0.

    attention_backward(grad: T[B, S, Hq, Dv], q: T[B, S, Hq, D], k: T[B, L, H, D], v: T[B, L, H,
    Dv], output: T[B, S, Hq, Dv], lse: f32[B, Hq, S], kv_lens: i32[B]?, scale: f32 = 0, causal:
    bool = false, window_left: i64 = -1, window_right: i64 = -1, softcap: f32 = 0) -> q_grad:
    T[B, S, Hq, D], k_grad: T[B, L, H, D], v_grad: T[B, L, H, Dv]

    Args:
        grad: T[B, S, Hq, Dv].
        q: T[B, S, Hq, D].
        k: T[B, L, H, D].
        v: T[B, L, H, Dv].
        output: T[B, S, Hq, Dv].
        lse: f32[B, Hq, S].
        kv_lens: i32[B], or None.
        scale: f32, by default 0.
        causal: bool, by default false.
        window_left: i64, by default -1.
        window_right: i64, by default -1.
        softcap: f32, by default 0.
        backend: which one runs it, by default the current one.

    Returns:
        q_grad: T[B, S, Hq, D]; k_grad: T[B, L, H, D]; v_grad: T[B, L, H, Dv].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.attention_backward(
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4), np.float32),
        ... )[0].shape
        (4, 4, 4, 4)
    """

def attention_fp8(
    q: _Array,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_kv: Any,
    q_scale: Any | None = None,
    k_scale: Any | None = None,
    v_scale: Any | None = None,
    sinks: Any | None = None,
    scale: float = 0.0,
    causal: bool = False,
    window_left: int = -1,
    window_right: int = -1,
    softcap: float = 0.0,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Attention of e4m3 queries over e4m3 keys and values, sequences one after the other as in
    `attention_varlen`: each has a scale for the queries, the keys and the values of every head
    of keys. Rows of queries outside all sequences are left alone in outputs that are given, and
    0 in new ones.

    attention_fp8(q: f8_e4m3fn[N, Hq, D], k: f8_e4m3fn[M, H, D], v: f8_e4m3fn[M, H, Dv],
    cu_seqlens_q: i32[C], cu_seqlens_kv: i32[C], q_scale: f32[R, H]?, k_scale: f32[R, H]?,
    v_scale: f32[R, H]?, sinks: f32[Hq]?, scale: f32 = 0, causal: bool = false, window_left: i64
    = -1, window_right: i64 = -1, softcap: f32 = 0) -> out: bf16[N, Hq, Dv], lse: f32[Hq, N]?

    Args:
        q: f8_e4m3fn[N, Hq, D].
        k: f8_e4m3fn[M, H, D].
        v: f8_e4m3fn[M, H, Dv].
        cu_seqlens_q: i32[C].
        cu_seqlens_kv: i32[C].
        q_scale: f32[R, H], or None.
        k_scale: f32[R, H], or None.
        v_scale: f32[R, H], or None.
        sinks: f32[Hq], or None.
        scale: f32, by default 0.
        causal: bool, by default false.
        window_left: i64, by default -1.
        window_right: i64, by default -1.
        softcap: f32, by default 0.
        backend: which one runs it, by default the current one.

    Returns:
        out: bf16[N, Hq, Dv].

    Example:
        >>> import torch
        >>> from tilewright import ops
        >>> ops.attention_fp8(
        ...     torch.zeros(4, 2, 8, dtype=torch.float8_e4m3fn),
        ...     torch.zeros(4, 2, 8, dtype=torch.float8_e4m3fn),
        ...     torch.zeros(4, 2, 8, dtype=torch.float8_e4m3fn),
        ...     torch.tensor([0, 4]).int(),
        ...     torch.tensor([0, 4]).int(),
        ... ).shape
        torch.Size([4, 2, 8])
    """

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
    alibi_slopes: Any | None = None,
    scale: float = 0.0,
    causal: bool = False,
    window_left: int = -1,
    window_right: int = -1,
    softcap: float = 0.0,
    score_mod: str = "",
    mask_mod: str = "",
    mod_f32: Any | None = None,
    mod_i32: Any | None = None,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Attention over a key-value cache in pages, for sequences at any stage; otherwise as
    `attention`. Without cu_seqlens_q every sequence has N / B queries (1 in decode). Only the
    table's entries for the first kv_lens[b] keys are read. Rows of queries outside all
    sequences: as attention_varlen.

    attention_paged(q: T[N, Hq, D], k_pages: U[P, S, H, D], v_pages: U[P, S, H, Dv],
    block_table: i32[B, W], kv_lens: i32[B], cu_seqlens_q: i32[C]?, sinks: f32[Hq]?, k_scale:
    f32[P, S, H]?, v_scale: f32[P, S, H]?, alibi_slopes: f32[Hq]?, scale: f32 = 0, causal: bool
    = false, window_left: i64 = -1, window_right: i64 = -1, softcap: f32 = 0, score_mod: text =
    "", mask_mod: text = "", mod_f32: f32[F]?, mod_i32: i32[I]?) -> out: T[N, Hq, Dv], lse:
    f32[Hq, N]?

    Args:
        q: T[N, Hq, D].
        k_pages: U[P, S, H, D].
        v_pages: U[P, S, H, Dv].
        block_table: i32[B, W].
        kv_lens: i32[B].
        cu_seqlens_q: i32[C], or None.
        sinks: f32[Hq], or None.
        k_scale: f32[P, S, H], or None.
        v_scale: f32[P, S, H], or None.
        alibi_slopes: f32[Hq], or None.
        scale: f32, by default 0.
        causal: bool, by default false.
        window_left: i64, by default -1.
        window_right: i64, by default -1.
        softcap: f32, by default 0.
        score_mod: text, by default "".
        mask_mod: text, by default "".
        mod_f32: f32[F], or None.
        mod_i32: i32[I], or None.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[N, Hq, Dv].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.attention_paged(
        ...     np.zeros((4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4), np.int32),
        ...     np.zeros((4,), np.int32),
        ... ).shape
        (4, 4, 4)
    """

def attention_varlen(
    q: _Array,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_kv: Any,
    sinks: Any | None = None,
    k_scale: Any | None = None,
    v_scale: Any | None = None,
    alibi_slopes: Any | None = None,
    scale: float = 0.0,
    causal: bool = False,
    window_left: int = -1,
    window_right: int = -1,
    softcap: float = 0.0,
    score_mod: str = "",
    mask_mod: str = "",
    mod_f32: Any | None = None,
    mod_i32: Any | None = None,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Attention over sequences of different lengths, one after the other without padding;
    otherwise as `attention`. Rows of queries outside all sequences are left alone in outputs
    that are given, and 0 in new ones.

    attention_varlen(q: T[N, Hq, D], k: U[M, H, D], v: U[M, H, Dv], cu_seqlens_q: i32[C],
    cu_seqlens_kv: i32[C], sinks: f32[Hq]?, k_scale: f32[M, H]?, v_scale: f32[M, H]?,
    alibi_slopes: f32[Hq]?, scale: f32 = 0, causal: bool = false, window_left: i64 = -1,
    window_right: i64 = -1, softcap: f32 = 0, score_mod: text = "", mask_mod: text = "",
    mod_f32: f32[F]?, mod_i32: i32[I]?) -> out: T[N, Hq, Dv], lse: f32[Hq, N]?

    Args:
        q: T[N, Hq, D].
        k: U[M, H, D].
        v: U[M, H, Dv].
        cu_seqlens_q: i32[C].
        cu_seqlens_kv: i32[C].
        sinks: f32[Hq], or None.
        k_scale: f32[M, H], or None.
        v_scale: f32[M, H], or None.
        alibi_slopes: f32[Hq], or None.
        scale: f32, by default 0.
        causal: bool, by default false.
        window_left: i64, by default -1.
        window_right: i64, by default -1.
        softcap: f32, by default 0.
        score_mod: text, by default "".
        mask_mod: text, by default "".
        mod_f32: f32[F], or None.
        mod_i32: i32[I], or None.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[N, Hq, Dv].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.attention_varlen(
        ...     np.zeros((4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4), np.float32),
        ...     np.zeros((4,), np.int32),
        ...     np.zeros((4,), np.int32),
        ... ).shape
        (4, 4, 4)
    """

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
    r"""Gradients of attention_varlen without sinks and scales of keys, from its output and lse; 0
    for rows outside all sequences.

    attention_varlen_backward(grad: T[N, Hq, Dv], q: T[N, Hq, D], k: T[M, H, D], v: T[M, H, Dv],
    output: T[N, Hq, Dv], lse: f32[Hq, N], cu_seqlens_q: i32[C], cu_seqlens_kv: i32[C], scale:
    f32 = 0, causal: bool = false, window_left: i64 = -1, window_right: i64 = -1, softcap: f32 =
    0) -> q_grad: T[N, Hq, D], k_grad: T[M, H, D], v_grad: T[M, H, Dv]

    Args:
        grad: T[N, Hq, Dv].
        q: T[N, Hq, D].
        k: T[M, H, D].
        v: T[M, H, Dv].
        output: T[N, Hq, Dv].
        lse: f32[Hq, N].
        cu_seqlens_q: i32[C].
        cu_seqlens_kv: i32[C].
        scale: f32, by default 0.
        causal: bool, by default false.
        window_left: i64, by default -1.
        window_right: i64, by default -1.
        softcap: f32, by default 0.
        backend: which one runs it, by default the current one.

    Returns:
        q_grad: T[N, Hq, D]; k_grad: T[M, H, D]; v_grad: T[M, H, Dv].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.attention_varlen_backward(
        ...     np.zeros((4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4), np.float32),
        ...     np.zeros((4, 4), np.float32),
        ...     np.zeros((4,), np.int32),
        ...     np.zeros((4,), np.int32),
        ... )[0].shape
        (4, 4, 4)
    """

def binary(
    x: _Array,
    other: Any,
    function: Literal["div", "trunc_divide", "floor_divide", "remainder", "pow", "prelu"],
    *,
    backend: str | None = None,
) -> _Array:
    r"""A function of two numbers with NumPy broadcasting. floor_divide and remainder round as in
    Python, towards minus infinity; prelu is x above 0 and x other below. `out` may alias an
    input of its own shape.

    binary(x: T[...], other: T[...], function:
    div|trunc_divide|floor_divide|remainder|pow|prelu) -> out: T[...]

    Args:
        x: T[...].
        other: T[...].
        function: div, trunc_divide, floor_divide, remainder, pow, prelu.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.binary(
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ...     "div",
        ... ).shape
        (3,)
    """

def binary_backward(
    grad: _Array,
    x: Any,
    other: Any,
    function: Literal["div", "trunc_divide", "floor_divide", "remainder", "pow", "prelu", "maximum", "minimum"],
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradients of binary and extremum, in the shape of their result: what was broadcast is
    not summed yet. Of two equal numbers the larger, or smaller, is half each.

    binary_backward(grad: T[...], x: T[...], other: T[...], function:
    div|trunc_divide|floor_divide|remainder|pow|prelu|maximum|minimum) -> x_grad: T[...],
    other_grad: T[...]?

    Args:
        grad: T[...].
        x: T[...].
        other: T[...].
        function: div, trunc_divide, floor_divide, remainder, pow, prelu, maximum, minimum.
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.binary_backward(
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ...     "div",
        ... ).shape
        (3,)
    """

def bitwise(
    x: _Array,
    other: Any,
    function: Literal["and", "or", "xor"],
    *,
    backend: str | None = None,
) -> _Array:
    r"""And, or, exclusive or of the bits of two integers, with NumPy broadcasting. `out` may alias
    an input of its own shape.

    bitwise(x: T[...], other: T[...], function: and|or|xor) -> out: T[...]

    Args:
        x: T[...].
        other: T[...].
        function: and, or, xor.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.bitwise(
        ...     np.zeros((3,), np.int32),
        ...     np.zeros((3,), np.int32),
        ...     "and",
        ... ).shape
        (3,)
    """

def compare(
    x: _Array,
    other: Any,
    relation: Literal["eq", "ne", "lt", "le", "gt", "ge", "and", "or"],
    *,
    backend: str | None = None,
) -> _Array:
    r"""Whether two numbers are in a relation, with NumPy broadcasting. NaN is unequal to all; what
    is not 0 is true.

    compare(x: T[...], other: T[...], relation: eq|ne|lt|le|gt|ge|and|or) -> out: bool[...]

    Args:
        x: T[...].
        other: T[...].
        relation: eq, ne, lt, le, gt, ge, and, or.
        backend: which one runs it, by default the current one.

    Returns:
        out: bool[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.compare(
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ...     "eq",
        ... ).shape
        (3,)
    """

def copy(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The elements of x, from any strides to any strides: `contiguous` where out is.

    copy(x: T[...]) -> out: T[...]

    Args:
        x: T[...].
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.copy(np.zeros((3,), np.float32)).shape
        (3,)
    """

def count_nonzero(
    x: _Array,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    r"""How many elements along one dimension are not 0; NaN is not.

    count_nonzero(x: T[*, C], dim: i64 = -1) -> out: i64[*]

    Args:
        x: T[*, C].
        dim: i64, by default -1.
        backend: which one runs it, by default the current one.

    Returns:
        out: i64[*].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.count_nonzero(np.zeros((2, 4), np.float32)).shape
        (2,)
    """

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
    r"""Cross-entropy of logits with class labels, as torch.nn.functional.cross_entropy, and z_loss
    times the square of each row's logsumexp. The mean of no rows is NaN. ValueError for a label
    that is neither a class nor ignore_index.

    cross_entropy(x: T[N, V], target: I[N], ignore_index: i64 = -100, reduction: mean|sum|none =
    mean, label_smoothing: f32 = 0, z_loss: f32 = 0) -> loss: T[*], lse: f32[N]?

    Args:
        x: T[N, V].
        target: I[N].
        ignore_index: i64, by default -100.
        reduction: mean, sum, none, by default mean.
        label_smoothing: f32, by default 0.
        z_loss: f32, by default 0.
        backend: which one runs it, by default the current one.

    Returns:
        loss: T[*].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.cross_entropy(
        ...     np.zeros((4, 4), np.float32),
        ...     np.zeros((4,), np.int64),
        ... ).shape
        ()
    """

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
    r"""The gradient of cross_entropy, from its logits and its lse. `x_grad` may alias `x`.

    cross_entropy_backward(grad: T[*], x: T[N, V], target: I[N], lse: f32[N], ignore_index: i64
    = -100, reduction: mean|sum|none = mean, label_smoothing: f32 = 0, z_loss: f32 = 0) ->
    x_grad: T[N, V]

    Args:
        grad: T[*].
        x: T[N, V].
        target: I[N].
        lse: f32[N].
        ignore_index: i64, by default -100.
        reduction: mean, sum, none, by default mean.
        label_smoothing: f32, by default 0.
        z_loss: f32, by default 0.
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[N, V].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.cross_entropy_backward(
        ...     np.ones((), np.float32),
        ...     np.zeros((4, 4), np.float32),
        ...     np.zeros((4,), np.int64),
        ...     np.zeros((4,), np.float32),
        ... ).shape
        (4, 4)
    """

def delta_rule_transform(
    k: _Array,
    beta: Any,
    g: Any | None = None,
    chunk_size: int = 64,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The UT transform of the delta rule, for each chunk of steps: the inverse of I + the strictly
    lower part of diag(beta) (Gamma * K K^T), where Gamma is what the gates leave between two
    steps. Row i of `out` is that of step i, zero after its own column.

    delta_rule_transform(k: T[B, L, Hv, D], beta: U[B, L, Hv], g: U[B, L, Hv]?, chunk_size: i64
    = 64) -> out: U[B, L, Hv, chunk_size]

    Args:
        k: T[B, L, Hv, D].
        beta: U[B, L, Hv].
        g: U[B, L, Hv], or None.
        chunk_size: i64, by default 64.
        backend: which one runs it, by default the current one.

    Returns:
        out: U[B, L, Hv, chunk_size].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.delta_rule_transform(
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4), np.float32),
        ... ).shape
        (4, 4, 4, 64)
    """

def dequantize(
    x: _Array,
    scale: Any,
    block_m: int = 128,
    block_n: int = 128,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Blocks of a matrix, block_m rows by block_n columns, times their scale.

    dequantize(x: Q[M, N], scale: f32[A, B], block_m: i64 = 128, block_n: i64 = 128) -> out:
    f32[M, N]

    Args:
        x: Q[M, N].
        scale: f32[A, B].
        block_m: i64, by default 128.
        block_n: i64, by default 128.
        backend: which one runs it, by default the current one.

    Returns:
        out: f32[M, N].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.dequantize(
        ...     np.zeros((4, 4), np.int8),
        ...     np.ones((1, 1), np.float32),
        ... ).shape
        (4, 4)
    """

def dequantize_int4(
    x: _Array,
    scale: Any,
    zero: Any,
    group_size: int = 128,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Rows of 4-bit numbers without sign, two in a byte with the low half first, less the zero
    point of their group and times its scale.

    dequantize_int4(x: i8[N, P], scale: T[N, G], zero: i8[N, G], group_size: i64 = 128) -> out:
    T[N, 2*P]

    Args:
        x: i8[N, P].
        scale: T[N, G].
        zero: i8[N, G].
        group_size: i64, by default 128.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[N, 2*P].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.dequantize_int4(
        ...     np.zeros((4, 64), np.int8),
        ...     np.ones((4, 1), np.float32),
        ...     np.zeros((4, 1), np.int8),
        ... ).shape
        (4, 128)
    """

def dropout(
    x: _Array,
    p: float = 0.5,
    seed: int = 0,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Sets elements to zero with probability p and divides the others by 1 - p. Which ones follows
    from the seed, at least 0, and their number in row-major order alone: one seed gives one
    mask, on every target. `out` may alias `x`.

    dropout(x: T[...], p: f32 = 0.5, seed: i64 = 0) -> out: T[...]

    Args:
        x: T[...].
        p: f32, by default 0.5.
        seed: i64, by default 0.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.dropout(np.zeros((3,), np.float32)).shape
        (3,)
    """

def embedding(
    weight: _Array,
    indices: Any,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Row indices[i] of weight for every index. ValueError for an index outside 0 .. V.

    embedding(weight: T[V, C], indices: I[*]) -> out: T[*, C]

    Args:
        weight: T[V, C].
        indices: I[*].
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.embedding(
        ...     np.zeros((4, 4), np.float32),
        ...     np.zeros((2,), np.int32),
        ... ).shape
        (2, 4)
    """

def embedding_backward(
    grad: _Array,
    indices: Any,
    weight: Any,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of embedding: row v is the sum of the rows of grad whose index is v, in their
    order. Of weight only the shape is used.

    embedding_backward(grad: T[*, C], indices: I[*], weight: T[V, C]) -> weight_grad: T[V, C]

    Args:
        grad: T[*, C].
        indices: I[*].
        weight: T[V, C].
        backend: which one runs it, by default the current one.

    Returns:
        weight_grad: T[V, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.embedding_backward(
        ...     np.zeros((2, 4), np.float32),
        ...     np.zeros((2,), np.int32),
        ...     np.zeros((4, 4), np.float32),
        ... ).shape
        (4, 4)
    """

def erf(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The error function, elementwise, within 1.05 units in the last place of float32. `out` may
    alias `x`.

    erf(x: T[...]) -> out: T[...]

    Args:
        x: T[...].
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.erf(np.zeros((3,), np.float32)).shape
        (3,)
    """

def erf_backward(
    grad: _Array,
    x: Any,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of erf, from its input. `x_grad` may alias an argument.

    erf_backward(grad: T[...], x: T[...]) -> x_grad: T[...]

    Args:
        grad: T[...].
        x: T[...].
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.erf_backward(
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ... ).shape
        (3,)
    """

def exp(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    r"""e^x, elementwise, within 1.02 units in the last place of float32. `out` may alias `x`.

    exp(x: T[...]) -> out: T[...]

    Args:
        x: T[...].
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.exp(np.zeros((3,), np.float32)).shape
        (3,)
    """

def extremum(
    x: _Array,
    other: Any,
    function: Literal["maximum", "minimum"],
    *,
    backend: str | None = None,
) -> _Array:
    r"""The larger or the smaller of two numbers, with NumPy broadcasting; NaN if one is, and +0 is
    larger than -0 (IEEE 754-2019, maximum and minimum). `out` may alias an input of its own
    shape.

    extremum(x: T[...], other: T[...], function: maximum|minimum) -> out: T[...]

    Args:
        x: T[...].
        other: T[...].
        function: maximum, minimum.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.extremum(
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ...     "maximum",
        ... ).shape
        (3,)
    """

def fft(
    x: _Array,
    inverse: bool = False,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The discrete Fourier transform along the complex numbers of each row, the real and imaginary
    part of a number side by side; or the inverse, not divided by the length. Any length;
    quickest where its prime factors are small.

    fft(x: T[B, N, 2], inverse: bool = false) -> out: T[B, N, 2]

    Args:
        x: T[B, N, 2].
        inverse: bool, by default false.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[B, N, 2].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.fft(np.zeros((4, 4, 2), np.float32)).shape
        (4, 4, 2)
    """

def fused_add_rms_norm(
    x: _Array,
    residual: Any,
    weight: Any,
    eps: float = 1e-06,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array]:
    r"""x + residual, and its RMS normalization over the last axis. `out` may alias `x`,
    `residual_out` may alias `residual`.

    fused_add_rms_norm(x: T[*, C], residual: T[*, C], weight: T[C], eps: f32 = 1e-6) -> out:
    T[*, C], residual_out: T[*, C]

    Args:
        x: T[*, C].
        residual: T[*, C].
        weight: T[C].
        eps: f32, by default 1e-6.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*, C]; residual_out: T[*, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.fused_add_rms_norm(
        ...     np.zeros((2, 4), np.float32),
        ...     np.zeros((2, 4), np.float32),
        ...     np.zeros((4,), np.float32),
        ... )[0].shape
        (2, 4)
    """

def fused_experts(
    x: _Array,
    gate_up_proj: Any,
    down_proj: Any,
    topk_weights: Any,
    topk_ids: Any,
    activation: Literal["silu", "gelu", "gelu_tanh"] = "silu",
    scale: float = 1.0,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The weighted sum of what each token's experts make of it, times scale: down (act(gate x) *
    up x) with the gate's rows of gate_up_proj before the up's (Shazeer et al.,
    arXiv:1701.06538, eq. 1; gated as in arXiv:2002.05202). An id of -1 stands for an expert
    elsewhere and adds nothing.

    fused_experts(x: T[N, H], gate_up_proj: T[E, 2*F, H], down_proj: T[E, H, F], topk_weights:
    f32[N, K], topk_ids: i32[N, K], activation: silu|gelu|gelu_tanh = silu, scale: f32 = 1) ->
    out: T[N, H]

    Args:
        x: T[N, H].
        gate_up_proj: T[E, 2*F, H].
        down_proj: T[E, H, F].
        topk_weights: f32[N, K].
        topk_ids: i32[N, K].
        activation: silu, gelu, gelu_tanh, by default silu.
        scale: f32, by default 1.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[N, H].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.fused_experts(
        ...     np.zeros((4, 4), np.float32),
        ...     np.zeros((4, 6, 4), np.float32),
        ...     np.zeros((4, 4, 3), np.float32),
        ...     np.zeros((4, 4), np.float32),
        ...     np.zeros((4, 4), np.int32),
        ... ).shape
        (4, 4)
    """

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
    r"""Cross-entropy of the logits x weightᵀ, which never exist as a whole: they are made, used and
    overwritten by their gradient a few rows at a time, and the gradients of x and weight are
    finished in the same pass (Hsu et al., Liger Kernel, arXiv:2410.10989, section 3.2).

    fused_linear_cross_entropy(x: T[N, H], weight: T[V, H], target: I[N], ignore_index: i64 =
    -100, reduction: mean|sum = mean, label_smoothing: f32 = 0, z_loss: f32 = 0) -> loss: T[],
    x_grad: T[N, H]?, weight_grad: T[V, H]?

    Args:
        x: T[N, H].
        weight: T[V, H].
        target: I[N].
        ignore_index: i64, by default -100.
        reduction: mean, sum, by default mean.
        label_smoothing: f32, by default 0.
        z_loss: f32, by default 0.
        backend: which one runs it, by default the current one.

    Returns:
        loss: T[].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.fused_linear_cross_entropy(
        ...     np.zeros((4, 4), np.float32),
        ...     np.zeros((4, 4), np.float32),
        ...     np.zeros((4,), np.int64),
        ... ).shape
        ()
    """

def gated_linear(
    x: _Array,
    weight: Any,
    bias: Any | None = None,
    activation: Literal["silu", "gelu", "gelu_tanh"] = "silu",
    *,
    backend: str | None = None,
) -> _Array:
    r"""Linear layer that gates: act(x gateᵀ) * (x upᵀ), with bias, of a weight whose first N rows
    are the gate's and whose others are up's. Sums and activation in float32; a row has the same
    bits in any batch on a CPU. Shazeer, arXiv:2002.05202, eq. 5 and 6.

    gated_linear(x: T[*, K], weight: T[2*N, K], bias: T[2*N]?, activation: silu|gelu|gelu_tanh =
    silu) -> out: T[*, N]

    Args:
        x: T[*, K].
        weight: T[2*N, K].
        bias: T[2*N], or None.
        activation: silu, gelu, gelu_tanh, by default silu.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*, N].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.gated_linear(
        ...     np.zeros((2, 4), np.float32),
        ...     np.zeros((4, 4), np.float32),
        ... ).shape
        (2, 2)
    """

def gelu(
    x: _Array,
    approximate: Literal["none", "tanh"] = "none",
    *,
    backend: str | None = None,
) -> _Array:
    r"""x Φ(x), Φ the normal distribution's, exact or by its tanh approximation. `out` may alias
    `x`.

    gelu(x: T[...], approximate: none|tanh = none) -> out: T[...]

    Args:
        x: T[...].
        approximate: none, tanh, by default none.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.gelu(np.zeros((3,), np.float32)).shape
        (3,)
    """

def gelu_and_mul(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    r"""gelu(first half of the row) * second half: GEGLU without its matrix products. `out` may be
    the first half of `x`.

    gelu_and_mul(x: T[*, 2*H]) -> out: T[*, H]

    Args:
        x: T[*, 2*H].
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*, H].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.gelu_and_mul(np.zeros((2, 4), np.float32)).shape
        (2, 2)
    """

def gelu_and_mul_backward(
    grad: _Array,
    x: Any,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of gelu_and_mul. `x_grad` may alias `x`.

    gelu_and_mul_backward(grad: T[*, H], x: T[*, 2*H]) -> x_grad: T[*, 2*H]

    Args:
        grad: T[*, H].
        x: T[*, 2*H].
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[*, 2*H].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.gelu_and_mul_backward(
        ...     np.zeros((2, 4), np.float32),
        ...     np.zeros((2, 8), np.float32),
        ... ).shape
        (2, 8)
    """

def gelu_backward(
    grad: _Array,
    x: Any,
    approximate: Literal["none", "tanh"] = "none",
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of gelu, from its input. `x_grad` may alias an argument.

    gelu_backward(grad: T[...], x: T[...], approximate: none|tanh = none) -> x_grad: T[...]

    Args:
        grad: T[...].
        x: T[...].
        approximate: none, tanh, by default none.
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.gelu_backward(
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ... ).shape
        (3,)
    """

def gelu_tanh_and_mul(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    r"""gelu(first half of the row, by its tanh approximation) * second half. `out` may be the first
    half of `x`.

    gelu_tanh_and_mul(x: T[*, 2*H]) -> out: T[*, H]

    Args:
        x: T[*, 2*H].
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*, H].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.gelu_tanh_and_mul(np.zeros((2, 4), np.float32)).shape
        (2, 2)
    """

def gelu_tanh_and_mul_backward(
    grad: _Array,
    x: Any,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of gelu_tanh_and_mul. `x_grad` may alias `x`.

    gelu_tanh_and_mul_backward(grad: T[*, H], x: T[*, 2*H]) -> x_grad: T[*, 2*H]

    Args:
        grad: T[*, H].
        x: T[*, 2*H].
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[*, 2*H].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.gelu_tanh_and_mul_backward(
        ...     np.zeros((2, 4), np.float32),
        ...     np.zeros((2, 8), np.float32),
        ... ).shape
        (2, 8)
    """

def grouped_gated_matmul(
    a: _Array,
    b: Any,
    offsets: Any,
    starts: Any | None = None,
    rows: Any | None = None,
    activation: Literal["silu", "gelu", "gelu_tanh"] = "silu",
    *,
    backend: str | None = None,
) -> _Array:
    r"""act(a gate) * (a up) for rows in groups, each with its group's matrices: b has the gate's
    columns before the up's. Sums and activation in float32. Groups as in grouped_matmul; rows
    of no group are 0. Shazeer, arXiv:2002.05202, eq. 5 and 6.

    grouped_gated_matmul(a: T[A, K], b: T[G, K, 2*N], offsets: i32[G], starts: i32[G]?, rows:
    i32[M]?, activation: silu|gelu|gelu_tanh = silu) -> out: T[M, N]

    Args:
        a: T[A, K].
        b: T[G, K, 2*N].
        offsets: i32[G].
        starts: i32[G], or None.
        rows: i32[M], or None.
        activation: silu, gelu, gelu_tanh, by default silu.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[M, N].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.grouped_gated_matmul(
        ...     np.zeros((4, 4), np.float32),
        ...     np.zeros((4, 4, 4), np.float32),
        ...     np.zeros((4,), np.int32),
        ... ).shape
        (4, 2)
    """

def grouped_matmul(
    a: _Array,
    b: Any,
    offsets: Any,
    starts: Any | None = None,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Rows in groups, each times its group's matrix, sums in float32. Group g ends before row
    offsets[g] and begins at starts[g], or where the group before ends. Rows of no group are 0.

    grouped_matmul(a: T[M, K], b: T[G, K, N], offsets: i32[G], starts: i32[G]?) -> out: T[M, N]

    Args:
        a: T[M, K].
        b: T[G, K, N].
        offsets: i32[G].
        starts: i32[G], or None.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[M, N].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.grouped_matmul(
        ...     np.zeros((4, 4), np.float32),
        ...     np.zeros((4, 4, 4), np.float32),
        ...     np.zeros((4,), np.int32),
        ... ).shape
        (4, 4)
    """

def grouped_matmul_unpermute(
    a: _Array,
    b: Any,
    offsets: Any,
    starts: Any | None = None,
    to_rows: Any | None = None,
    weights: Any | None = None,
    out_rows: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    r"""grouped_matmul whose row r becomes row to_rows[r] of out, or nothing where that is outside
    out: each row of out must be that of one. Rows of out are multiplied by their weights, but
    for those of no group, which are 0. `order` of moe_align undoes a router's sorting.

    grouped_matmul_unpermute(a: T[M, K], b: T[G, K, N], offsets: i32[G], starts: i32[G]?,
    to_rows: i32[M]?, weights: f32[R]?, out_rows: i64 = -1) -> out: T[R, N]

    Args:
        a: T[M, K].
        b: T[G, K, N].
        offsets: i32[G].
        starts: i32[G], or None.
        to_rows: i32[M], or None.
        weights: f32[R], or None.
        out_rows: i64, by default -1.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[R, N].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.grouped_matmul_unpermute(
        ...     np.zeros((4, 4), np.float32),
        ...     np.zeros((4, 4, 4), np.float32),
        ...     np.zeros((4,), np.int32),
        ... ).shape
        (4, 4)
    """

def int_matmul(
    a: _Array,
    b: Any,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Batched matrix multiplication of 8-bit integers, exact: a b in 32-bit integers, which wrap
    around where a sum needs more (no sum of 131071 products or fewer does). Any strides:
    transposes are views, and a batch stride of zero broadcasts. Arrays of one, two or more
    dimensions are multiplied as torch.matmul does, by views.

    int_matmul(a: i8[B, M, K], b: i8[B, K, N]) -> out: i32[B, M, N]

    Args:
        a: i8[B, M, K].
        b: i8[B, K, N].
        backend: which one runs it, by default the current one.

    Returns:
        out: i32[B, M, N].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.int_matmul(
        ...     np.zeros((4, 4, 4), np.int8),
        ...     np.zeros((4, 4, 4), np.int8),
        ... ).shape
        (4, 4, 4)
    """

def k_grouped_matmul(
    a: _Array,
    b: Any,
    offsets: Any,
    starts: Any | None = None,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The product of each group of a's columns with the same rows of b, sums in float32. Group g
    ends before column offsets[g] and begins at starts[g], or where the group before ends.

    k_grouped_matmul(a: T[M, K], b: T[K, N], offsets: i32[G], starts: i32[G]?) -> out: T[G, M,
    N]

    Args:
        a: T[M, K].
        b: T[K, N].
        offsets: i32[G].
        starts: i32[G], or None.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[G, M, N].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.k_grouped_matmul(
        ...     np.zeros((4, 4), np.float32),
        ...     np.zeros((4, 4), np.float32),
        ...     np.zeros((4,), np.int32),
        ... ).shape
        (4, 4, 4)
    """

def layer_norm(
    x: _Array,
    weight: Any | None = None,
    bias: Any | None = None,
    eps: float = 1e-05,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Layer normalization over the last axis. `out` may alias `x`.

    layer_norm(x: T[*, C], weight: T[C]?, bias: T[C]?, eps: f32 = 1e-5) -> out: T[*, C]

    Args:
        x: T[*, C].
        weight: T[C], or None.
        bias: T[C], or None.
        eps: f32, by default 1e-5.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.layer_norm(np.zeros((2, 4), np.float32)).shape
        (2, 4)
    """

def layer_norm_backward(
    grad: _Array,
    x: Any,
    weight: Any | None = None,
    eps: float = 1e-05,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Gradients of layer_norm. `x_grad` may alias `grad` or `x`.

    layer_norm_backward(grad: T[*, C], x: T[*, C], weight: T[C]?, eps: f32 = 1e-5) -> x_grad:
    T[*, C], weight_grad: T[C]?, bias_grad: T[C]?

    Args:
        grad: T[*, C].
        x: T[*, C].
        weight: T[C], or None.
        eps: f32, by default 1e-5.
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[*, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.layer_norm_backward(
        ...     np.zeros((2, 4), np.float32),
        ...     np.zeros((2, 4), np.float32),
        ... ).shape
        (2, 4)
    """

def lerp(
    x: _Array,
    end: Any,
    weight: Any | None = None,
    amount: float = 0.5,
    *,
    backend: str | None = None,
) -> _Array:
    r"""x + weight (end - x) with NumPy broadcasting; `amount` is the weight of all, if none is
    given. `out` may alias an input of its own shape.

    lerp(x: T[...], end: T[...], weight: T[...]?, amount: f32 = 0.5) -> out: T[...]

    Args:
        x: T[...].
        end: T[...].
        weight: T[...], or None.
        amount: f32, by default 0.5.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.lerp(
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ... ).shape
        (3,)
    """

def linear(
    x: _Array,
    weight: Any,
    bias: Any | None = None,
    residual: Any | None = None,
    activation: Literal["none", "relu", "gelu", "gelu_tanh", "silu"] = "none",
    row_scale: Any | None = None,
    column_scale: Any | None = None,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Linear layer: activation(x weightᵀ * row_scale * column_scale + bias) + residual, where
    scales are of the rows and of the columns of the product. Sums are float32; a row has the
    same bits in any batch. `out` may alias `residual`.

    linear(x: T[*, K], weight: T[N, K], bias: T[N]?, residual: T[*, N]?, activation:
    none|relu|gelu|gelu_tanh|silu = none, row_scale: f32[*]?, column_scale: f32[N]?) -> out:
    T[*, N]

    Args:
        x: T[*, K].
        weight: T[N, K].
        bias: T[N], or None.
        residual: T[*, N], or None.
        activation: none, relu, gelu, gelu_tanh, silu, by default none.
        row_scale: f32[*], or None.
        column_scale: f32[N], or None.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*, N].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.linear(
        ...     np.zeros((2, 4), np.float32),
        ...     np.zeros((4, 4), np.float32),
        ... ).shape
        (2, 4)
    """

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
    r"""Linear attention over time with a log gate per key dimension, and with the delta rule where
    there is a beta: S = exp(g) S + k d^T with d = v, or beta (v - (exp(g) S)^T k); out = scale
    S^T q. A scale of 0 means 1 / sqrt(D). Several heads of v may share one of q and k. `states`
    are S before every chunk_size steps, and at the end.

    linear_attention(q: T[B, L, H, D], k: T[B, L, H, D], v: T[B, L, Hv, Dv], g: U[B, L, Hv, D],
    beta: U[B, L, Hv]?, initial_state: U[B, Hv, D, Dv]?, scale: f32 = 0, chunk_size: i64 = 64)
    -> out: T[B, L, Hv, Dv], final_state: U[B, Hv, D, Dv], states: U[B, Hv, L/chunk_size+1, D,
    Dv]?

    Args:
        q: T[B, L, H, D].
        k: T[B, L, H, D].
        v: T[B, L, Hv, Dv].
        g: U[B, L, Hv, D].
        beta: U[B, L, Hv], or None.
        initial_state: U[B, Hv, D, Dv], or None.
        scale: f32, by default 0.
        chunk_size: i64, by default 64.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[B, L, Hv, Dv]; final_state: U[B, Hv, D, Dv].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.linear_attention(
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ... )[0].shape
        (4, 4, 4, 4)
    """

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
    r"""Gradients of linear_attention, from those of its output and of its final state.

    linear_attention_backward(grad: T[B, L, Hv, Dv], q: T[B, L, H, D], k: T[B, L, H, D], v: T[B,
    L, Hv, Dv], g: U[B, L, Hv, D], beta: U[B, L, Hv]?, initial_state: U[B, Hv, D, Dv]?,
    final_grad: U[B, Hv, D, Dv]?, scale: f32 = 0) -> q_grad: T[B, L, H, D], k_grad: T[B, L, H,
    D], v_grad: T[B, L, Hv, Dv], g_grad: U[B, L, Hv, D], beta_grad: U[B, L, Hv]?, initial_grad:
    U[B, Hv, D, Dv]?

    Args:
        grad: T[B, L, Hv, Dv].
        q: T[B, L, H, D].
        k: T[B, L, H, D].
        v: T[B, L, Hv, Dv].
        g: U[B, L, Hv, D].
        beta: U[B, L, Hv], or None.
        initial_state: U[B, Hv, D, Dv], or None.
        final_grad: U[B, Hv, D, Dv], or None.
        scale: f32, by default 0.
        backend: which one runs it, by default the current one.

    Returns:
        q_grad: T[B, L, H, D]; k_grad: T[B, L, H, D]; v_grad: T[B, L, Hv, Dv]; g_grad: U[B, L, Hv, D].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.linear_attention_backward(
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ... )[0].shape
        (4, 4, 4, 4)
    """

def linear_int4(
    x: _Array,
    weight: Any,
    scale: Any,
    zero: Any | None = None,
    bias: Any | None = None,
    group_size: int = 128,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Linear layer with weights of 4-bit numbers without sign, two in a byte with the low half
    first, less the zero point of their group (8, where there is none) and times its scale.
    Activations are not rounded; sums are float32.

    linear_int4(x: T[*, 2*P], weight: i8[N, P], scale: T[N, G], zero: i8[N, G]?, bias: T[N]?,
    group_size: i64 = 128) -> out: T[*, N]

    Args:
        x: T[*, 2*P].
        weight: i8[N, P].
        scale: T[N, G].
        zero: i8[N, G], or None.
        bias: T[N], or None.
        group_size: i64, by default 128.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*, N].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.linear_int4(
        ...     np.zeros((2, 128), np.float32),
        ...     np.zeros((3, 64), np.int8),
        ...     np.ones((3, 1), np.float32),
        ... ).shape
        (2, 3)
    """

def linear_int8(
    x: _Array,
    weight: Any,
    scale: Any,
    zero: Any | None = None,
    bias: Any | None = None,
    group_size: int = 128,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Linear layer with weights of 8-bit numbers with sign, less the zero point of their group (0,
    where there is none) and times its scale. Activations are not rounded; sums are float32. One
    scale for each feature is a group_size of K or more.

    linear_int8(x: T[*, K], weight: i8[N, K], scale: T[N, G], zero: i8[N, G]?, bias: T[N]?,
    group_size: i64 = 128) -> out: T[*, N]

    Args:
        x: T[*, K].
        weight: i8[N, K].
        scale: T[N, G].
        zero: i8[N, G], or None.
        bias: T[N], or None.
        group_size: i64, by default 128.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*, N].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.linear_int8(
        ...     np.zeros((2, 128), np.float32),
        ...     np.zeros((3, 128), np.int8),
        ...     np.ones((3, 1), np.float32),
        ... ).shape
        (2, 3)
    """

def linear_packed(
    x: _Array,
    packed: Any,
    bias: Any | None = None,
    residual: Any | None = None,
    activation: Literal["none", "relu", "gelu", "gelu_tanh", "silu"] = "none",
    *,
    backend: str | None = None,
) -> _Array:
    r"""linear with a weight [N, K] packed by pack_weight, of the dtype of x. `out` may alias
    `residual`. ValueError for bytes that are no packed weight of these sizes.

    linear_packed(x: T[*, K], packed: u8[P], bias: T[N]?, residual: T[*, N]?, activation:
    none|relu|gelu|gelu_tanh|silu = none) -> out: T[*, N]

    Args:
        x: T[*, K].
        packed: u8[P].
        bias: T[N], or None.
        residual: T[*, N], or None.
        activation: none, relu, gelu, gelu_tanh, silu, by default none.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*, N].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.linear_packed(
        ...     np.zeros((2, 4), np.float32),
        ...     ops.pack_weight(np.zeros((3, 4), np.float32)),
        ... ).shape
        (2, 3)
    """

def linear_quantized(
    x: _Array,
    packed: Any,
    bias: Any | None = None,
    residual: Any | None = None,
    activation: Literal["none", "relu", "gelu", "gelu_tanh", "silu", "silu_and_mul", "gelu_tanh_and_mul"] = "none",
    compute: Literal["int8", "bf16", "f32", "int16"] = "int8",
    out_features: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Linear layer with block-quantised weights packed by the operator pack_quantized. `compute`
    int8 rounds activations to int8 per 32 k (kernels/quantize_rows.h), int16 to two such
    digits, bf16 rounds activations and weights to bf16, f32 rounds nothing. The gated
    activations take weights packed with `up`: out = silu(x · gateᵀ) * (x · upᵀ) + residual.
    `out` may alias `residual`. On a GPU, `packed` is not looked into before the kernel runs,
    which weights of other sizes stop: give `out_features` where neither bias nor residual says
    N.

    linear_quantized(x: T[*, K], packed: u8[P], bias: T[N]?, residual: T[*, N]?, activation:
    none|relu|gelu|gelu_tanh|silu|silu_and_mul|gelu_tanh_and_mul = none, compute:
    int8|bf16|f32|int16 = int8, out_features: i64 = -1) -> out: T[*, N]

    Args:
        x: T[*, K].
        packed: u8[P].
        bias: T[N], or None.
        residual: T[*, N], or None.
        activation: none, relu, gelu, gelu_tanh, silu, silu_and_mul, gelu_tanh_and_mul, by default none.
        compute: int8, bf16, f32, int16, by default int8.
        out_features: i64, by default -1.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*, N].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.linear_quantized(
        ...     np.zeros((2, 32), np.float32),
        ...     ops.pack_quantized(np.zeros((3, 18), np.uint8)),
        ... ).shape
        (2, 3)
    """

def log(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The natural logarithm, elementwise; -inf at 0, NaN below. `out` may alias `x`.

    log(x: T[...]) -> out: T[...]

    Args:
        x: T[...].
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.log(np.zeros((3,), np.float32)).shape
        (3,)
    """

def log_backward(
    grad: _Array,
    x: Any,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of log, from its input. `x_grad` may alias an argument.

    log_backward(grad: T[...], x: T[...]) -> x_grad: T[...]

    Args:
        grad: T[...].
        x: T[...].
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.log_backward(
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ... ).shape
        (3,)
    """

def log_softmax(
    x: _Array,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    r"""x - log(sum(exp(x))) along one dimension. A row of -inf alone, and a row with +inf or NaN,
    gives NaN throughout. `out` may alias `x`.

    log_softmax(x: T[*, C], dim: i64 = -1) -> out: T[*, C]

    Args:
        x: T[*, C].
        dim: i64, by default -1.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.log_softmax(np.zeros((2, 4), np.float32)).shape
        (2, 4)
    """

def log_softmax_backward(
    grad: _Array,
    output: Any,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of log_softmax, from its output: grad - exp(output) * sum(grad). `x_grad` may
    alias an argument.

    log_softmax_backward(grad: T[*, C], output: T[*, C], dim: i64 = -1) -> x_grad: T[*, C]

    Args:
        grad: T[*, C].
        output: T[*, C].
        dim: i64, by default -1.
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[*, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.log_softmax_backward(
        ...     np.zeros((2, 4), np.float32),
        ...     np.zeros((2, 4), np.float32),
        ... ).shape
        (2, 4)
    """

def matmul(
    a: _Array,
    b: Any,
    alpha: float = 1.0,
    addend: Any | None = None,
    beta: float = 1.0,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Batched matrix multiplication: alpha * a b + beta * addend, sums in float32. Any strides:
    transposes are views, and a stride of zero broadcasts. With beta = 0 the addend is not read.
    `out` may alias `addend`. Arrays of one, two or more dimensions are multiplied as
    torch.matmul does, by views.

    matmul(a: T[B, M, K], b: T[B, K, N], alpha: f32 = 1, addend: T[B, M, N]?, beta: f32 = 1) ->
    out: T[B, M, N]

    Args:
        a: T[B, M, K].
        b: T[B, K, N].
        alpha: f32, by default 1.
        addend: T[B, M, N], or None.
        beta: f32, by default 1.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[B, M, N].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.matmul(
        ...     np.zeros((4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4), np.float32),
        ... ).shape
        (4, 4, 4)
    """

def mean(
    x: _Array,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The mean along one dimension, accumulated in float32; NaN where there is nothing.

    mean(x: T[*, C], dim: i64 = -1) -> out: T[*]

    Args:
        x: T[*, C].
        dim: i64, by default -1.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.mean(np.zeros((2, 4), np.float32)).shape
        (2,)
    """

def mean_backward(
    grad: _Array,
    x: Any,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of mean: grad / C for each element of x, of which only the shape is used.

    mean_backward(grad: T[*], x: T[*, C], dim: i64 = -1) -> x_grad: T[*, C]

    Args:
        grad: T[*].
        x: T[*, C].
        dim: i64, by default -1.
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[*, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.mean_backward(
        ...     np.zeros((2,), np.float32),
        ...     np.zeros((2, 4), np.float32),
        ... ).shape
        (2, 4)
    """

def mla(
    q_nope: _Array,
    q_pe: Any,
    ckv: Any,
    kpe: Any,
    kv_lens: Any | None = None,
    ckv_scale: Any | None = None,
    scale: float = 0.0,
    causal: bool = False,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434), the projections of keys and
    values absorbed: all heads share the latent keys `ckv`, which are the values, too, and the
    rotated dims `kpe`; both may be columns of one cache. The last query stands at the last key.
    Latents of 8 bits are times `ckv_scale`, of which a key has one for each D / G of its dims
    (G = 4 in DeepSeek-V3.2, arXiv:2512.02556), and must then be numbers of T.

    mla(q_nope: T[B, S, Hq, D], q_pe: T[B, S, Hq, R], ckv: U[B, L, H, D], kpe: T[B, L, H, R],
    kv_lens: i32[B]?, ckv_scale: f32[B, L, H, G]?, scale: f32 = 0, causal: bool = false) -> out:
    T[B, S, Hq, D], lse: f32[B, Hq, S]?

    Args:
        q_nope: T[B, S, Hq, D].
        q_pe: T[B, S, Hq, R].
        ckv: U[B, L, H, D].
        kpe: T[B, L, H, R].
        kv_lens: i32[B], or None.
        ckv_scale: f32[B, L, H, G], or None.
        scale: f32, by default 0.
        causal: bool, by default false.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[B, S, Hq, D].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.mla(
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ... ).shape
        (4, 4, 4, 4)
    """

def mla_paged(
    q_nope: _Array,
    q_pe: Any,
    ckv_pages: Any,
    kpe_pages: Any,
    block_table: Any,
    kv_lens: Any,
    cu_seqlens_q: Any | None = None,
    ckv_scale: Any | None = None,
    scale: float = 0.0,
    causal: bool = False,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Multi-head latent attention, as `mla`, over a cache in pages, as `attention_paged`. With
    pages of one key, a row of `block_table` is a list of keys, in any order: what each query of
    sparse attention has picked (DeepSeek-V3.2, arXiv:2512.02556), B being N.

    mla_paged(q_nope: T[N, Hq, D], q_pe: T[N, Hq, R], ckv_pages: U[P, S, H, D], kpe_pages: T[P,
    S, H, R], block_table: i32[B, W], kv_lens: i32[B], cu_seqlens_q: i32[C]?, ckv_scale: f32[P,
    S, H, G]?, scale: f32 = 0, causal: bool = false) -> out: T[N, Hq, D], lse: f32[Hq, N]?

    Args:
        q_nope: T[N, Hq, D].
        q_pe: T[N, Hq, R].
        ckv_pages: U[P, S, H, D].
        kpe_pages: T[P, S, H, R].
        block_table: i32[B, W].
        kv_lens: i32[B].
        cu_seqlens_q: i32[C], or None.
        ckv_scale: f32[P, S, H, G], or None.
        scale: f32, by default 0.
        causal: bool, by default false.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[N, Hq, D].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.mla_paged(
        ...     np.zeros((4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4, 4), np.float32),
        ...     np.zeros((4, 4), np.int32),
        ...     np.zeros((4,), np.int32),
        ... ).shape
        (4, 4, 4)
    """

def moe_align(
    ids: _Array,
    experts: int,
    block_size: int = 1,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array, _Array, _Array]:
    r"""Sorts entries by their expert, in order otherwise. Each expert's part of `order` has its
    entries, then the number of all entries up to a multiple of block_size, and ends at its
    offset; `positions` is the way back. An id of -1 stands for an expert elsewhere and has
    position -1.

    moe_align(ids: i32[*], experts: i64, block_size: i64 = 1) -> counts: i32[experts], offsets:
    i32[experts], order: i32[S], positions: i32[*]

    Args:
        ids: i32[*].
        experts: i64.
        block_size: i64, by default 1.
        backend: which one runs it, by default the current one.

    Returns:
        counts: i32[experts]; offsets: i32[experts]; order: i32[S]; positions: i32[*].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.moe_align(
        ...     np.zeros((2,), np.int32),
        ...     2,
        ... )[0].shape
        (2,)
    """

def moe_combine(
    x: _Array,
    positions: Any,
    weights: Any | None = None,
    scale: float = 1.0,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The weighted sum of the rows of x at each token's positions, times scale; a position of -1
    adds nothing. Sums are float32.

    moe_combine(x: T[S, C], positions: i32[N, K], weights: f32[N, K]?, scale: f32 = 1) -> out:
    T[N, C]

    Args:
        x: T[S, C].
        positions: i32[N, K].
        weights: f32[N, K], or None.
        scale: f32, by default 1.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[N, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.moe_combine(
        ...     np.zeros((4, 4), np.float32),
        ...     np.zeros((4, 4), np.int32),
        ... ).shape
        (4, 4)
    """

def moe_combine_backward(
    grad: _Array,
    x: Any,
    positions: Any,
    weights: Any | None = None,
    scale: float = 1.0,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Gradients of moe_combine by the rows of x and by the weights, in the order of the tokens.

    moe_combine_backward(grad: T[N, C], x: T[S, C], positions: i32[N, K], weights: f32[N, K]?,
    scale: f32 = 1) -> x_grad: T[S, C], weights_grad: f32[N, K]?

    Args:
        grad: T[N, C].
        x: T[S, C].
        positions: i32[N, K].
        weights: f32[N, K], or None.
        scale: f32, by default 1.
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[S, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.moe_combine_backward(
        ...     np.zeros((4, 4), np.float32),
        ...     np.zeros((4, 4), np.float32),
        ...     np.zeros((4, 4), np.int32),
        ... ).shape
        (4, 4)
    """

def moe_topk(
    gating: _Array,
    top_k: int,
    bias: Any | None = None,
    scoring: Literal["softmax", "sigmoid"] = "softmax",
    renormalize: bool = False,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array]:
    r"""The top_k experts of each token and their weights, the softmax or the sigmoids of `gating`.
    A bias is added to what is compared, not to the weights. renormalize: the weights sum to 1.

    moe_topk(gating: T[N, E], top_k: i64, bias: f32[E]?, scoring: softmax|sigmoid = softmax,
    renormalize: bool = false) -> weights: f32[N, top_k], ids: i32[N, top_k]

    Args:
        gating: T[N, E].
        top_k: i64.
        bias: f32[E], or None.
        scoring: softmax, sigmoid, by default softmax.
        renormalize: bool, by default false.
        backend: which one runs it, by default the current one.

    Returns:
        weights: f32[N, top_k]; ids: i32[N, top_k].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.moe_topk(
        ...     np.zeros((4, 4), np.float32),
        ...     2,
        ... )[0].shape
        (4, 2)
    """

def moe_topk_backward(
    grad: _Array,
    gating: Any,
    ids: Any,
    scoring: Literal["softmax", "sigmoid"] = "softmax",
    renormalize: bool = False,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of moe_topk's weights by the gating; ids are the experts that it chose, those
    of a token different. A bias only selects, and has none. ValueError for an id that is no
    expert, or that a token has twice.

    moe_topk_backward(grad: f32[N, K], gating: T[N, E], ids: i32[N, K], scoring: softmax|sigmoid
    = softmax, renormalize: bool = false) -> gating_grad: T[N, E]

    Args:
        grad: f32[N, K].
        gating: T[N, E].
        ids: i32[N, K].
        scoring: softmax, sigmoid, by default softmax.
        renormalize: bool, by default false.
        backend: which one runs it, by default the current one.

    Returns:
        gating_grad: T[N, E].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.moe_topk_backward(
        ...     np.zeros((2, 2), np.float32),
        ...     np.zeros((2, 4), np.float32),
        ...     np.array([[0, 1], [2, 3]], np.int32),
        ... ).shape
        (2, 4)
    """

def mul(
    x: _Array,
    other: Any,
    *,
    backend: str | None = None,
) -> _Array:
    r"""x * other with NumPy broadcasting. `out` may alias an input of its own shape.

    mul(x: T[...], other: T[...]) -> out: T[...]

    Args:
        x: T[...].
        other: T[...].
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.mul(
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ... ).shape
        (3,)
    """

def pack_quantized(
    blocks: _Array,
    up: Any | None = None,
    format: Literal["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mxfp4"] = "q4_0",
    *,
    backend: str | None = None,
) -> _Array:
    r"""A weight [N, K] in a block format of GGUF as linear_quantized reads it: a header of 64
    bytes, then panels of 16 rows, the same bytes on every machine. `blocks` are its rows as
    they lie in the file; with `up`, they are a gate and `up` its factor, for silu_and_mul and
    gelu_tanh_and_mul. No value changes.

    pack_quantized(blocks: u8[N, B], up: u8[N, B]?, format:
    q4_0|q4_1|q5_0|q5_1|q8_0|q2_k|q3_k|q4_k|q5_k|q6_k|iq4_nl|iq4_xs|mxfp4 = q4_0) -> packed:
    u8[P]

    Args:
        blocks: u8[N, B].
        up: u8[N, B], or None.
        format: q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, mxfp4, by default q4_0.
        backend: which one runs it, by default the current one.

    Returns:
        packed: u8[P].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.pack_quantized(np.zeros((3, 18), np.uint8)).shape
        (384,)
    """

def pack_weight(
    weight: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    r"""A weight [N, K] as linear_packed reads it: a header of 64 bytes, then panels of 32 rows, the
    same bytes on every machine. Packing pays when the weight is multiplied more than once.

    pack_weight(weight: T[N, K]) -> packed: u8[P]

    Args:
        weight: T[N, K].
        backend: which one runs it, by default the current one.

    Returns:
        packed: u8[P].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.pack_weight(np.zeros((4, 4), np.float32)).shape
        (576,)
    """

def permute(
    x: _Array,
    dims: Sequence[int],
    *,
    backend: str | None = None,
) -> _Array:
    r"""A new tensor whose dimension d is dimension dims[d] of x. `out` may not overlap `x`.
    ValueError unless dims holds each of 0 .. R - 1 once, R the rank of x.

    permute(x: T[...], dims: i64[R]) -> out: T[...]

    Args:
        x: T[...].
        dims: i64[R].
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.permute(
        ...     np.zeros((2, 3), np.float32),
        ...     [1, 0],
        ... ).shape
        (3, 2)
    """

def quantize_fp8(
    x: _Array,
    group_size: int = 128,
    eps: float = 1e-10,
    power_of_two: bool = False,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array]:
    r"""Groups of columns as f8_e4m3fn times their scale, max(|x|, eps) / 448: 1 for zeros without
    eps.

    quantize_fp8(x: T[*, C], group_size: i64 = 128, eps: f32 = 1e-10, power_of_two: bool =
    false) -> out: f8_e4m3fn[*, C], scale: f32[*, C/group_size]

    Args:
        x: T[*, C].
        group_size: i64, by default 128.
        eps: f32, by default 1e-10.
        power_of_two: bool, by default false.
        backend: which one runs it, by default the current one.

    Returns:
        out: f8_e4m3fn[*, C]; scale: f32[*, C/group_size].

    Example:
        >>> import torch
        >>> from tilewright import ops
        >>> ops.quantize_fp8(torch.zeros(2, 128))[0].shape
        torch.Size([2, 128])
    """

def quantize_int8(
    x: _Array,
    group_size: int = 128,
    eps: float = 1e-10,
    power_of_two: bool = False,
    truncate: bool = False,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array]:
    r"""Groups of columns as int8 times their scale, max(|x|, eps) / 127: 1 for zeros without eps.
    To the nearest integer, or towards zero.

    quantize_int8(x: T[*, C], group_size: i64 = 128, eps: f32 = 1e-10, power_of_two: bool =
    false, truncate: bool = false) -> out: i8[*, C], scale: f32[*, C/group_size]

    Args:
        x: T[*, C].
        group_size: i64, by default 128.
        eps: f32, by default 1e-10.
        power_of_two: bool, by default false.
        truncate: bool, by default false.
        backend: which one runs it, by default the current one.

    Returns:
        out: i8[*, C]; scale: f32[*, C/group_size].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.quantize_int8(np.zeros((2, 128), np.float32))[0].shape
        (2, 128)
    """

def reduce(
    x: _Array,
    function: Literal["amin", "prod", "norm1", "norm2", "norm_inf", "logsumexp"],
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    r"""One number of all elements along one dimension; amin and the norms propagate NaN.

    reduce(x: T[*, C], function: amin|prod|norm1|norm2|norm_inf|logsumexp, dim: i64 = -1) ->
    out: T[*]

    Args:
        x: T[*, C].
        function: amin, prod, norm1, norm2, norm_inf, logsumexp.
        dim: i64, by default -1.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.reduce(
        ...     np.zeros((2, 4), np.float32),
        ...     "amin",
        ... ).shape
        (2,)
    """

def reduce_backward(
    grad: _Array,
    x: Any,
    function: Literal["amin", "prod", "norm1", "norm2", "norm_inf", "logsumexp"],
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of reduce: amin and norm_inf share grad evenly among the elements that they
    found, as PyTorch does. `x_grad` may alias `x`.

    reduce_backward(grad: T[*], x: T[*, C], function: amin|prod|norm1|norm2|norm_inf|logsumexp,
    dim: i64 = -1) -> x_grad: T[*, C]

    Args:
        grad: T[*].
        x: T[*, C].
        function: amin, prod, norm1, norm2, norm_inf, logsumexp.
        dim: i64, by default -1.
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[*, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.reduce_backward(
        ...     np.zeros((2,), np.float32),
        ...     np.zeros((2, 4), np.float32),
        ...     "amin",
        ... ).shape
        (2, 4)
    """

def relu(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    r"""max(x, 0), elementwise; NaN stays NaN. `out` may alias `x`.

    relu(x: T[...]) -> out: T[...]

    Args:
        x: T[...].
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.relu(np.zeros((3,), np.float32)).shape
        (3,)
    """

def relu_backward(
    grad: _Array,
    output: Any,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of relu, from its output: 0 where that is 0. `x_grad` may alias an argument.

    relu_backward(grad: T[...], output: T[...]) -> x_grad: T[...]

    Args:
        grad: T[...].
        output: T[...].
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.relu_backward(
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ... ).shape
        (3,)
    """

def rms_norm(
    x: _Array,
    weight: Any,
    eps: float = 1e-06,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Root-mean-square normalization over the last axis. `out` may alias `x`.

    rms_norm(x: T[*, C], weight: T[C], eps: f32 = 1e-6) -> out: T[*, C]

    Args:
        x: T[*, C].
        weight: T[C].
        eps: f32, by default 1e-6.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.rms_norm(
        ...     np.zeros((2, 4), np.float32),
        ...     np.zeros((4,), np.float32),
        ... ).shape
        (2, 4)
    """

def rms_norm_backward(
    grad: _Array,
    x: Any,
    weight: Any,
    residual_grad: Any | None = None,
    eps: float = 1e-06,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Gradients of rms_norm. `residual_grad` is added to `x_grad`, which may alias `grad`, `x` or
    `residual_grad`.

    rms_norm_backward(grad: T[*, C], x: T[*, C], weight: T[C], residual_grad: T[*, C]?, eps: f32
    = 1e-6) -> x_grad: T[*, C], weight_grad: T[C]?

    Args:
        grad: T[*, C].
        x: T[*, C].
        weight: T[C].
        residual_grad: T[*, C], or None.
        eps: f32, by default 1e-6.
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[*, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.rms_norm_backward(
        ...     np.zeros((2, 4), np.float32),
        ...     np.zeros((2, 4), np.float32),
        ...     np.zeros((4,), np.float32),
        ... ).shape
        (2, 4)
    """

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
    r"""Rotary position embedding from tables of cosines and sines (ops/core/rope_tables.h makes
    them, with linear, NTK, YaRN and Llama 3.1 scaling). Rotates the first 2 R of D dimensions
    and copies the others; `inverse` turns the other way. `out` may alias `x`. ValueError for a
    position outside the tables.

    rope(x: T[B, S, H, D], cos: f32[P, R], sin: f32[P, R], positions: i32[B, S]?, interleaved:
    bool = false, inverse: bool = false) -> out: T[B, S, H, D]

    Args:
        x: T[B, S, H, D].
        cos: f32[P, R].
        sin: f32[P, R].
        positions: i32[B, S], or None.
        interleaved: bool, by default false.
        inverse: bool, by default false.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[B, S, H, D].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.rope(
        ...     np.zeros((1, 2, 3, 8), np.float32),
        ...     np.ones((16, 4), np.float32),
        ...     np.zeros((16, 4), np.float32),
        ... ).shape
        (1, 2, 3, 8)
    """

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
    r"""Draws one token per row, as Hugging Face's logits processors and warpers would before
    multinomial sampling; where scores tie at a limit of top-k or top-p, all of them stay.
    temperature 0 takes the largest logit, the first one of equals. The same seed, offset and
    row give the same token on every target. ValueError for settings outside their ranges and
    for history entries of V or more; negative entries are padding.

    sample(logits: f32[*, V], history: i32[*, L]?, temperature: f32 = 1, top_k: i64 = 0, top_p:
    f32 = 1, min_p: f32 = 0, repetition_penalty: f32 = 1, frequency_penalty: f32 = 0,
    presence_penalty: f32 = 0, seed: i64 = 0, offset: i64 = 0) -> out: i32[*]

    Args:
        logits: f32[*, V].
        history: i32[*, L], or None.
        temperature: f32, by default 1.
        top_k: i64, by default 0.
        top_p: f32, by default 1.
        min_p: f32, by default 0.
        repetition_penalty: f32, by default 1.
        frequency_penalty: f32, by default 0.
        presence_penalty: f32, by default 0.
        seed: i64, by default 0.
        offset: i64, by default 0.
        backend: which one runs it, by default the current one.

    Returns:
        out: i32[*].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.sample(np.zeros((2, 4), np.float32)).shape
        (2,)
    """

def scale(
    x: _Array,
    factor: float = 1.0,
    *,
    backend: str | None = None,
) -> _Array:
    r"""factor * x. `out` may alias `x`.

    scale(x: T[...], factor: f64 = 1) -> out: T[...]

    Args:
        x: T[...].
        factor: f64, by default 1.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.scale(np.zeros((3,), np.float32)).shape
        (3,)
    """

def scaled_grouped_gated_matmul(
    a: _Array,
    b: Any,
    a_scale: Any,
    b_scale: Any,
    offsets: Any | None = None,
    starts: Any | None = None,
    rows: Any | None = None,
    activation: Literal["silu", "gelu", "gelu_tanh"] = "silu",
    block_n: int = 128,
    block_k: int = 128,
    *,
    backend: str | None = None,
) -> _Array:
    r"""act(a gate) * (a up) for rows in groups, of e4m3 operands with scales as in
    scaled_grouped_matmul: b has the gate's rows before the up's. Sums and activation in
    float32. Rows of no group are 0. Given rows, row r is row rows[r] of a.

    scaled_grouped_gated_matmul(a: f8_e4m3fn[M, K], b: f8_e4m3fn[G, 2*N, K], a_scale: f32[M, A],
    b_scale: f32[G, B, A], offsets: i32[G]?, starts: i32[G]?, rows: i32[R]?, activation:
    silu|gelu|gelu_tanh = silu, block_n: i64 = 128, block_k: i64 = 128) -> out: bf16[R, N]

    Args:
        a: f8_e4m3fn[M, K].
        b: f8_e4m3fn[G, 2*N, K].
        a_scale: f32[M, A].
        b_scale: f32[G, B, A].
        offsets: i32[G], or None.
        starts: i32[G], or None.
        rows: i32[R], or None.
        activation: silu, gelu, gelu_tanh, by default silu.
        block_n: i64, by default 128.
        block_k: i64, by default 128.
        backend: which one runs it, by default the current one.

    Returns:
        out: bf16[R, N].

    Example:
        >>> import torch
        >>> from tilewright import ops
        >>> ops.scaled_grouped_gated_matmul(
        ...     torch.zeros(2, 128).to(torch.float8_e4m3fn),
        ...     torch.zeros(1, 8, 128).to(torch.float8_e4m3fn),
        ...     torch.ones(2, 1),
        ...     torch.ones(1, 1, 1),
        ... ).shape
        torch.Size([2, 4])
    """

def scaled_grouped_matmul(
    a: _Array,
    b: Any,
    a_scale: Any,
    b_scale: Any,
    offsets: Any | None = None,
    block_n: int = 128,
    block_k: int = 128,
    starts: Any | None = None,
    rows: Any | None = None,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Rows in groups, each times its group's matrix, of 8-bit operands: a with a scale for each
    row and block_k values of k, b with one for each block_n by block_k block. Sums are float32.
    Group g ends before row offsets[g] and begins at starts[g], or where the group before ends;
    without offsets there is at most one group, of all rows. Rows of no group are 0. Given rows,
    row r is row rows[r] of a.

    scaled_grouped_matmul(a: Q[M, K], b: Q[G, N, K], a_scale: f32[M, A], b_scale: f32[G, B, A],
    offsets: i32[G]?, block_n: i64 = 128, block_k: i64 = 128, starts: i32[G]?, rows: i32[R]?) ->
    out: f32[R, N]

    Args:
        a: Q[M, K].
        b: Q[G, N, K].
        a_scale: f32[M, A].
        b_scale: f32[G, B, A].
        offsets: i32[G], or None.
        block_n: i64, by default 128.
        block_k: i64, by default 128.
        starts: i32[G], or None.
        rows: i32[R], or None.
        backend: which one runs it, by default the current one.

    Returns:
        out: f32[R, N].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.scaled_grouped_matmul(
        ...     np.zeros((2, 128), np.int8),
        ...     np.zeros((1, 4, 128), np.int8),
        ...     np.ones((2, 1), np.float32),
        ...     np.ones((1, 1, 1), np.float32),
        ... ).shape
        (2, 4)
    """

def scaled_grouped_matmul_unpermute(
    a: _Array,
    b: Any,
    a_scale: Any,
    b_scale: Any,
    offsets: Any | None = None,
    starts: Any | None = None,
    to_rows: Any | None = None,
    weights: Any | None = None,
    out_rows: int = -1,
    block_n: int = 128,
    block_k: int = 128,
    *,
    backend: str | None = None,
) -> _Array:
    r"""scaled_grouped_matmul of e4m3 operands in bf16, whose row r becomes row to_rows[r] of out,
    or nothing where that is outside out: each row of out must be that of one. Rows of out are
    multiplied by their weights, but for those of no group, which are 0.

    scaled_grouped_matmul_unpermute(a: f8_e4m3fn[M, K], b: f8_e4m3fn[G, N, K], a_scale: f32[M,
    A], b_scale: f32[G, B, A], offsets: i32[G]?, starts: i32[G]?, to_rows: i32[M]?, weights:
    f32[R]?, out_rows: i64 = -1, block_n: i64 = 128, block_k: i64 = 128) -> out: bf16[R, N]

    Args:
        a: f8_e4m3fn[M, K].
        b: f8_e4m3fn[G, N, K].
        a_scale: f32[M, A].
        b_scale: f32[G, B, A].
        offsets: i32[G], or None.
        starts: i32[G], or None.
        to_rows: i32[M], or None.
        weights: f32[R], or None.
        out_rows: i64, by default -1.
        block_n: i64, by default 128.
        block_k: i64, by default 128.
        backend: which one runs it, by default the current one.

    Returns:
        out: bf16[R, N].

    Example:
        >>> import torch
        >>> from tilewright import ops
        >>> ops.scaled_grouped_matmul_unpermute(
        ...     torch.zeros(2, 128).to(torch.float8_e4m3fn),
        ...     torch.zeros(1, 4, 128).to(torch.float8_e4m3fn),
        ...     torch.ones(2, 1),
        ...     torch.ones(1, 1, 1),
        ... ).shape
        torch.Size([2, 4])
    """

def scan(
    x: _Array,
    function: Literal["sum", "prod"] = "sum",
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The sums, or the products, of the elements up to each along one dimension. `out` may alias
    `x`.

    scan(x: T[*, C], function: sum|prod = sum, dim: i64 = -1) -> out: T[*, C]

    Args:
        x: T[*, C].
        function: sum, prod, by default sum.
        dim: i64, by default -1.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.scan(np.zeros((2, 4), np.float32)).shape
        (2, 4)
    """

def scan_backward(
    grad: _Array,
    x: Any,
    function: Literal["sum", "prod"] = "sum",
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of scan. Of sums x is not used.

    scan_backward(grad: T[*, C], x: T[*, C], function: sum|prod = sum, dim: i64 = -1) -> x_grad:
    T[*, C]

    Args:
        grad: T[*, C].
        x: T[*, C].
        function: sum, prod, by default sum.
        dim: i64, by default -1.
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[*, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.scan_backward(
        ...     np.zeros((2, 4), np.float32),
        ...     np.zeros((2, 4), np.float32),
        ... ).shape
        (2, 4)
    """

def segment_mean(
    x: _Array,
    starts: Any,
    ends: Any,
    *,
    backend: str | None = None,
) -> _Array:
    r"""Means of the rows starts[n] .. ends[n] of each matrix; 0 where there are none. ValueError
    for rows that x does not have.

    segment_mean(x: T[B, L, C], starts: I[N], ends: I[N]) -> out: T[B, N, C]

    Args:
        x: T[B, L, C].
        starts: I[N].
        ends: I[N].
        backend: which one runs it, by default the current one.

    Returns:
        out: T[B, N, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.segment_mean(
        ...     np.zeros((4, 4, 4), np.float32),
        ...     np.zeros((4,), np.int32),
        ...     np.zeros((4,), np.int32),
        ... ).shape
        (4, 4, 4)
    """

def segment_mean_backward(
    grad: _Array,
    x: Any,
    starts: Any,
    ends: Any,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of segment_mean. Of x only the shape is used.

    segment_mean_backward(grad: T[B, N, C], x: T[B, L, C], starts: I[N], ends: I[N]) -> x_grad:
    T[B, L, C]

    Args:
        grad: T[B, N, C].
        x: T[B, L, C].
        starts: I[N].
        ends: I[N].
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[B, L, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.segment_mean_backward(
        ...     np.zeros((4, 4, 4), np.float32),
        ...     np.zeros((4, 4, 4), np.float32),
        ...     np.zeros((4,), np.int32),
        ...     np.zeros((4,), np.int32),
        ... ).shape
        (4, 4, 4)
    """

def sigmoid(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The logistic function 1 / (1 + e^-x), elementwise, within 2.77 units in the last place of
    float32. `out` may alias `x`.

    sigmoid(x: T[...]) -> out: T[...]

    Args:
        x: T[...].
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.sigmoid(np.zeros((3,), np.float32)).shape
        (3,)
    """

def sigmoid_backward(
    grad: _Array,
    output: Any,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of sigmoid, from its output. `x_grad` may alias an argument.

    sigmoid_backward(grad: T[...], output: T[...]) -> x_grad: T[...]

    Args:
        grad: T[...].
        output: T[...].
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.sigmoid_backward(
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ... ).shape
        (3,)
    """

def silu(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    r"""x times the logistic function of x. Elfwing et al., arXiv:1702.03118. `out` may alias `x`.

    silu(x: T[...]) -> out: T[...]

    Args:
        x: T[...].
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.silu(np.zeros((3,), np.float32)).shape
        (3,)
    """

def silu_and_mul(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    r"""silu(first half of the row) * second half: SwiGLU without its matrix products. `out` may be
    the first half of `x`.

    silu_and_mul(x: T[*, 2*H]) -> out: T[*, H]

    Args:
        x: T[*, 2*H].
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*, H].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.silu_and_mul(np.zeros((2, 4), np.float32)).shape
        (2, 2)
    """

def silu_and_mul_backward(
    grad: _Array,
    x: Any,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of silu_and_mul. `x_grad` may alias `x`.

    silu_and_mul_backward(grad: T[*, H], x: T[*, 2*H]) -> x_grad: T[*, 2*H]

    Args:
        grad: T[*, H].
        x: T[*, 2*H].
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[*, 2*H].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.silu_and_mul_backward(
        ...     np.zeros((2, 4), np.float32),
        ...     np.zeros((2, 8), np.float32),
        ... ).shape
        (2, 8)
    """

def silu_backward(
    grad: _Array,
    x: Any,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of silu, from its input. `x_grad` may alias an argument.

    silu_backward(grad: T[...], x: T[...]) -> x_grad: T[...]

    Args:
        grad: T[...].
        x: T[...].
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.silu_backward(
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ... ).shape
        (3,)
    """

def sinkhorn(
    x: _Array,
    iterations: int = 20,
    eps: float = 0.0,
    *,
    backend: str | None = None,
) -> _Array:
    r"""exp(x), its rows and columns divided by their sums in turn, so many times each: nearly a
    doubly stochastic matrix. eps is added to the sums.

    sinkhorn(x: T[B, M, N], iterations: i64 = 20, eps: f32 = 0) -> out: T[B, M, N]

    Args:
        x: T[B, M, N].
        iterations: i64, by default 20.
        eps: f32, by default 0.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[B, M, N].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.sinkhorn(np.zeros((4, 4, 4), np.float32)).shape
        (4, 4, 4)
    """

def softmax(
    x: _Array,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    r"""exp(x) / sum(exp(x)) along one dimension. A row of -inf alone, and a row with +inf or NaN,
    gives NaN throughout. `out` may alias `x`.

    softmax(x: T[*, C], dim: i64 = -1) -> out: T[*, C]

    Args:
        x: T[*, C].
        dim: i64, by default -1.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.softmax(np.zeros((2, 4), np.float32)).shape
        (2, 4)
    """

def softmax_backward(
    grad: _Array,
    output: Any,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of softmax, from its output: output * (grad - sum(grad * output)). `x_grad` may
    alias an argument.

    softmax_backward(grad: T[*, C], output: T[*, C], dim: i64 = -1) -> x_grad: T[*, C]

    Args:
        grad: T[*, C].
        output: T[*, C].
        dim: i64, by default -1.
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[*, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.softmax_backward(
        ...     np.zeros((2, 4), np.float32),
        ...     np.zeros((2, 4), np.float32),
        ... ).shape
        (2, 4)
    """

def sum(
    x: _Array,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The sum along one dimension, accumulated in float32.

    sum(x: T[*, C], dim: i64 = -1) -> out: T[*]

    Args:
        x: T[*, C].
        dim: i64, by default -1.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[*].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.sum(np.zeros((2, 4), np.float32)).shape
        (2,)
    """

def sum_backward(
    grad: _Array,
    x: Any,
    dim: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of sum: grad for each element of x, of which only the shape is used.

    sum_backward(grad: T[*], x: T[*, C], dim: i64 = -1) -> x_grad: T[*, C]

    Args:
        grad: T[*].
        x: T[*, C].
        dim: i64, by default -1.
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[*, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.sum_backward(
        ...     np.zeros((2,), np.float32),
        ...     np.zeros((2, 4), np.float32),
        ... ).shape
        (2, 4)
    """

def swiglu(
    gate: _Array,
    up: Any,
    *,
    backend: str | None = None,
) -> _Array:
    r"""silu(gate) * up in one pass. `out` may alias an argument.

    swiglu(gate: T[...], up: T[...]) -> out: T[...]

    Args:
        gate: T[...].
        up: T[...].
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.swiglu(
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ... ).shape
        (3,)
    """

def swiglu_backward(
    grad: _Array,
    gate: Any,
    up: Any,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array]:
    r"""The gradients of swiglu. `gate_grad` may alias `gate`, `up_grad` may alias `up`.

    swiglu_backward(grad: T[...], gate: T[...], up: T[...]) -> gate_grad: T[...], up_grad:
    T[...]

    Args:
        grad: T[...].
        gate: T[...].
        up: T[...].
        backend: which one runs it, by default the current one.

    Returns:
        gate_grad: T[...]; up_grad: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.swiglu_backward(
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ... )[0].shape
        (3,)
    """

def tanh(
    x: _Array,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The hyperbolic tangent, elementwise, within 1.33 units in the last place of float32. `out`
    may alias `x`.

    tanh(x: T[...]) -> out: T[...]

    Args:
        x: T[...].
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.tanh(np.zeros((3,), np.float32)).shape
        (3,)
    """

def tanh_backward(
    grad: _Array,
    output: Any,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of tanh, from its output. `x_grad` may alias an argument.

    tanh_backward(grad: T[...], output: T[...]) -> x_grad: T[...]

    Args:
        grad: T[...].
        output: T[...].
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.tanh_backward(
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ... ).shape
        (3,)
    """

def topk(
    x: _Array,
    k: int,
    starts: Any | None = None,
    ends: Any | None = None,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array]:
    r"""The k largest of each row, the largest first, and their columns; of equals the first, NaN
    before all. With starts or ends, of the columns from one to the other alone. Where there are
    fewer than k, also of k > C, -inf and -1 follow.

    topk(x: T[*, C], k: i64, starts: i32[*]?, ends: i32[*]?) -> values: T[*, k], indices: i32[*,
    k]

    Args:
        x: T[*, C].
        k: i64.
        starts: i32[*], or None.
        ends: i32[*], or None.
        backend: which one runs it, by default the current one.

    Returns:
        values: T[*, k]; indices: i32[*, k].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.topk(
        ...     np.zeros((2, 4), np.float32),
        ...     2,
        ... )[0].shape
        (2, 2)
    """

def topk_backward(
    grad: _Array,
    indices: Any,
    x: Any,
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of topk's values: each where indices say, 0 elsewhere; -1 is nowhere. The
    indices of a row differ. Of x only the shape is used. ValueError for an index that x lacks.

    topk_backward(grad: T[*, K], indices: i32[*, K], x: T[*, C]) -> x_grad: T[*, C]

    Args:
        grad: T[*, K].
        indices: i32[*, K].
        x: T[*, C].
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[*, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.topk_backward(
        ...     np.zeros((2, 4), np.float32),
        ...     np.zeros((2, 4), np.int32),
        ...     np.zeros((2, 4), np.float32),
        ... ).shape
        (2, 4)
    """

def transpose(
    x: _Array,
    dim0: int = -2,
    dim1: int = -1,
    *,
    backend: str | None = None,
) -> _Array:
    r"""A new tensor with dimensions dim0 and dim1 of x exchanged. `out` may not overlap `x`.

    transpose(x: T[...], dim0: i64 = -2, dim1: i64 = -1) -> out: T[...]

    Args:
        x: T[...].
        dim0: i64, by default -2.
        dim1: i64, by default -1.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.transpose(np.zeros((2, 3), np.float32)).shape
        (3, 2)
    """

def type_as(
    x: _Array,
    other: Any,
    *,
    backend: str | None = None,
) -> _Array:
    r"""x in the floating type of other, rounded to the nearest (ties to even); what exceeds its
    range becomes infinite, NaN stays NaN.

    type_as(x: T[...], other: U[N]) -> out: U[...]

    Args:
        x: T[...].
        other: U[N].
        backend: which one runs it, by default the current one.

    Returns:
        out: U[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.type_as(
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float16),
        ... ).shape
        (3,)
    """

def unary(
    x: _Array,
    function: Literal["abs", "neg", "sign", "reciprocal", "sqrt", "rsqrt", "floor", "ceil", "trunc", "round", "sin", "cos", "expm1", "log1p"],
    *,
    backend: str | None = None,
) -> _Array:
    r"""A function of one number, elementwise; rounding is ties to even. `out` may alias `x`.

    unary(x: T[...], function:
    abs|neg|sign|reciprocal|sqrt|rsqrt|floor|ceil|trunc|round|sin|cos|expm1|log1p) -> out:
    T[...]

    Args:
        x: T[...].
        function: abs, neg, sign, reciprocal, sqrt, rsqrt, floor, ceil, trunc, round, sin, cos, expm1, log1p.
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.unary(
        ...     np.zeros((3,), np.float32),
        ...     "abs",
        ... ).shape
        (3,)
    """

def unary_backward(
    grad: _Array,
    x: Any,
    function: Literal["abs", "neg", "sign", "reciprocal", "sqrt", "rsqrt", "floor", "ceil", "trunc", "round", "sin", "cos", "expm1", "log1p"],
    *,
    backend: str | None = None,
) -> _Array:
    r"""The gradient of unary; 0 for what goes in steps. `x_grad` may alias an argument.

    unary_backward(grad: T[...], x: T[...], function:
    abs|neg|sign|reciprocal|sqrt|rsqrt|floor|ceil|trunc|round|sin|cos|expm1|log1p) -> x_grad:
    T[...]

    Args:
        grad: T[...].
        x: T[...].
        function: abs, neg, sign, reciprocal, sqrt, rsqrt, floor, ceil, trunc, round, sin, cos, expm1, log1p.
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.unary_backward(
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ...     "abs",
        ... ).shape
        (3,)
    """

def var_mean(
    x: _Array,
    dim: int = -1,
    correction: float = 1.0,
    root: bool = False,
    *,
    backend: str | None = None,
) -> tuple[_Array, _Array]:
    r"""The variance along one dimension, of C - correction degrees of freedom, and the mean; its
    root, the standard deviation, if asked for.

    var_mean(x: T[*, C], dim: i64 = -1, correction: f32 = 1, root: bool = false) -> var: T[*],
    mean: T[*]

    Args:
        x: T[*, C].
        dim: i64, by default -1.
        correction: f32, by default 1.
        root: bool, by default false.
        backend: which one runs it, by default the current one.

    Returns:
        var: T[*]; mean: T[*].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.var_mean(np.zeros((2, 4), np.float32))[0].shape
        (2,)
    """

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
    r"""The gradient of var_mean, from those of its results that have one. `x_grad` may alias `x`.

    var_mean_backward(x: T[*, C], var_grad: T[*]?, mean_grad: T[*]?, dim: i64 = -1, correction:
    f32 = 1, root: bool = false) -> x_grad: T[*, C]

    Args:
        x: T[*, C].
        var_grad: T[*], or None.
        mean_grad: T[*], or None.
        dim: i64, by default -1.
        correction: f32, by default 1.
        root: bool, by default false.
        backend: which one runs it, by default the current one.

    Returns:
        x_grad: T[*, C].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.var_mean_backward(np.zeros((2, 4), np.float32)).shape
        (2, 4)
    """

def where(
    condition: _Array,
    x: Any,
    other: Any,
    *,
    backend: str | None = None,
) -> _Array:
    r"""x where the condition holds, else other, with NumPy broadcasting. `out` may alias an input
    of its own shape.

    where(condition: bool[...], x: T[...], other: T[...]) -> out: T[...]

    Args:
        condition: bool[...].
        x: T[...].
        other: T[...].
        backend: which one runs it, by default the current one.

    Returns:
        out: T[...].

    Example:
        >>> import numpy as np
        >>> from tilewright import ops
        >>> ops.where(
        ...     np.zeros((3,), np.bool),
        ...     np.zeros((3,), np.float32),
        ...     np.zeros((3,), np.float32),
        ... ).shape
        (3,)
    """
