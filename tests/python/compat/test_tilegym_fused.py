"""TileGym's fused layers and what it added for training, against PyTorch in float64."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from oracles import attention, close
from tilewright.compat import tilegym
from tilewright.compat.tilegym.suites.liger.ops import dpo_loss, modulated_rms_norm


def leaves(*tensors: torch.Tensor | None) -> list[torch.Tensor | None]:
    """The same numbers in float64, to be differentiated by."""
    return [None if t is None else t.detach().double().requires_grad_() for t in tensors]


def same_gradients(ours, theirs, bound=1e-4) -> None:
    for got, want in zip(ours, theirs, strict=True):
        if want is not None:
            torch.testing.assert_close(got.grad.double(), want.grad, rtol=bound, atol=bound)


@pytest.mark.parametrize("sizes", [(2, 2), (17, 5), (64, 128), (0, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_transpose(sizes, dtype) -> None:
    x, grad = torch.rand(sizes).to(dtype).requires_grad_(), torch.rand(sizes[::-1]).to(dtype)
    out = tilegym.ops.transpose(inp=x)
    assert torch.equal(out, x.t())
    assert out.is_contiguous()
    out.backward(grad)
    assert torch.equal(x.grad, grad.t())


ACTIVATIONS = {
    "silu": F.silu,
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
}


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_linear_gluact_linear(kind) -> None:
    shapes = ((3, 5, 24), (40, 24), (40, 24), (16, 40))
    ours = [(torch.rand(shape) / 4).requires_grad_() for shape in shapes]
    theirs = leaves(*ours)
    x, act, noact, last = theirs
    want = F.linear(ACTIVATIONS[kind](x @ act.T) * (x @ noact.T), last)
    out = tilegym.ops.linear_gluact_linear(*ours, kind)
    close(out, want.float())
    out.sum().backward()
    want.sum().backward()
    same_gradients(ours, theirs)
    with pytest.raises(ValueError, match="no act_type"):
        tilegym.linear_gluact_linear(*ours, "tanh")


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("lengths", [None, ([3, 0, 7], [3, 5, 9])])
def test_fmha_varlen(is_causal, lengths) -> None:
    q, k, v = torch.randn(3, 4, 7, 16), torch.randn(3, 2, 9, 16), torch.randn(3, 2, 9, 16)
    counts = [torch.tensor(x, dtype=torch.int32) for x in lengths or ()] or [None, None]
    out = tilegym.ops.fmha_varlen(q, k, v, 0.3, is_causal, *counts)
    want = torch.zeros(3, 4, 7, 16, dtype=torch.float64)
    for i, (rows, keys) in enumerate(zip(*(lengths or ([7] * 3, [9] * 3)), strict=True)):
        last = keys - rows
        sees = (lambda a, b, last=last: b <= a + last) if is_causal else None
        one = q[i : i + 1, :, :rows], k[i : i + 1, :, :keys], v[i : i + 1, :, :keys]
        want[i, :, :rows] = attention(*one, sees=sees, scale=0.3)[0]
    close(out, want.float())


def causal(i, j):
    return j <= i


def test_attention_backward() -> None:
    q, k, v = torch.randn(2, 4, 8, 16), torch.randn(2, 2, 11, 16), torch.randn(2, 2, 11, 16)
    for keys, sees in ((11, causal), (5, causal), (11, None)):
        given = [x.clone().requires_grad_() for x in (q, k[:, :, :keys], v[:, :, :keys])]
        want = attention(*given, scale=0.3, sees=sees)
        weights = torch.randn(want.shape)
        gradients = torch.autograd.grad(want, given, weights.double())
        qkv = [x.detach() for x in given]
        out, lse = tilegym.fmha_forward_with_lse(*qkv, 0.3, sees is causal)
        got = tilegym.fmha_backward(*qkv, out, weights, lse, 0.3, sees is causal)
        applied = tilegym.FlashAttentionFunction.apply(*given, 0.3, sees is causal)
        for made in (got, torch.autograd.grad(applied, given, weights)):
            torch.testing.assert_close(made, gradients, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", ["all", "each", "batch"])
@pytest.mark.parametrize("weighed", [True, False])
@pytest.mark.parametrize("shifted", [True, False])
def test_modulated_rms_norm(rows, weighed, shifted) -> None:
    shape = {"all": (24,), "each": (4, 6, 24), "batch": (4, 1, 24)}[rows]
    ours = [torch.randn(s).requires_grad_() for s in ((4, 6, 24), (24,), shape, shape)]
    ours = [ours[0], ours[1] if weighed else None, ours[2], ours[3] if shifted else None]
    theirs = leaves(*ours)
    x, w, scale, shift = theirs
    want = F.rms_norm(x, (24,), None if w is None else w + 0.5, 1e-6) * (1 + scale)
    want = want if shift is None else want + shift
    out = modulated_rms_norm(*ours, 1e-6, 0.5, in_place=False)
    close(out, want.float())
    grad = torch.randn(out.shape)
    out.backward(grad)
    want.backward(grad.double())
    same_gradients(ours, theirs)
    half = [None if t is None else t.detach().half() for t in ours]
    assert modulated_rms_norm(*half).dtype == torch.float16


def preference(x, w, bias, target, average):
    """Each answer's log-probability, its tokens' and the logits."""
    logits = F.linear(x, w, bias)
    each = -F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
    each, counted = each.view(target.shape), target != -100
    return each.sum(1) / (counted.sum(1) if average else 1), each, logits


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("reference", [False, True])
def test_dpo_loss(average, own, reference) -> None:
    torch.manual_seed(0)
    pairs, length, width, words = 3, 7, 11, 30
    shapes = ((2 * pairs, length, width), (words, width), (words,))
    ours = [(torch.randn(s) / 3).requires_grad_() for s in shapes]
    others = [torch.randn(s) / 3 for s in shapes]
    target = torch.randint(words, (2 * pairs, length))
    target[:, :2] = -100
    given = others if reference else [None] * 3
    options = {"average_log_prob": average, "compute_nll_loss": own, "alpha": 0.5}
    x, w, bias = ours
    got = dpo_loss(x, w, target, bias, *given, use_ref_model=reference, chunk_size=2, **options)
    theirs = leaves(*ours)
    logps, each, logits = preference(*theirs, target, average)
    base = preference(*(t.double() for t in others), target, average)[0] if reference else 0.0
    rewards = 0.1 * (logps - base)
    loss = -F.logsigmoid(rewards[:pairs] - rewards[pairs:]).mean()
    nll = -each[:pairs].sum() / (target[:pairs] != -100).sum() if own else torch.zeros(())
    want = (loss + 0.5 * nll, *logps.chunk(2), *(t.mean() for t in logits.chunk(2)), nll,
            *rewards.chunk(2))  # fmt: skip
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a.double(), b.double(), rtol=1e-4, atol=1e-4)
    got[0].backward()
    want[0].backward()
    same_gradients(ours, theirs)
    with pytest.raises(ValueError, match="sigmoid"):
        dpo_loss(x, w, target, loss_type="hinge")


def mamba2(x, a, b, c, d, dt, state):
    """Step by step."""
    share, out = x.shape[2] // b.shape[2], []
    b, c = b.repeat_interleave(share, 2), c.repeat_interleave(share, 2)
    for t in range(x.shape[1]):
        added = (dt[:, t, :, None] * x[:, t])[..., None] * b[:, t, :, None]
        state = (dt[:, t] * a).exp()[..., None, None] * state + added
        out.append((state * c[:, t, :, None]).sum(-1) + d[:, None] * x[:, t])
    return torch.stack(out, 1), state


@pytest.mark.parametrize("sizes", [(1, 64, 1, 4, 16, 32, 64), (2, 64, 2, 4, 8, 16, 32)])
def test_mamba2(sizes) -> None:
    batch, length, groups, heads, state, width, chunk = sizes
    x, out_grad = torch.randn(2, batch, length, heads, width).bfloat16()
    b, c = F.silu(torch.randn(2, batch, length, groups, state)).bfloat16()
    a, d = -torch.rand(heads) * 4, torch.randn(heads)
    dt = F.softplus(torch.randn(batch, length, heads)).bfloat16()
    first, last_grad = torch.randn(2, batch, heads, width, state)
    given = (x, a, b, c, d, dt, first)
    theirs = leaves(*given)
    out, last = mamba2(*theirs)
    got, got_last = tilegym.ops.mamba2_chunk_forward(*given, chunk_size=chunk)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.double(), out, rtol=1.6e-2, atol=2e-2)
    close(got_last, last.float())
    torch.autograd.backward((out, last), (out_grad.double(), last_grad.double()))
    grads = tilegym.ops.mamba2_chunk_backward(*given, out_grad, last_grad, chunk_size=chunk)
    for made, of, want in zip(grads, given, theirs, strict=True):
        assert made.dtype == of.dtype
        assert made.shape == of.shape
        size = want.grad.abs().max().item()
        torch.testing.assert_close(made.double(), want.grad, rtol=1.6e-2, atol=1e-2 * size)
    with pytest.raises(ValueError, match="no multiple"):
        tilegym.mamba2_chunk_forward(*given, chunk_size=48)


EXPERTS = {
    "swiglu": lambda g, u: F.silu(g) * u,
    "geglu": lambda g, u: F.gelu(g) * u,
    "reglu": lambda g, u: F.relu(g) * u,
    "silu": F.silu,
    "gelu": F.gelu,
    "relu": F.relu,
    "relu_sq": lambda x: F.relu(x) ** 2,
}


@pytest.mark.parametrize("kind", EXPERTS)
def test_moe_actgrad_bwd(kind) -> None:
    torch.manual_seed(0)
    tokens, width, inner, experts, top_k = 9, 16, 12, 5, 2
    ids = torch.randint(experts - 1, (tokens, top_k)).flatten()  # the last one has no token
    offsets = F.pad(ids.bincount(minlength=experts).cumsum(0), (1, 0)).int()
    order = ids.argsort(stable=True).int()
    scores, dout = torch.rand(tokens * top_k), torch.randn(tokens, width)
    w2 = torch.randn(experts, inner, width)
    h = torch.randn(tokens * top_k, inner * (2 if kind.endswith("glu") else 1))
    dh, ds, made = torch.zeros_like(h), torch.zeros(len(h)), torch.zeros(len(h), inner)
    tilegym.ops.moe_actgrad_bwd(
        dout=dout, h=h, w2=w2, dh=dh, ds=ds, b2=None, db2=None, a_prime=made, topk_scores=scores,
        expert_frequency_offset=offsets, x_gather_idx=order // top_k, s_scatter_idx=order,
        activation_type=kind)  # fmt: skip
    wide, share = leaves(h, scores)
    parts = wide.chunk(2, -1) if kind.endswith("glu") else (wide,)
    weighed = EXPERTS[kind](*parts) * share[order][:, None]
    rows = torch.stack([weighed[i] @ w2[ids[order[i]]].double() for i in range(len(h))])
    rows.backward(dout.double()[order // top_k])
    close(made, weighed.detach().float())
    close(dh, wide.grad.float())
    close(ds, share.grad[order].float())
    with pytest.raises(ValueError, match="is none of"):
        tilegym.moe_actgrad_bwd(dout, h, w2, dh, ds, None, None, made, scores, offsets,
                                order // top_k, order, "tanh")  # fmt: skip


def test_the_mean_of_the_logits_is_no_gradient() -> None:
    x, w = torch.randn(2, 3, 4, requires_grad=True), torch.randn(5, 4)
    out = dpo_loss(x, w, torch.zeros(2, 3, dtype=torch.int64), use_ref_model=False)
    assert not out[3].requires_grad
    assert math.isfinite(out[0].item())
