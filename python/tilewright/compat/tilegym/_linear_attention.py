"""TileGym's gated delta rule and Mamba-2: tensors are [B, T, H, D], states float32."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import ops
from tilewright.compat import tileops
from tilewright.compat._linear_attention import attend, gates, normalized
from tilewright.compat._tensors import tensor
from tilewright.compat.tilegym._backends import uses


@uses("linear_attention", "rms_norm")
def recurrent_gated_delta_rule(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    **tuning: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The gated delta rule, queries divided by sqrt(D); the last state, if wanted."""
    if use_qk_l2norm_in_kernel:
        query, key = normalized(query), normalized(key)
    gate = gates(g, query, value.shape[2])
    out, last = attend(query, key, value, gate, beta, initial_state)
    return out, last if output_final_state else None


@uses("linear_attention", "rms_norm")
def chunk_gated_delta_rule(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    chunk_size: int = 64,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    **tuning: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """As recurrent_gated_delta_rule: the chunks change nothing."""
    return recurrent_gated_delta_rule(
        query,
        key,
        value,
        g,
        beta,
        initial_state,
        output_final_state,
        use_qk_l2norm_in_kernel,
        **tuning,
    )


@uses("linear_attention", "mul", "add")
def mamba2_chunk_forward(
    x: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor,
    dt: torch.Tensor,
    init_state: torch.Tensor,
    chunk_size: int = 64,
    **_tuning: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mamba-2 of x [B, T, H, P] with d x added, and its last state [B, H, P, N].

    B and c are [B, T, G, N], the step sizes dt [B, T, H].
    """
    if chunk_size < 1 or x.shape[1] % chunk_size:
        raise ValueError(f"mamba2: the length {x.shape[1]} is no multiple of {chunk_size}")
    y, last = tileops.mamba2(
        x, dt, a, b, c, None, init_state, chunk_size=chunk_size, dt_softplus=False
    )
    skipped = ops.mul(x.float(), d.float()[:, None])
    return tensor(ops.add(y, skipped)).to(x.dtype), last


@uses("linear_attention_backward", "mul", "sum")
def mamba2_chunk_backward(
    x: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor,
    dt: torch.Tensor,
    init_state: torch.Tensor,
    dout: torch.Tensor,
    dfinal_state: torch.Tensor,
    chunk_size: int = 64,
    state_dtype: torch.dtype = torch.float32,
    **_tuning: Any,
) -> tuple[torch.Tensor, ...]:
    """The gradients of mamba2_chunk_forward's tensors, in their order."""
    with torch.enable_grad():
        given = [t.detach().requires_grad_() for t in (x, a, b, c, d, dt, init_state)]
        x, a, b, c, d, dt, init_state = given
        made = mamba2_chunk_forward(x, a, b, c, d, dt, init_state, chunk_size)
        return torch.autograd.grad(made, given, (dout, dfinal_state))
