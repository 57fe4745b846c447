"""TileOPs' recurrences of release 0.1.0: delta rules with gates, selective scan, short filters."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._linear_attention import normalized
from tilewright.compat._tensors import tensor

States = tuple[torch.Tensor, torch.Tensor]


def within(
    given: tuple[torch.Tensor, ...],
    state: torch.Tensor | None,
    cu_seqlens: torch.Tensor | None,
    scale: float | None,
) -> States:
    """The recurrence of q, k, v, g and perhaps beta [B, S, H, ...], or of sequences of a batch."""
    q = given[0]
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    bounds = [0, q.shape[1]] if cu_seqlens is None else cu_seqlens.tolist()
    outs, states = [], []
    for i, (first, end) in enumerate(itertools.pairwise(bounds)):
        own = state if state is None or cu_seqlens is None else state[i : i + 1]
        q, k, v, g, *rest = (x[:, first:end].contiguous() for x in given)
        beta = rest[0] if rest else None
        out, last = ops.linear_attention(q, k, v, g, beta, own, scale=factor)
        outs.append(out)
        states.append(last)
    return torch.cat(outs, 1), torch.cat(states)


def delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gate: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None,
    cu_seqlens: torch.Tensor | None,
    scale: float | None,
    *,
    l2norm: bool,
    sigmoid: bool = False,
    negative: bool = False,
    v_first: bool = False,
) -> States:
    """The delta rule with these gates of each key dimension, and the last states."""
    wide = [normalized(x.float()) if l2norm else x.float() for x in (q, k)]
    strength = tensor(ops.sigmoid(beta.float())) if sigmoid else beta.float()
    given = (*wide, v.float(), gate, 2 * strength if negative else strength)
    if state is not None and v_first:
        state = state.mT.contiguous()
    out, last = within(given, state, cu_seqlens, scale)
    return out.to(q.dtype), last.mT.contiguous() if v_first else last


@uses("linear_attention")
def gdn(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    cu_seqlens_cpu: torch.Tensor | None = None,
    A_log: torch.Tensor | None = None,
    dt_bias: torch.Tensor | None = None,
    *,
    scale: float | None = None,
    use_qk_l2norm_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    state_v_first: bool = False,
    use_gate_in_kernel: bool = False,
    validate_inputs: bool = False,
) -> States:
    """The delta rule [B, S, H, D] with a log gate g [B, S, Hv] for each head of v.

    With use_gate_in_kernel the gate is -exp(A_log) softplus(g + dt_bias).
    """
    gate = g.float()
    if use_gate_in_kernel:
        if A_log is None or dt_bias is None:
            raise ValueError("gdn: use_gate_in_kernel takes A_log and dt_bias")
        gate = -A_log.float().exp() * F.softplus(gate + dt_bias.float())
    return delta_rule(
        q, k, v, gate[..., None].expand(*gate.shape, q.shape[-1]), beta, initial_state, cu_seqlens,
        scale, l2norm=use_qk_l2norm_in_kernel, sigmoid=use_beta_sigmoid_in_kernel,
        negative=allow_neg_eigval, v_first=state_v_first,
    )  # fmt: skip


@uses("linear_attention")
def kda(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    cu_seqlens_cpu: torch.Tensor | None = None,
    A_log: torch.Tensor | None = None,
    dt_bias: torch.Tensor | None = None,
    *,
    scale: float | None = None,
    use_qk_l2norm_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    state_v_first: bool = False,
    use_gate_in_kernel: bool = False,
    lower_bound: float | None = None,
    validate_inputs: bool = False,
) -> States:
    """The delta rule [B, S, H, D] with a log gate g [B, S, Hv, D] for each dimension of a key.

    With use_gate_in_kernel the gate is -exp(A_log) softplus(g + dt_bias), or, with a lower_bound,
    that times sigmoid(exp(A_log) (g + dt_bias)).
    """
    gate = g.float()
    if use_gate_in_kernel:
        if A_log is None:
            raise ValueError("kda: use_gate_in_kernel takes A_log")
        rate = A_log.float().exp()[:, None]
        raw = gate if dt_bias is None else gate + dt_bias.float().view(gate.shape[2:])
        if lower_bound is None:
            gate = -rate * F.softplus(raw)
        else:
            gate = lower_bound * torch.sigmoid(rate * raw)
    return delta_rule(
        q, k, v, gate, beta, initial_state, cu_seqlens, scale, l2norm=use_qk_l2norm_in_kernel,
        sigmoid=use_beta_sigmoid_in_kernel, negative=allow_neg_eigval, v_first=state_v_first,
    )  # fmt: skip


def _runs(seq_idx: torch.Tensor | None, batch: int, length: int) -> list[tuple[int, int, int]]:
    """Row, first and end of each sequence; row -1 for all rows at once."""
    if seq_idx is None:
        return [(-1, 0, length)]
    found = []
    for b in range(batch):
        _, counts = torch.unique_consecutive(seq_idx[b], return_counts=True)
        ends = counts.cumsum(0).tolist()
        found += [(b, first, end) for first, end in zip([0, *ends], ends, strict=False)]
    return found


@uses("linear_attention", "mul", "add")
def selective_scan(
    u: torch.Tensor,
    delta: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None = None,
    z: torch.Tensor | None = None,
    delta_bias: torch.Tensor | None = None,
    seq_idx: torch.Tensor | None = None,
    initial_states: torch.Tensor | None = None,
    *,
    delta_softplus: bool = True,
) -> States:
    """Mamba's scan of u [B, D, S]: h = exp(delta A) h + delta u B, y = C h, plus D u, gated by z.

    A is [D, N], B and C are [B, G, N, S]. A token whose seq_idx differs from the one before it
    starts anew.

    Returns:
        y [B, D, S] and the last states [B, D, N].
    """
    if seq_idx is not None and initial_states is not None:
        raise ValueError("selective_scan: sequences by seq_idx have no initial_states")
    batch, width, length = u.shape
    step = delta.float() if delta_bias is None else delta.float() + delta_bias.float()[:, None]
    step = (F.softplus(step) if delta_softplus else step).transpose(1, 2)
    x = u.float().transpose(1, 2)
    values = tensor(ops.mul(x.contiguous(), step.contiguous()))[..., None]
    gates = step[..., None] * A.float()
    keys, queries = (t.float().permute(0, 3, 1, 2) for t in (B, C))
    start = None if initial_states is None else initial_states.float()[..., None].contiguous()
    out = x.new_empty(batch, length, width)
    last = x.new_zeros(batch, width, A.shape[1])
    for row, first, end in _runs(seq_idx, batch, length):
        rows = slice(None) if row < 0 else slice(row, row + 1)
        q, k, v, g = (t[rows, first:end].contiguous() for t in (queries, keys, values, gates))
        made, state = ops.linear_attention(q, k, v, g, None, start, scale=1.0)
        out[rows, first:end], last[rows] = made[..., 0], state[..., 0]
    if D is not None:
        out = tensor(ops.add(out, ops.mul(x.contiguous(), D.float())))
    y = out.transpose(1, 2)
    return (y if z is None else y * F.silu(z.float())).contiguous().to(u.dtype), last


def _filtered(
    window: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, activation: str | None
) -> torch.Tensor:
    """A filter along windows [..., L + W - 1, D], in float32."""
    width = weight.shape[1]
    count = window.shape[-2] - width + 1
    taps = weight.float().T
    out = torch.zeros_like(window[..., :count, :])
    for i in range(width):
        out = tensor(ops.add(out, ops.mul(window[..., i : i + count, :].contiguous(), taps[i])))
    if bias is not None:
        out = tensor(ops.add(out, bias.float()))
    return tensor(ops.silu(out)) if activation else out


def _check_activation(name: str, activation: str | None) -> None:
    if activation not in ("silu", None):
        raise ValueError(f"{name}: activation {activation!r} is neither silu nor None")


@uses("mul", "add", "silu")
def causal_conv1d(
    x: torch.Tensor,
    weight: torch.Tensor,
    conv_state: torch.Tensor,
    cu_seqlens: torch.Tensor,
    bias: torch.Tensor | None = None,
    has_initial_state: torch.Tensor | None = None,
    *,
    activation: str | None = "silu",
    validate_inputs: bool = False,
) -> torch.Tensor:
    """Each channel of sequences [T, D] filtered by weight [D, W], from what came before it.

    conv_state [B, D, W - 1] are the tokens before each sequence, zeros where has_initial_state is
    false, and becomes its last ones.
    """
    _check_activation("causal_conv1d", activation)
    bounds, out = cu_seqlens.tolist(), torch.empty_like(x)
    for b, (first, end) in enumerate(itertools.pairwise(bounds)):
        if first == end:
            continue
        is_known = has_initial_state is not None and bool(has_initial_state[b])
        before = conv_state[b] if is_known else torch.zeros_like(conv_state[b])
        window = torch.cat([before.T, x[first:end]])
        out[first:end] = _filtered(window.float(), weight, bias, activation)
        conv_state[b] = window[len(window) - conv_state.shape[2] :].T
    return out


@uses("mul", "add", "silu")
def causal_conv1d_update(
    x: torch.Tensor,
    weight: torch.Tensor,
    conv_state: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    activation: str | None = "silu",
) -> torch.Tensor:
    """One token [B, D] of each sequence, filtered; conv_state [B, D, W - 1] moves on by it."""
    _check_activation("causal_conv1d_update", activation)
    window = torch.cat([conv_state, x[..., None]], -1)
    conv_state.copy_(window[..., 1:])
    return _filtered(window.mT.float(), weight, bias, activation)[:, 0].to(x.dtype)


__all__ = list(provided(vars()))
