"""Sparsemax, neighbourhoods and policy losses of TileGym's liger suite, in float64."""

from __future__ import annotations

import pytest
import torch
from oracles import attention, close, generator, seeded
from tilewright.compat.tilegym import liger


def simplex(x: torch.Tensor) -> torch.Tensor:
    """The nearest point of the simplex, by bisection of the threshold."""
    x = x.double()
    low, high = x.amax(-1, keepdim=True) - 1, x.amax(-1, keepdim=True)
    for _ in range(200):
        middle = (low + high) / 2
        is_low = (x - middle).relu().sum(-1, keepdim=True) > 1
        low, high = torch.where(is_low, middle, low), torch.where(is_low, high, middle)
    return (x - low).relu()


@pytest.mark.parametrize("shape", [(3, 1), (4, 7), (2, 3, 100), (2, 5001)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sparsemax(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = seeded(*shape, dtype=dtype)
    close(liger.sparsemax(x), simplex(x).to(dtype))
    moved = liger.sparsemax(x.movedim(-1, 0).contiguous(), 0)
    close(moved, simplex(x).to(dtype).movedim(-1, 0).contiguous())


def test_sparsemax_of_equals() -> None:
    close(liger.sparsemax(torch.zeros(2, 8)), torch.full((2, 8), 1 / 8))


def test_gradient_of_sparsemax() -> None:
    x = seeded(5, 9).requires_grad_()
    grad = seeded(5, 9).flip(0)
    liger.sparsemax(x).backward(grad)
    is_above = (simplex(x.detach()) > 0).double()
    mean = (grad * is_above).sum(-1, keepdim=True) / is_above.sum(-1, keepdim=True)
    close(x.grad, (is_above * (grad - mean)).float())


@pytest.mark.parametrize(("size", "dilation"), [(3, 1), (7, 1), (5, 2), (3, 4), (1, 3)])
@pytest.mark.parametrize("length", [1, 6, 37])
def test_neighbourhood_attention(length: int, size: int, dilation: int) -> None:
    given = [seeded(2, 3, length, 16).roll(i, 0).requires_grad_() for i in range(3)]
    out = liger.fused_neighborhood_attention(*given, size, dilation)

    def sees(i, j):
        return ((j - i).abs() <= size // 2 * dilation) & ((j - i) % dilation == 0)

    wide = [x.detach().double().requires_grad_() for x in given]
    want = attention(*wide, sees=sees)
    close(out.detach(), want.detach().float())
    grad = seeded(2, 3, length, 16)
    got = torch.autograd.grad(out, given, grad)
    for g, w in zip(got, torch.autograd.grad(want, wide, grad.double()), strict=True):
        torch.testing.assert_close(g, w.float(), rtol=1e-4, atol=1e-5)


def policy_loss(logits, old, ref, ids, advantages, ratio_of, options):
    """The loss of each token, its divergence, and whether it is clipped; written out."""
    temperature, beta = 0.9, options.get("beta", 0.0)
    logp = (logits[:, :-1] / temperature).log_softmax(-1).gather(-1, ids[..., None])[..., 0]
    coefficient = ratio_of(logp - (logp.detach() if old is None else old))
    adv = advantages[:, None]
    kind, delta = options.get("loss_type", "grpo"), options.get("delta")
    clipped = torch.zeros_like(logp)
    if kind == "cispo":
        loss = -coefficient.detach().clamp(max=0.2) * adv * logp
        clipped = ((coefficient > 0.2) & (adv > 0)).double()
    elif kind == "sapo":
        t = torch.where(adv > 0, 1.0, 1.05)
        loss = -torch.sigmoid(t * (coefficient - 1)) * 4 / t * adv
    elif kind == "vespo":
        loss = -options["phi_seq"].double().view(-1, 1) * adv * logp
    else:
        plain = coefficient if delta is None else coefficient.clamp(max=delta)
        loss = -torch.minimum(plain * adv, coefficient.clamp(0.8, 1.2) * adv)
        clipped = (((coefficient < 0.8) & (adv < 0)) | ((coefficient > 1.2) & (adv > 0))).double()
    if "vllm_is_ratio" in options and kind != "vespo":
        loss = loss * options["vllm_is_ratio"].double()
    kl = (ref - logp).exp() - (ref - logp) - 1
    if options.get("use_bias_correction_kl"):
        kl = kl * coefficient
    return (loss + beta * kl).expand_as(logp), kl, clipped.expand_as(logp)


CASES = [
    {},
    {"beta": 0.1},
    {"beta": 0.1, "use_bias_correction_kl": True},
    {"delta": 1.1},
    {"loss_type": "cispo"},
    {"loss_type": "sapo", "beta": 0.2},
    {"loss_type": "vespo", "phi_seq": torch.tensor([0.5, 2.0, 1.0])},
    {"loss_type": "dapo", "vllm_is_ratio": torch.tensor([[0.5], [2.0], [1.5]])},
    {"importance_sampling_level": "sequence", "beta": 0.1},
]


@pytest.mark.parametrize("options", CASES, ids=str)
@pytest.mark.parametrize("has_old", [True, False])
def test_grpo_loss(options, has_old: bool) -> None:
    b, length, n = 3, 5, 17
    logits = seeded(b, length + 1, n).requires_grad_()
    ids = torch.randint(0, n, (b, length), generator=generator(1))
    drawn = (logits.detach()[:, :-1] / 0.9).log_softmax(-1).gather(-1, ids[..., None])[..., 0]
    old, ref = (drawn + 0.4 * seeded(b, length) if has_old else None), drawn + 0.1
    mask = torch.ones(b, length, dtype=torch.bool)
    mask[1, 3:], mask[2] = False, False
    advantages = torch.tensor([1.5, -0.7, 0.2])
    given = (logits, old, ref, ids, advantages, mask)
    loss, kl, clipped = liger.grpo_loss(*given, inplace=False, **options)

    def ratio_of(log_ratio):
        if options.get("importance_sampling_level") == "sequence":
            lengths = mask.sum(-1, keepdim=True).clamp(min=1)
            log_ratio = (log_ratio * mask).sum(-1, keepdim=True) / lengths
        return log_ratio.exp()

    wide = logits.detach().double().requires_grad_()
    older = None if old is None else old.double()
    want, want_kl, want_clipped = policy_loss(
        wide, older, ref.double(), ids, advantages.double(), ratio_of, options
    )
    close(loss.detach(), (want * mask).detach().float())
    close(clipped, (want_clipped * mask).float())
    if options.get("beta"):
        close(kl.detach(), (want_kl * mask).detach().float())
    else:
        assert kl is None
    loss.sum().backward()
    (want * mask).sum().backward()
    torch.testing.assert_close(logits.grad, wide.grad.float(), rtol=1e-4, atol=1e-5)
    assert torch.equal(logits.grad[:, -1], torch.zeros(b, n))


@pytest.mark.parametrize(
    "loss_type", ["grpo", "dapo", "bnpo", "dr_grpo", "luspo", "cispo", "sapo", "vespo"]
)
def test_reduced_grpo_loss(loss_type: str) -> None:
    logits, ids = seeded(2, 5, 11), torch.zeros(2, 4, dtype=torch.int64)
    mask = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0]])
    given = (logits, seeded(2, 4), seeded(2, 4).roll(1), ids, torch.tensor([1.0, -1.0]), mask)
    options = {"loss_type": loss_type, "beta": 0.1, "phi_seq": torch.ones(2)}
    each, kl, clipped = liger.grpo_loss(*given, **options)
    whole = {
        "grpo": (each.sum(-1) / mask.sum(-1)).mean(),
        "sapo": (each.sum(-1) / mask.sum(-1)).mean(),
        "dr_grpo": each.sum() / (2 * 9),
        "luspo": None,
    }.get(loss_type, each.sum() / 4)
    reduced = liger.grpo_loss(*given, reduce=True, max_completion_length=9, **options)
    if whole is not None:
        close(reduced[0], whole)
    else:
        full = liger.grpo_loss(*given[:-1], **options)[0]
        close(reduced[0], (full * mask.sum(-1, keepdim=True)).mean())
    close(reduced[1], kl.sum() / 4)
    close(reduced[2], clipped.sum() / 4)


def test_grpo_loss_refuses() -> None:
    given = (seeded(1, 3, 5), None, None, torch.zeros(1, 2, dtype=torch.int64), torch.ones(1))
    for options, message in (
        ({"loss_type": "ppo"}, "is none of"),
        ({"loss_type": "cispo", "importance_sampling_level": "sequence"}, "weighs tokens"),
        ({"loss_type": "sapo", "delta": 2.0}, "has no delta"),
        ({"loss_type": "vespo"}, "needs phi_seq"),
        ({"importance_sampling_level": "word"}, "is no level"),
        ({"loss_type": "sapo", "sapo_temperature_pos": 0.0}, "must be above 0"),
        ({"beta": 0.1}, "needs ref_logp"),
    ):
        with pytest.raises(ValueError, match=message):
            liger.grpo_loss(*given, **options)


def test_sparse_multi_token_attention() -> None:
    scores, weight = seeded(1, 2, 6, 6), seeded(2, 2, 3, 3)
    seen = torch.ones(6, 6).tril()
    weights = simplex(scores.double().masked_fill(seen == 0, -1e9))
    want = torch.nn.functional.conv2d(weights, weight.double(), padding=1) * seen
    got = liger.multi_token_attention(scores, weight, padding=1, sparse=True)
    close(got, want.float())
