"""TileOPs' state-space models: the stages of Mamba-2 and the whole.

x is [B, S, H, P], B and C are [B, S, G, N] with H a multiple of G, and what chunks of Q steps have
is [B, H, chunks, Q].
"""

from __future__ import annotations

import math

import torch

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._linear_attention import attend, gates
from tilewright.compat._tensors import dtype_of, tensor, unflatten
from tilewright.compat._tileops_elementwise import exp, mul, sub, where


def _step_sizes(
    dt: torch.Tensor,
    bias: torch.Tensor | None,
    softplus: bool,
    low: float = 0.0,
    high: float = math.inf,
) -> torch.Tensor:
    """Dt [B, S, H] in float32, with its bias, softplus and bounds."""
    steps = dt.float()
    if bias is not None:
        steps = tensor(ops.add(steps, bias.float()))
    if softplus:
        steps = tensor(ops.activation(steps, "softplus", 1.0, 20.0))
    return tensor(ops.activation(steps, "clamp", low, high))


@uses("add", "activation", "mul", "scan")
def da_cumsum(
    dt: torch.Tensor,
    A: torch.Tensor,
    dt_bias: torch.Tensor | None = None,
    *,
    chunk_len: int,
    dtype: str | torch.dtype = "float32",
    dt_softplus: bool = False,
    dt_min: float = 0.0,
    dt_max: float = math.inf,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Step sizes by chunk, and the sums of dt A up to each step of a chunk."""
    steps = _step_sizes(dt, dt_bias, dt_softplus, dt_min, dt_max)
    chunks = unflatten(steps, 1, -1, chunk_len).permute(0, 3, 1, 2).contiguous()
    decay = mul(chunks, A.float().view(1, -1, 1, 1))
    return chunks.to(dtype_of(dtype)), tensor(ops.scan(decay, "sum", -1))


def _by_group(x: torch.Tensor, chunks: int) -> torch.Tensor:
    """[B, S, G, N] as [B, chunks, G, Q, N]."""
    return unflatten(x, 1, chunks, -1).transpose(2, 3)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Matrices times matrices, of equal leading dimensions."""
    lead = a.shape[:-2]
    out = tensor(ops.matmul(a.flatten(0, -3), b.flatten(0, -3)))
    return out.view(*lead, *out.shape[-2:])


def _causal(like: torch.Tensor) -> torch.Tensor:
    """Whether step s is not after step l, for like [..., l, s]."""
    return torch.ones(like.shape[-2:], dtype=torch.bool, device=like.device).tril()


@uses("matmul", "where")
def cb_producer(
    C_mat: torch.Tensor,
    B_mat: torch.Tensor,
    *,
    batch: int,
    num_chunks: int,
    n_groups: int,
    chunk_len: int,
    d_state: int,
) -> torch.Tensor:
    """C B^T of each chunk and group, without what lies after a step."""
    products = _product(_by_group(C_mat, num_chunks), _by_group(B_mat, num_chunks).mT)
    return where(_causal(products), products, products.new_zeros(()))


@uses("binary", "exp", "mul", "matmul")
def ssd_chunk_state(
    x: torch.Tensor,
    Bmat: torch.Tensor,
    dt: torch.Tensor,
    dA_cumsum: torch.Tensor,
    seq_idx: torch.Tensor | None = None,
) -> torch.Tensor:
    """What each chunk adds to the state: [B, chunks, H, P, N]; only steps of its last sequence."""
    groups, chunks = Bmat.shape[2], dt.shape[2]
    left = sub(dA_cumsum[..., -1:].float(), dA_cumsum.float())
    weights = mul(exp(tensor(ops.activation(left, "clamp", -math.inf, 0.0))), dt.float())
    if seq_idx is not None:
        place = unflatten(seq_idx, 1, chunks, -1)
        end = place[..., -1:]
        weights = mul(weights, ((place == end) & (end >= 0)).float()[:, None])
    by_head = unflatten(x.float(), 1, chunks, -1).permute(0, 1, 3, 4, 2)  # [B, chunks, H, P, Q]
    weighed = mul(by_head, weights.transpose(1, 2)[:, :, :, None])
    rows = unflatten(weighed, 2, groups, -1).flatten(3, 4)
    states = _product(rows, _by_group(Bmat.float(), chunks))
    return unflatten(states, 3, -1, x.shape[-1]).flatten(2, 3)


@uses("linear_attention")
def ssd_state_passing(
    states: torch.Tensor,
    dA_chunk_cumsum: torch.Tensor,
    initial_states: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The states [B, chunks, H, N] before each chunk, and after the last."""
    one = states.new_ones((1, 1, 1, 1), dtype=torch.float32).expand(*states.shape[:3], 1)
    first = states.new_zeros((states.shape[0], *states.shape[2:]), dtype=torch.float32)
    if initial_states is not None:
        first = initial_states.float()
    decay = dA_chunk_cumsum.transpose(1, 2)[..., None]
    after, last = attend(one, one, states.float(), decay, None, first[:, :, None], scale=1.0)
    return torch.cat([first[:, None], after], 1)[:, : states.shape[1]].contiguous(), last[:, :, 0]


@uses("binary", "exp", "mul", "matmul", "where", "add")
def ssd_chunk_scan(
    x: torch.Tensor,
    cb: torch.Tensor,
    dA_cumsum: torch.Tensor,
    C: torch.Tensor,
    prev_states: torch.Tensor,
    dt: torch.Tensor,
) -> torch.Tensor:
    """Y [B, S, H, P]: what the state before each chunk gives, and the steps of the chunk."""
    groups, chunks = C.shape[2], dt.shape[2]
    decay = dA_cumsum.float().transpose(1, 2)  # [B, chunks, H, Q]
    states = unflatten(prev_states.float(), 2, groups, -1).flatten(3, 4)
    past = _product(states, _by_group(C.float(), chunks).mT)  # [B, chunks, G, (H / G) P, Q]
    past = unflatten(past, 3, -1, x.shape[-1]).flatten(2, 3).mT
    between = sub(decay[..., None], decay[..., None, :])
    between = where(_causal(between), between, between.new_full((), -math.inf))
    shared = cb.float().repeat_interleave(x.shape[2] // groups, 2)
    weights = mul(mul(shared, exp(between)), dt.float().transpose(1, 2)[..., None, :])
    present = _product(weights, unflatten(x.float(), 1, chunks, -1).transpose(2, 3))
    out = tensor(ops.add(mul(past, exp(decay)[..., None]), present))
    return out.transpose(2, 3).flatten(1, 2).contiguous()


@uses("mul", "exp", "add", "matmul")
def ssd_decode(
    A: torch.Tensor,
    dt: torch.Tensor,
    x: torch.Tensor,
    B_in: torch.Tensor,
    C_in: torch.Tensor,
    state: torch.Tensor,
) -> torch.Tensor:
    """One step: y [B, H, P]; `state` [B, H, P, N] becomes the one after it."""
    share = x.shape[1] // B_in.shape[1]
    into, from_state = (y.float().repeat_interleave(share, 1) for y in (B_in, C_in))
    steps = dt.float()[..., None]
    kept = mul(exp(mul(steps, A.float())), state)
    state.copy_(tensor(ops.add(kept, mul(mul(steps, x.float()[..., None]), into[:, :, None]))))
    return _product(state, from_state[..., None])[..., 0]


@uses("linear_attention", "add", "activation", "mul")
def mamba2(
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    dt_bias: torch.Tensor | None = None,
    initial_states: torch.Tensor | None = None,
    *,
    chunk_size: int = 256,
    dt_softplus: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The recurrence over all steps: y, and the last state [B, H, P, N]."""
    steps = _step_sizes(dt, dt_bias, dt_softplus)
    values = mul(x.float(), steps[..., None])
    q, k = C.float(), B.float()
    gate = gates(mul(steps, A.float()), q, x.shape[2])
    first = None if initial_states is None else initial_states.mT
    y, last = attend(q, k, values, gate, None, first, scale=1.0)
    return y, last.mT.contiguous()


__all__ = list(provided(vars()))
