"""As _tileops_unified, of recurrences and of models of sequences."""

from __future__ import annotations

import torch

from tilewright import _functions
from tilewright.compat import _tileops_engram as engram
from tilewright.compat import _tileops_fft as pools
from tilewright.compat import _tileops_hyper_connections as hyper_connections
from tilewright.compat import _tileops_state_space as state_space
from tilewright.compat._coverage import uses
from tilewright.compat._linear_attention import attend, gates
from tilewright.compat._tensors import Kind
from tilewright.compat._tileops_recurrences import States, delta_rule, within

Tensor = torch.Tensor

_attention = _functions.full("linear_attention")
_attention_backward = _functions.full("linear_attention_backward")


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
    validate_inputs: bool = False,
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
    validate_inputs: bool = False,
) -> States:
    """Gated linear attention of [B, S, H, D], and the last states."""
    wide = tuple(x.float() for x in (q, k, v, g))
    out, last = within(wide, initial_state, cu_seqlens, scale)
    return out.to(q.dtype), last


@uses("linear_attention")
def gla_chunk(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    initial_state: Tensor | None = None,
    *,
    chunk_size: int = 64,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gated linear attention, its last state, and those before each chunk and after the last."""
    given = (q, k, v, g.float(), None, initial_state, scale or 0.0, chunk_size)
    out, last, states = _attention(*given)
    return out, last, states.transpose(1, 2).contiguous()


@uses("linear_attention_backward")
def gla_chunk_bwd(
    do: Tensor,
    dfinal_state: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    h: Tensor,
    *,
    chunk_size: int = 64,
    scale: float | None = None,
    has_initial_state: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of q, k, v, g and, if there was one, the first state, in float32."""
    wide = (x.float() for x in (do, q, k, v, g))
    first = h[:, 0].contiguous() if has_initial_state else None
    made = _attention_backward(*wide, None, first, dfinal_state.float(), scale or 0.0)
    return *made[:4], made[5] if has_initial_state else None


@uses("matmul", "where")
def ssd_chunk_coupling(C: Tensor, B: Tensor, *, chunk_size: int) -> Tensor:
    """The products of a chunk's C and B, causal."""
    batch, length, groups, width = C.shape
    return state_space.cb_producer(
        C, B, batch=batch, num_chunks=length // chunk_size, n_groups=groups,
        chunk_len=chunk_size, d_state=width,
    )  # fmt: skip


@uses("rms_norm", "mul", "sum", "sigmoid", "mean", "add", "unary", "silu")
def engram_gate_conv(
    H: Tensor,
    k: Tensor,
    v: Tensor,
    rms_w_h: Tensor,
    rms_w_v: Tensor,
    conv_w: Tensor,
    *,
    eps: float = 1e-6,
) -> tuple[Tensor, ...]:
    """Y [M, T, d], and what its backward wants."""
    given, (rows, length, width) = (H, k, v, rms_w_h, rms_w_v, conv_w), H.shape
    return engram.engram_gate_conv(*given, M=rows, seq_len=length, d=width, eps=eps)


@uses("rms_norm", "rms_norm_backward", "silu_backward", "mul", "sum", "sigmoid", "add", "binary")
def engram_gate_conv_bwd(
    dY: Tensor,
    H: Tensor,
    k: Tensor,
    v: Tensor,
    rms_w_h: Tensor,
    rms_w_v: Tensor,
    conv_w: Tensor,
    vhat: Tensor,
    alpha: Tensor,
    rrms_h: Tensor,
    rrms_k: Tensor,
    rrms_v: Tensor,
    *,
    eps: float = 1e-6,
) -> tuple[Tensor, ...]:
    """The gradients of H, k, v, both weights and the taps."""
    given = (dY, H, k, v, rms_w_h, rms_w_v, conv_w, vhat, alpha, rrms_h, rrms_k, rrms_v)
    rows, length, width = H.shape
    return engram.engram_gate_conv_bwd(*given, M=rows, seq_len=length, d=width, eps=eps)


@uses("matmul", "rms_norm", "mul", "sum", "sigmoid", "add", "silu")
def engram_decode(
    e_t: Tensor,
    h_t: Tensor,
    conv_state: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    rms_w_h: Tensor,
    rms_w_v: Tensor,
    conv_w: Tensor,
    *,
    max_conv_len: int,
    conv_kernel_size: int,
    dilation: int,
    eps: float = 1e-6,
) -> tuple[Tensor, Tensor]:
    """One step: y [B, d], and the last max_conv_len normed values, this one included."""
    given = (e_t, h_t, conv_state, W_K, W_V, rms_w_h, rms_w_v, conv_w)
    return engram.engram_decode(
        *given, batch=len(h_t), d_mem=e_t.shape[1], d=h_t.shape[1], max_conv_len=max_conv_len,
        conv_kernel_size=conv_kernel_size, dilation=dilation, eps=eps,
    )  # fmt: skip


@uses("reduce", "matmul", "mul", "add", "sigmoid", "sinkhorn")
def mhc_pre(
    phi: Tensor,
    x: Tensor,
    b: Tensor,
    *,
    alpha_pre: float,
    alpha_post: float,
    alpha_res: float,
    sinkhorn_repeat: int,
    sinkhorn_eps: float = 0.02,
) -> tuple[Tensor, Tensor, Tensor]:
    """The residual streams, mixed, the layer's input, and each stream's weight for its output."""
    factors = (alpha_pre, alpha_post, alpha_res)
    return hyper_connections.mixed_streams(phi, x, b, factors, sinkhorn_repeat, sinkhorn_eps)


@uses("segment_mean")
def mean_pooling(
    x: Tensor,
    cu_seqlens: Tensor | None = None,
    chunk_indices: Tensor | None = None,
    *,
    chunk_size: int,
    accum_dtype: Kind,
    validate_inputs: bool = False,
) -> Tensor:
    """The means of chunks of x [B, T, H, D], or of sequences in it; sums are in float32."""
    if (cu_seqlens is None) != (chunk_indices is None):
        raise ValueError("MeanPoolingFwdOp: cu_seqlens and chunk_indices go together")
    batch, length, heads, dims = x.shape
    none = x.new_zeros(0, dtype=torch.int32)
    given = [none if t is None else t for t in (cu_seqlens, chunk_indices)]
    return pools.mean_pooling(
        x, *given, batch_size=batch, seq_len=length, heads=heads, dim=dims, chunk_size=chunk_size,
        chunks_per_batch=-(-length // chunk_size), seq_num=max(len(given[0]) - 1, 0),
        use_offsets=int(cu_seqlens is not None),
    )  # fmt: skip
