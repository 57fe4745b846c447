"""TileOPs' Engram: a memory's values, gated by how well its keys fit, and convolved over time."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tilewright import _functions, ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._tensors import constant, tensor
from tilewright.compat._tileops_elementwise import mul, sub

_rms_norm_backward = _functions.full("rms_norm_backward")


def _inverse_rms(x: torch.Tensor, eps: float) -> torch.Tensor:
    """1 / sqrt(mean of squares + eps) of each row, [...]."""
    squares = tensor(ops.mean(mul(x.float(), x.float()), -1))
    return tensor(ops.unary(tensor(ops.add(squares, constant(squares, eps))), "rsqrt"))


def _normed(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return tensor(ops.rms_norm(x.float(), weight.float(), eps))


def _gate(
    h: torch.Tensor, k: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gate of each row, and both norms."""
    h_norm, k_norm = _normed(h, weight, eps), _normed(k, weight, eps)
    dot = tensor(ops.sum(mul(h_norm, k_norm), -1))
    return tensor(ops.sigmoid(mul(dot, constant(dot, h.shape[-1] ** -0.5)))), h_norm, k_norm


def _shifted(x: torch.Tensor, taps: int) -> list[torch.Tensor]:
    """What each tap meets of x [M, T, d]: tap j step t - (taps - 1) + j, zero before the first."""
    padded = F.pad(x, (0, 0, taps - 1, 0))
    return [padded[:, j : j + x.shape[1]] for j in range(taps)]


def _convolved(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """X [M, T, d], each step with those before it by the taps of weight [K, d]."""
    first, *rest = (
        mul(met, tap.float()) for met, tap in zip(_shifted(x, len(weight)), weight, strict=True)
    )
    for product in rest:
        first = tensor(ops.add(first, product))
    return first


@uses("rms_norm", "mul", "sum", "sigmoid", "mean", "add", "unary", "silu")
def engram_gate_conv(
    H: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    rms_w_h: torch.Tensor,
    rms_w_v: torch.Tensor,
    conv_w: torch.Tensor,
    *,
    M: int,
    seq_len: int,
    d: int,
    eps: float = 1e-06,
) -> tuple[torch.Tensor, ...]:
    """Y [M, T, d], and what its backward wants."""
    alpha, _, _ = _gate(H, k, rms_w_h, eps)
    gated = mul(v.float(), alpha[..., None])
    vhat = gated.to(H.dtype)
    mixed = _convolved(_normed(vhat, rms_w_v, eps), conv_w)
    y = tensor(ops.add(tensor(ops.silu(mixed)), gated)).to(H.dtype)
    return y, vhat, alpha, *(_inverse_rms(x, eps) for x in (H, k, vhat))


def _norm_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    made: tuple[torch.Tensor, torch.Tensor] = _rms_norm_backward(
        grad, x.float(), weight.float(), None, eps
    )
    return made


@uses("rms_norm", "rms_norm_backward", "silu_backward", "mul", "sum", "sigmoid", "add", "binary")
def engram_gate_conv_bwd(
    dY: torch.Tensor,
    H: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    rms_w_h: torch.Tensor,
    rms_w_v: torch.Tensor,
    conv_w: torch.Tensor,
    vhat: torch.Tensor,
    alpha: torch.Tensor,
    rrms_h: torch.Tensor,
    rrms_k: torch.Tensor,
    rrms_v: torch.Tensor,
    *,
    M: int,
    seq_len: int,
    d: int,
    eps: float = 1e-06,
) -> tuple[torch.Tensor, ...]:
    """The gradients of H, k, v, both weights and the taps."""
    _, h_norm, k_norm = _gate(H, k, rms_w_h, eps)
    v_norm, grad = _normed(vhat, rms_w_v, eps), dY.float()
    mixed = tensor(ops.silu_backward(grad, _convolved(v_norm, conv_w)))
    by_tap = [mul(mixed, met).flatten(0, 1) for met in _shifted(v_norm, len(conv_w))]
    d_conv = torch.stack([tensor(ops.sum(x, 0)) for x in by_tap])
    d_norm = _convolved(mixed.flip(1), conv_w).flip(1)
    d_vhat, d_weight_v = _norm_backward(d_norm, vhat, rms_w_v, eps)
    d_vhat = tensor(ops.add(d_vhat, grad))
    slope = mul(alpha, sub(constant(alpha, 1.0), alpha))
    d_dot = mul(tensor(ops.sum(mul(d_vhat, v.float()), -1)), mul(slope, constant(slope, d**-0.5)))
    d_h, by_h = _norm_backward(mul(k_norm, d_dot[..., None]), H, rms_w_h, eps)
    d_k, by_k = _norm_backward(mul(h_norm, d_dot[..., None]), k, rms_w_h, eps)
    d_v = mul(d_vhat, alpha[..., None])
    d_weight_h = tensor(ops.add(by_h, by_k))
    return *(x.to(dY.dtype) for x in (d_h, d_k, d_v)), d_weight_h, d_weight_v, d_conv


@uses("matmul", "rms_norm", "mul", "sum", "sigmoid", "add", "silu")
def engram_decode(
    e_t: torch.Tensor,
    h_t: torch.Tensor,
    conv_state: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    rms_w_h: torch.Tensor,
    rms_w_v: torch.Tensor,
    conv_w: torch.Tensor,
    *,
    batch: int,
    d_mem: int,
    d: int,
    max_conv_len: int,
    conv_kernel_size: int,
    dilation: int,
    eps: float = 1e-06,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One step: y [B, d], and the last max_conv_len normed values, this one included."""
    memory = e_t.float()[None]
    k, v = (tensor(ops.matmul(memory, weight.float()[None]))[0] for weight in (W_K, W_V))
    alpha, _, _ = _gate(h_t, k.to(h_t.dtype), rms_w_h, eps)
    gated = mul(v, alpha[..., None])
    normed = _normed(gated.to(h_t.dtype), rms_w_v, eps)
    past = F.pad(conv_state, (0, 0, max_conv_len - conv_state.shape[1], 0))
    mixed = mul(normed, conv_w[-1].float())
    for j in range(conv_w.shape[0] - 1):
        at = max_conv_len - (conv_w.shape[0] - 1 - j) * dilation
        if at >= 0:
            mixed = tensor(ops.add(mixed, mul(past[:, at].float(), conv_w[j].float())))
    y = tensor(ops.add(tensor(ops.silu(mixed)), gated)).to(h_t.dtype)
    return y, torch.cat([past[:, 1:], normed[:, None].to(past.dtype)], 1)


__all__ = list(provided(vars()))
