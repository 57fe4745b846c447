"""TileOPs' recurrences of release 0.1.0, step by step in float64."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from oracles import close, seeded
from tilewright.compat import tileops

B, S, H, HV, K, V = 2, 37, 2, 4, 16, 12
Q, KEYS, VALUES = seeded(B, S, H, K), torch.randn(B, S, H, K) / 4, torch.randn(B, S, HV, V)
STRENGTH = torch.randn(B, S, HV)
A_LOG = torch.randn(HV) / 2


def stepwise(q, k, v, gate, beta, state=None, scale=K**-0.5):
    """gate [B, S, Hv, K]."""
    q, k, v, gate, beta = (x.double() for x in (q, k, v, gate, beta))
    q, k = (x.repeat_interleave(v.shape[2] // x.shape[2], 2) for x in (q, k))
    h = torch.zeros(len(v), v.shape[2], k.shape[3], v.shape[3]).double() if state is None else state
    h, outs = h.double(), []
    for t in range(v.shape[1]):
        h = h * gate[:, t].exp()[..., None]
        change = beta[:, t, :, None] * (v[:, t] - torch.einsum("bhkv,bhk->bhv", h, k[:, t]))
        h = h + torch.einsum("bhk,bhv->bhkv", k[:, t], change)
        outs.append(scale * torch.einsum("bhkv,bhk->bhv", h, q[:, t]))
    return torch.stack(outs, 1), h


def unit(x):
    return x / (x.double().square().sum(-1, keepdim=True) + 1e-6).sqrt()


@pytest.mark.parametrize("by_key", [False, True], ids=["gdn", "kda"])
@pytest.mark.parametrize("v_first", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_delta_rules(by_key, v_first, given) -> None:
    """With everything done outside, and with everything done inside."""
    shape = (B, S, HV, K) if by_key else (B, S, HV)
    raw, state = torch.randn(shape), torch.randn(B, HV, K, V) if given else None
    function = tileops.kda if by_key else tileops.gdn
    start = state if state is None or not v_first else state.mT.contiguous()
    gate = -F.softplus(raw)
    beta = torch.sigmoid(STRENGTH)
    full = gate if by_key else gate[..., None].expand(B, S, HV, K)
    want, last = stepwise(Q, KEYS, VALUES, full, beta, state)
    got, end = function(Q, KEYS, VALUES, gate, beta, start, state_v_first=v_first)
    close(got, want.float(), 2e-5)
    close(end.mT.contiguous() if v_first else end, last.float(), 2e-5)

    bias = torch.randn(HV * K if by_key else HV)
    shifted = raw.double() + (bias.view(HV, K) if by_key else bias)
    rate = A_LOG.double().exp()[:, None] if by_key else A_LOG.double().exp()
    gate = -rate * F.softplus(shifted)
    full = gate if by_key else gate[..., None].expand(B, S, HV, K)
    want, last = stepwise(unit(Q), unit(KEYS), VALUES, full, 2 * beta, state, 0.5)
    got, end = function(
        Q, KEYS, VALUES, raw, STRENGTH, start, None, None, A_LOG, bias, scale=0.5,
        use_qk_l2norm_in_kernel=True, use_beta_sigmoid_in_kernel=True, allow_neg_eigval=True,
        state_v_first=v_first, use_gate_in_kernel=True,
    )  # fmt: skip
    close(got, want.float(), 1e-4)
    close(end.mT.contiguous() if v_first else end, last.float(), 1e-4)


def test_delta_rules_of_sequences_in_16_bits() -> None:
    bounds = [0, 5, 5, 30, S]
    given = [x[:1].bfloat16() for x in (Q, KEYS, VALUES)]
    raw, beta = torch.randn(1, S, HV, K).bfloat16(), torch.sigmoid(STRENGTH[:1]).bfloat16()
    states = torch.randn(4, HV, K, V)
    rate = A_LOG.double().exp()[:, None]
    got, end = tileops.kda(
        *given, raw, beta, states, torch.tensor(bounds), None, A_LOG, None,
        use_gate_in_kernel=True, lower_bound=-3.0,
    )  # fmt: skip
    gate = -3 * torch.sigmoid(rate * raw.double())
    for i in (0, 2, 3):
        part = slice(bounds[i], bounds[i + 1])
        want, last = stepwise(*(x[:, part] for x in (*given, gate, beta)), states[i : i + 1])
        close(got[:, part].contiguous(), want.bfloat16())
        close(end[i : i + 1], last.float(), 1e-4)
    assert torch.equal(end[1], states[1])
    with pytest.raises(ValueError, match="kda: use_gate_in_kernel takes A_log"):
        tileops.kda(*given, raw, beta, use_gate_in_kernel=True)
    with pytest.raises(ValueError, match="gdn: use_gate_in_kernel takes A_log and dt_bias"):
        tileops.gdn(*given, raw[..., 0], beta, use_gate_in_kernel=True)


def scanned(u, delta, a, b, c, state, restarts):
    """y and the last states; restarts [B, S] clear a row's state first."""
    h, outs = state.double(), []
    for t in range(u.shape[2]):
        h = h.masked_fill(restarts[:, t, None, None], 0)
        step = delta[:, :, t].double()
        share = u.shape[1] // b.shape[1]
        into = b[..., t].double().repeat_interleave(share, 1)
        out = c[..., t].double().repeat_interleave(share, 1)
        h = h * (step[..., None] * a.double()).exp() + (step * u[:, :, t])[..., None] * into
        outs.append((h * out).sum(-1))
    return torch.stack(outs, 2), h


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("packed", [False, True])
def test_selective_scan(dtype, packed) -> None:
    u, delta, z = (torch.randn(2, 6, 21).to(dtype) for _ in range(3))
    a, d, bias = -torch.rand(6, 4) - 0.1, torch.randn(6), torch.randn(6)
    b, c = (torch.randn(2, 3, 4, 21).to(dtype) for _ in range(2))
    index = torch.tensor([[0] * 8 + [1] * 13, [4] * 1 + [2] * 19 + [3]], dtype=torch.int32)
    restarts = torch.zeros(2, 21, dtype=torch.bool)
    start = torch.randn(2, 6, 4)
    if packed:
        restarts[:, 1:], start = index[:, 1:] != index[:, :-1], torch.zeros(2, 6, 4)
    step = F.softplus(delta.double() + bias[:, None])
    want, last = scanned(u.double(), step, a, b, c, start, restarts)
    want = (want + d[:, None] * u.double()) * F.silu(z.double())
    options = (index, None) if packed else (None, start)
    got, end = tileops.selective_scan(u, delta, a, b, c, d, z, bias, *options)
    close(got, want.to(dtype), 1e-4 if dtype == torch.float32 else 2e-2)
    close(end, last.float(), 1e-4)
    plain = tileops.selective_scan(u, delta.abs(), a, b, c, delta_softplus=False)[0]
    zero, never = torch.zeros(2, 6, 4), torch.zeros(2, 21, dtype=torch.bool)
    want, _ = scanned(u.double(), delta.double().abs(), a, b, c, zero, never)
    close(plain, want.to(dtype), 1e-4 if dtype == torch.float32 else 2e-2)
    with pytest.raises(ValueError, match="have no initial_states"):
        tileops.selective_scan(u, delta, a, b, c, None, None, None, index, zero)


@pytest.mark.parametrize("activation", ["silu", None])
@pytest.mark.parametrize("width", [2, 4])
def test_short_filters(activation, width) -> None:
    x, weight, bias = torch.randn(9, 5), torch.randn(5, width), torch.randn(5)
    states, known = torch.randn(4, 5, width - 1), torch.tensor([True, False, True, True])
    bounds = [0, 1, 5, 5, 9]
    want, ends = torch.empty(9, 5), states.clone()
    for i, (first, end) in enumerate(itertools.pairwise(bounds)):
        if first == end:
            continue
        before = states[i] if known[i] else torch.zeros(5, width - 1)
        window = torch.cat([before, x[first:end].T], 1)
        out = F.conv1d(window[None], weight[:, None], bias, groups=5)[0]
        want[first:end] = (F.silu(out) if activation else out).T
        ends[i] = window[:, 1 - width :]
    mine = states.clone()
    starts = torch.tensor(bounds, dtype=torch.int32)
    got = tileops.causal_conv1d(x, weight, mine, starts, bias, known, activation=activation)
    close(got, want)
    assert torch.equal(mine, ends)
    stepped, by_step = states[:1].clone(), []
    for row in x[:4]:
        one = tileops.causal_conv1d_update(row[None], weight, stepped, bias, activation=activation)
        by_step.append(one)
    whole = tileops.causal_conv1d(
        x[:4], weight, states[:1].clone(), torch.tensor([0, 4]), bias, known[:1],
        activation=activation,
    )  # fmt: skip
    close(torch.cat(by_step), whole)
    assert torch.equal(stepped[0, :, -1], x[3])
    with pytest.raises(ValueError, match="activation 'gelu' is neither"):
        tileops.causal_conv1d_update(x[:4], weight, states, activation="gelu")
