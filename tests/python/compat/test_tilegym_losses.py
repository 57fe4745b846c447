"""TileGym's losses and normalizations of the suites, with their gradients, against PyTorch."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from oracles import close
from tilewright.compat.tilegym import liger, unsloth

A, B = torch.randn(2, 3, 40), torch.randn(2, 3, 40)


def with_gradients(ours, theirs, *inputs) -> None:
    """The same values, and the same gradients of every input."""
    mine = [x.clone().requires_grad_() for x in inputs]
    wide = [x.double().requires_grad_() for x in inputs]
    got, want = ours(*mine), theirs(*wide)
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)
    weights = torch.randn(want.shape)
    (got * weights).sum().backward()
    (want * weights.double()).sum().backward()
    for x, y in zip(mine, wide, strict=True):
        torch.testing.assert_close(x.grad.double(), y.grad, rtol=1e-4, atol=1e-5)


X = torch.randn(2, 6, 5, 4)
LABELS = torch.tensor([3, -100, 7])
CLASSES = torch.rand(40) + 0.5
LOG_P, LOG_Q = A[0].log_softmax(-1), B[0].log_softmax(-1)


def divergence(beta):
    def theirs(log_q):
        q, p = log_q.exp(), LOG_P.double().exp()
        m = (beta * p + (1 - beta) * q).log()
        if beta in (0, 1):
            m = log_q if beta == 0 else LOG_P.double()
        of_p = p * (LOG_P.double() - m)
        of_q = q * (log_q - m)
        both = of_p if beta == 0 else of_q if beta == 1 else beta * of_p + (1 - beta) * of_q
        return (both * (LABELS != -100)[:, None]).sum() / 2

    return theirs


def power_norm(x, w, b):
    def norm(u):
        return u / (u.square().mean(-1, keepdim=True) + 1e-6).sqrt()

    return w[0] * norm(x**3) + w[1] * norm(x**2) + w[2] * norm(x) + b


def total_variation(p):
    loss = 0.5 * (p - B[0].double()).abs() * (LABELS != -100)[:, None]
    return loss.sum() / 2


GRADIENTS = {
    "group_norm": (
        lambda x, w, b: liger.group_norm(x, 6, 3, w, b),
        lambda x, w, b: F.group_norm(x, 3, w, b),
        (X, torch.randn(6), torch.randn(6)),
    ),
    "poly_norm": (liger.poly_norm, power_norm, (A, torch.randn(3), torch.randn(1))),
    "kl_div": (
        lambda x: liger.kl_div(x, LOG_P.exp()),
        lambda x: F.kl_div(x, LOG_P.exp().double(), reduction="batchmean"),
        (LOG_Q,),
    ),
    "kl_div of logarithms": (
        lambda x: liger.kl_div(x, LOG_P, "mean", True),
        lambda x: F.kl_div(x, LOG_P.double(), reduction="mean", log_target=True),
        (LOG_Q,),
    ),
    "tvd": (lambda p: liger.tvd(p, B[0], LABELS), total_variation, (A[0],)),
    **{
        f"jsd {beta}": (
            lambda x, beta=beta: liger.jsd(x, LOG_P, LABELS, beta),
            divergence(beta),
            (LOG_Q,),
        )
        for beta in (0, 0.3, 0.5, 1)
    },
    "cross_entropy": (
        lambda x: liger.cross_entropy(x, LABELS, softcap=2.0),
        lambda x: F.cross_entropy(2 * torch.tanh(x / 2), LABELS),
        (A[0],),
    ),
    **{
        f"cross_entropy of weighted classes, {how}": (
            lambda x, how=how: liger.cross_entropy(x, LABELS, reduction=how, weight=CLASSES).sum(),
            lambda x, how=how: F.cross_entropy(x, LABELS, CLASSES.double(), reduction=how).sum(),
            (A[0],),
        )
        for how in ("mean", "sum", "none")
    },
    **{
        f"cross_entropy of weighted classes, smoothed, {how}": (
            lambda x, how=how: liger.cross_entropy(x, LABELS, -100, 0.1, how, CLASSES, 0.2).sum(),
            lambda x, how=how: (
                F.cross_entropy(
                    x, LABELS, CLASSES.double(), reduction=how, label_smoothing=0.1
                ).sum()
                + 0.2 * x.logsumexp(-1)[[0, 2]].square().sum() / (2 if how == "mean" else 1)
            ),
            (A[0],),
        )
        for how in ("mean", "sum", "none")
    },
    "fused_linear_cross_entropy of weighted classes": (
        lambda x, w: liger.fused_linear_cross_entropy(x, w, LABELS, ce_weight=CLASSES[:9]),
        lambda x, w: F.cross_entropy(F.linear(x, w), LABELS, CLASSES[:9].double()),
        (A[0], torch.randn(9, 40)),
    ),
    "fused_linear_cross_entropy": (
        lambda x, w, b: liger.fused_linear_cross_entropy(x, w, LABELS, b),
        lambda x, w, b: F.cross_entropy(F.linear(x, w, b), LABELS),
        (A[0], torch.randn(9, 40), torch.randn(9)),
    ),
    "fused_linear_jsd": (
        lambda x, w: liger.fused_linear_jsd(x, w, B[0], w.detach(), LABELS, temperature=2.0),
        lambda x, w: divergence_of_heads(x, w),
        (A[0], torch.randn(9, 40)),
    ),
    "multi_token_attention": (
        lambda x, w: liger.multi_token_attention(x, w, padding=1),
        lambda x, w: mixed(x, w),
        (torch.randn(2, 3, 7, 7), torch.randn(3, 3, 3, 3)),
    ),
}


def divergence_of_heads(x, w):
    log_q = F.log_softmax(F.linear(x, w) / 2, -1)
    log_p = F.log_softmax(F.linear(B[0].double(), w.detach()) / 2, -1)
    m = (0.5 * log_p.exp() + 0.5 * log_q.exp()).log()
    both = 0.5 * log_p.exp() * (log_p - m) + 0.5 * log_q.exp() * (log_q - m)
    return (both * (LABELS != -100)[:, None]).sum() / 2


def mixed(x, w):
    seen = torch.ones(7, 7).bool().tril()
    weights = x.masked_fill(~seen, -math.inf).softmax(-1)
    return F.conv2d(weights, w, padding=1) * seen


@pytest.mark.parametrize("name", GRADIENTS)
def test_losses_and_normalizations_with_gradients(name) -> None:
    ours, theirs, inputs = GRADIENTS[name]
    with_gradients(ours, theirs, *inputs)


def test_what_cross_entropy_may_return() -> None:
    target = torch.tensor([3, -100, 7])
    flags = {"return_z_loss": True, "return_token_accuracy": True, "return_predicted_tokens": True}
    got = liger.cross_entropy(A[0], target, lse_square_scale=0.1, **flags)
    lse = A[0].logsumexp(-1)[[0, 2]]
    close(got[0], F.cross_entropy(A[0], target) + 0.1 * lse.square().mean())
    close(got[1], 0.1 * lse.square().mean())
    best = A[0].argmax(-1)
    close(got[2], (best == target)[[0, 2]].float().mean())
    assert got[3].tolist() == [best[0], -1, best[2]]
    head = torch.randn(9, 40)
    loss, predicted = liger.fused_linear_cross_entropy(
        A[0], head, torch.tensor([3, 1, 7]), return_predicted_tokens=True
    )
    close(loss, F.cross_entropy(A[0] @ head.T, torch.tensor([3, 1, 7])))
    assert torch.equal(predicted, (A[0] @ head.T).argmax(-1))


@pytest.mark.parametrize("beta", [0.3, 0.5])
def test_divergence_of_probabilities_too_small_to_be_numbers(beta) -> None:
    """Exp(-120) is 0 in float32."""
    far = torch.full((2, 9), -120.0)
    far[0, 0], far[1, 3] = 0, -1
    log_p, log_q = far.log_softmax(-1), far.flip(-1).log_softmax(-1)

    def theirs(log_q):
        p, q = log_p.double().exp(), log_q.exp()
        log_m = (beta * p + (1 - beta) * q).log()
        of_p, of_q = p * (log_p.double() - log_m), q * (log_q - log_m)
        return (beta * of_p + (1 - beta) * of_q).sum() / 2

    with_gradients(lambda x: liger.jsd(x, log_p, None, beta), theirs, log_q)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("weight", [None, CLASSES], ids=["plain", "classes"])
@pytest.mark.parametrize("softcap", [None, 2.0])
def test_rows_that_count_as_their_targets_are_likely(reduction, weight, softcap) -> None:
    counted = LABELS != -100
    options = {"reduction": reduction, "ce_weight": weight, "softcap": softcap}

    def theirs(x, w):
        logits = x @ w.T
        logits = logits if softcap is None else softcap * (logits / softcap).tanh()
        rows, labels = logits[counted], LABELS[counted]
        chance = rows.detach().softmax(-1).gather(1, labels[:, None])[:, 0]
        by_class = None if weight is None else weight.double()
        each = F.cross_entropy(rows, labels, by_class, reduction="none", label_smoothing=0.1)
        squares = 0.2 * rows.logsumexp(-1).square()
        if reduction == "none":
            return logits.new_zeros(3).masked_scatter(counted, chance * (each + squares))
        mean = reduction == "mean"
        whole = (labels >= 0).sum() if weight is None else by_class[labels].sum()
        return ((chance * each).sum() / (whole if mean else 1)
                + (chance * squares).sum() / (counted.sum() if mean else 1))  # fmt: skip

    options |= {"label_smoothing": 0.1, "lse_square_scale": 0.2, "use_token_scaling": True}
    inputs = A[0], torch.randn(40, 40) / 4
    with_gradients(
        lambda x, w: liger.fused_linear_cross_entropy(x, w, LABELS, **options), theirs, *inputs
    )
    found = liger.fused_linear_cross_entropy(
        *inputs, LABELS, return_z_loss=True, return_predicted_tokens=True, **options
    )
    assert len(found) == 3
    plain = options | {"lse_square_scale": 0.0}
    without = liger.fused_linear_cross_entropy(*inputs, LABELS, **plain)
    torch.testing.assert_close(found[0], without + found[1])
    logits = inputs[0] @ inputs[1].T
    assert torch.equal(found[2], torch.where(counted, logits.argmax(-1), -1))


def test_losses_of_nothing_are_zero() -> None:
    x = A[0].clone().requires_grad_()
    nothing = torch.full((3,), -100)
    for weight in (None, CLASSES):
        made = liger.cross_entropy(
            x, nothing, weight=weight, lse_square_scale=0.1,
            return_z_loss=True, return_token_accuracy=True,
        )  # fmt: skip
        made[0].backward()
        assert [value.item() for value in made[:3]] == [0, 0, 0]
        assert not x.grad.any()


@pytest.mark.parametrize("reduction", ["none", "sum", "mean", "batchmean"])
def test_dtypes_of_losses(reduction) -> None:
    """Those of TileGym: sums of float32 stay so in some of them."""
    x, y = A[0].bfloat16(), B[0].bfloat16()
    assert liger.kl_div(x, y, reduction).dtype == torch.float32
    want = torch.bfloat16 if reduction == "none" else torch.float32
    assert liger.tvd(x, y, None, reduction).dtype == want
    assert liger.jsd(x, y).dtype == torch.bfloat16
    if reduction != "batchmean":
        made = liger.cross_entropy(
            x, LABELS, reduction=reduction, return_z_loss=True, return_token_accuracy=True
        )
        kinds = [value.dtype for value in made[:3]]
        assert kinds == [torch.bfloat16, torch.bfloat16, torch.float32]


def test_gradients_that_overwrite() -> None:
    for function, activation in (
        (unsloth.swiglu_bwd, F.silu),
        (unsloth.geglu_exact_backward, F.gelu),
        (unsloth.geglu_approx_backward, lambda x: F.gelu(x, approximate="tanh")),
    ):
        e, g = A[0].double().requires_grad_(), B[0].double().requires_grad_()
        out = activation(e) * g
        out.backward(A[1].double())
        given = [A[1].clone(), A[0].clone(), B[0].clone()]
        assert function(*given)[0] is given[0]
        for mine, want in zip(given, (out, g.grad, e.grad), strict=True):
            close(mine, want.detach().float())
    weight, bias = B[0, 0], B[0, 1]
    close(unsloth.layernorm(A, weight, bias), F.layer_norm(A, (40,), weight, bias, 1e-6))
