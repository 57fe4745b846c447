"""TileOPs' linear attention: the delta rule, with gates and without, and gated linear attention."""

from __future__ import annotations

import torch

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._linear_attention import attend, attend_by_chunks, gates, gradients
from tilewright.compat._tensors import tensor


def _turned(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """[B, H, T, ...] to [B, T, H, ...], and back."""
    return tuple(x.transpose(1, 2) for x in given)


def _check_chunks(name: str, length: int, chunk_size: int) -> None:
    if length % chunk_size:
        raise ValueError(
            f"{name}: the length {length} must be a multiple of chunk_size = {chunk_size}"
        )


def _scale(scale: float | None) -> float:
    """As the operator has it: 0 stands for 1 / sqrt(D)."""
    return max(scale or 0.0, 0.0)


@uses("linear_attention", "delta_rule_transform", "mul", "matmul")
def delta_net(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    beta: torch.Tensor,
    *,
    chunk_size: int = 64,
) -> tuple[torch.Tensor, ...]:
    """The delta rule of [B, H, T, D], and what its backward wants."""
    _check_chunks("delta_net", q.shape[2], chunk_size)
    q_t, k_t, v_t, beta_t = _turned(q, k, v, beta)
    gate = gates(None, q_t, v.shape[1])
    out, states = attend_by_chunks(q_t, k_t, v_t, gate, beta_t, chunk_size)
    inverse = tensor(ops.delta_rule_transform(k_t, beta_t.float(), None, chunk_size))
    inverse = inverse.transpose(1, 2).contiguous()
    w, u = (_by_chunks(inverse, x, beta, chunk_size) for x in (k, v))
    a = inverse.to(q.dtype)
    return out.transpose(1, 2).contiguous(), states, a, a.clone(), w, u


def _by_chunks(
    inverse: torch.Tensor, x: torch.Tensor, beta: torch.Tensor, chunk_size: int
) -> torch.Tensor:
    """The transform times beta x, in each chunk of x [B, H, T, D]."""
    weighed = tensor(ops.mul(x.float(), beta.float()[..., None]))
    blocks = weighed.reshape(-1, chunk_size, x.shape[-1])
    matrices = inverse.view(-1, chunk_size, chunk_size)
    return tensor(ops.matmul(matrices, blocks)).view(x.shape).to(x.dtype)


@uses("linear_attention_backward")
def delta_net_bwd(
    do: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    beta: torch.Tensor,
    S: torch.Tensor,
    Aw: torch.Tensor,
    Au: torch.Tensor,
    w: torch.Tensor,
    u: torch.Tensor,
    *,
    chunk_size: int = 64,
) -> tuple[torch.Tensor, ...]:
    """The gradients of q, k, v and beta."""
    grad, q, k, v, beta = _turned(do, q, k, v, beta)
    made = gradients(grad, q, k, v, gates(None, q, v.shape[2]), beta, S[:, :, 0], None, 1.0)
    wanted = (*made[:3], made[4])
    return tuple(x.to(do.dtype).contiguous() for x in _turned(*wanted))


def _gated(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    chunk_size: int,
    name: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    _check_chunks(name, q.shape[1], chunk_size)
    out, states = attend_by_chunks(q, k, v, gates(g, q, v.shape[2]), beta, chunk_size)
    inverse = tensor(ops.delta_rule_transform(k, beta.float(), g.float(), chunk_size))
    return out, states.to(q.dtype), inverse.to(q.dtype)


@uses("linear_attention", "delta_rule_transform")
def gated_delta_net_bhtd(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    *,
    chunk_size: int = 64,
) -> tuple[torch.Tensor, ...]:
    """The gated delta rule of [B, H, T, D], and what its backward wants."""
    q, k, v, g, beta = _turned(q, k, v, g, beta)
    out, states, inverse = _gated(q, k, v, g, beta, chunk_size, "gated_delta_net_bhtd")
    a = inverse.transpose(1, 2).contiguous()
    return out.transpose(1, 2).contiguous(), states, a, a.clone()


@uses("linear_attention", "delta_rule_transform")
def gated_delta_net_bthd(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    *,
    chunk_size: int = 64,
) -> tuple[torch.Tensor, ...]:
    """The gated delta rule of [B, T, H, D], and what its backward wants."""
    out, states, inverse = _gated(q, k, v, g, beta, chunk_size, "gated_delta_net_bthd")
    return out, states, inverse, inverse.clone()


@uses("linear_attention_backward", "sum")
def gated_delta_net_bwd(
    do: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    S: torch.Tensor,
    *,
    chunk_size: int = 64,
) -> tuple[torch.Tensor, ...]:
    """The gradients of q, k, v, g and beta."""
    grad, q, k, v, g, beta = _turned(do, q, k, v, g, beta)
    gate = gates(g, q, v.shape[2])
    dq, dk, dv, by_dim, dbeta = gradients(grad, q, k, v, gate, beta, S[:, :, 0], None, 1.0)
    made = _turned(dq, dk, dv, tensor(ops.sum(by_dim, -1)), dbeta)
    return tuple(x.to(do.dtype).contiguous() for x in made)


@uses("linear_attention")
def gated_delta_net_prefill_bthd(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    *,
    chunk_size: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gated delta rule of [B, T, H, D], and its last state."""
    out, last = attend(q, k, v, gates(g, q, v.shape[2]), beta, scale=1.0)
    return out, last.to(q.dtype)


@uses("linear_attention")
def gated_delta_net_prefill_bhtd(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    *,
    chunk_size: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gated delta rule of [B, H, T, D], and its last state."""
    q, k, v, g, beta = _turned(q, k, v, g, beta)
    out, last = gated_delta_net_prefill_bthd(q, k, v, g, beta, chunk_size=chunk_size)
    return out.transpose(1, 2).contiguous(), last


@uses("linear_attention")
def gated_delta_net_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor | None,
    beta: torch.Tensor,
    state: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One step of the gated delta rule of [B, H, D], and the state after it."""
    q, k, v = q[:, None], k[:, None], v[:, None]
    gate = gates(None if g is None else g[:, None], q, v.shape[2])
    out, last = attend(q, k, v, gate, beta[:, None], state, scale=1.0)
    return out[:, 0], last.to(state.dtype)


@uses("linear_attention")
def delta_net_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One step of the delta rule of [B, H, D], and the state after it."""
    return gated_delta_net_decode(q, k, v, None, beta, state)


@uses("linear_attention")
def gla(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    initial_state: torch.Tensor | None = None,
    *,
    chunk_size: int = 64,
    scale: float = -1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gated linear attention of [B, T, H, D], and its last state in float32."""
    return attend(q, k, v, g, None, initial_state, scale=_scale(scale))


@uses("linear_attention_backward")
def gla_bwd(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    h: torch.Tensor,
    do: torch.Tensor,
    dht: torch.Tensor | None,
    *,
    chunk_size: int = 64,
    scale: float = -1.0,
    has_initial_state: bool = False,
) -> tuple[torch.Tensor, ...]:
    """The gradients of q, k, v and g in float32; h [B, chunks + 1, H, D, Dv] are the states."""
    do, q, k, v = (x.float() for x in (do, q, k, v))
    return gradients(do, q, k, v, g, None, h[:, 0], dht, _scale(scale))[:4]


@uses("linear_attention")
def gla_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gk: torch.Tensor,
    state: torch.Tensor,
    *,
    scale: float = -1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One step of gated linear attention of [B, H, D], and the state after it."""
    q, k, v, gk = (x[:, None] for x in (q, k, v, gk))
    out, last = attend(q, k, v, gk, None, state, scale=_scale(scale))
    return out[:, 0], last.to(state.dtype)


__all__ = list(provided(vars()))
