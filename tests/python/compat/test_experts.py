"""Mixtures of experts, grouped products and hyper-connections against PyTorch."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from oracles import close
from tilewright.compat import tilegym, tileops
from tilewright.compat.tilegym import flashinfer, unsloth


def experts_of(x, w1, w2, weights, ids):
    """Token by token, in float64."""
    out = torch.zeros(len(x), w2.shape[1], dtype=torch.float64)
    for t in range(len(x)):
        for weight, e in zip(weights[t].double(), ids[t].tolist(), strict=True):
            gate, up = (w1[e].double() @ x[t].double()).chunk(2)
            out[t] += weight * (w2[e].double() @ (F.silu(gate) * up))
    return out


@pytest.mark.parametrize("sizes", [(3, 5, 0, 9), (0, 0, 7), (1,), (0,)])
@pytest.mark.parametrize(("ta", "tb"), [(False, True), (False, False), (True, False), (True, True)])
def test_grouped_gemm(sizes, ta, tb) -> None:
    torch.manual_seed(0)
    total, n, k = sum(sizes), 13, 21
    a = torch.randn(total, n if ta else k)
    groups = torch.tensor(sizes, dtype=torch.int32)
    starts = (groups.cumsum(0) - groups).to(torch.int32)
    shape = ((k, total) if tb else (total, k)) if ta else (len(sizes), *((n, k) if tb else (k, n)))
    b = torch.randn(shape)
    got = tileops.grouped_gemm(a, b, groups, starts, starts, transpose_a=ta, transpose_b=tb)
    spans = [slice(s, s + c) for s, c in zip(starts.tolist(), sizes, strict=True)]
    wide = b.double().mT if tb else b.double()
    if ta:
        want = torch.stack([a[s].double().T @ wide[s] for s in spans])
    else:
        want = torch.cat([a[s].double() @ wide[g] for g, s in enumerate(spans)])
    close(got, want)


@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
@pytest.mark.parametrize("renormalize", [False, True])
@pytest.mark.parametrize(("tokens", "experts", "top_k"), [(32, 33, 2), (1, 128, 8), (5, 4, 4)])
def test_fused_topk(scoring, renormalize, tokens, experts, top_k) -> None:
    torch.manual_seed(1)
    gating = torch.randn(tokens, experts, dtype=torch.bfloat16)
    options = {"top_k": top_k, "scoring_func": scoring, "renormalize": renormalize}
    weights, ids = tileops.moe_fused_topk(gating, None, **options)
    scores = getattr(torch, scoring)(
        gating.double(), **({"dim": -1} if scoring == "softmax" else {})
    )
    want = scores.topk(top_k, -1).values
    assert weights.dtype == torch.float32
    assert ids.dtype == torch.int32
    assert all(len(set(row)) == top_k for row in ids.tolist())
    close(scores.gather(1, ids.long()).sort(-1).values.float(), want.sort(-1).values.float())
    want = want / want.sum(-1, keepdim=True) if renormalize else want
    close(weights.sort(-1).values, want.sort(-1).values)


def test_a_bias_selects_and_does_not_weigh() -> None:
    torch.manual_seed(2)
    gating, bias = torch.randn(6, 20), torch.randn(20)
    options = {"top_k": 3, "scoring_func": "sigmoid", "renormalize": False}
    weights, ids = tileops.moe_fused_topk(gating, bias, **options)
    want = (gating.sigmoid() + bias).topk(3, -1).indices
    assert torch.equal(ids.long().sort(-1).values, want.sort(-1).values)
    close(weights, gating.sigmoid().gather(1, ids.long()))
    with pytest.raises(ValueError, match="sigmoid"):
        tileops.moe_fused_topk(gating, bias, top_k=3, scoring_func="softmax", renormalize=False)


ALIGNED = [(4, 2, 4, 4), (100, 6, 64, 64), (1, 2, 4, 4), (8, 1, 4, 4), (3, 2, 5, 16)]


@pytest.mark.parametrize(("tokens", "top_k", "experts", "block"), ALIGNED)
@pytest.mark.parametrize("skewed", [False, True])
def test_alignment(tokens, top_k, experts, block, skewed) -> None:
    torch.manual_seed(3)
    ids = torch.randint(0, 1 if skewed else experts, (tokens, top_k), dtype=torch.int32)
    sizes = {"total_tokens": tokens, "top_k": top_k, "num_experts": experts, "block_size": block}
    slots, of_block, used = tileops.moe_permute_align(ids, **sizes)
    gym = tilegym.moe_align_block_size(ids, block, experts)
    counts = ids.flatten().bincount(minlength=experts)
    parts = -(-counts // block) * block
    assert used.tolist() == [int(parts.sum())] == gym[2].tolist()
    assert gym[3].tolist() == [0, *parts.cumsum(0).tolist()]
    assert gym[4].tolist() == [int(counts.max())]
    want = torch.arange(experts).repeat_interleave(parts // block)
    for order, blocks in ((slots, of_block), (gym[0], gym[1])):
        assert torch.equal(blocks[: len(want)].long(), want)
        whose = want.repeat_interleave(block)
        kept = order[: int(used)]
        real = kept < ids.numel()
        assert torch.equal(ids.flatten()[kept[real].long()].long(), whose[real])
        assert torch.equal(kept[real].long().sort().values, torch.arange(ids.numel()))
        assert bool((kept[~real] == ids.numel()).all())


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize(("tokens", "top_k"), [(5, 2), (1, 3), (17, 1)])
def test_permutation_there_and_back(mapped, tokens, top_k) -> None:
    torch.manual_seed(4)
    experts, local = 6, 6
    x = torch.randn(tokens, 40, dtype=torch.bfloat16)
    ids = torch.stack([torch.randperm(experts)[:top_k] for _ in range(tokens)]).to(torch.int32)
    expert_map = None
    if mapped:
        local, expert_map = 2, torch.tensor([-1, 0, -1, -1, 1, -1], dtype=torch.int32)
    here = ids if expert_map is None else expert_map[ids.long()]
    given = {"num_experts": experts, "num_experts_local": local}
    rows, starts, sizes, first, back = tileops.moe_permute_nopad(x, ids, expert_map, **given)
    flat = here.flatten().long()
    counts = flat[flat >= 0].bincount(minlength=local)
    assert sizes.tolist() == counts.tolist()
    assert starts.tolist() == (counts.cumsum(0) - counts).tolist()
    assert first.dtype == torch.int64
    assert first.tolist() == [0, *counts.cumsum(0).tolist()]
    assert rows.shape == (tokens * top_k, 40)
    assert torch.equal(back < 0, flat < 0)
    token = torch.arange(tokens).repeat_interleave(top_k)
    assert torch.equal(rows[back[flat >= 0].long()], x[token[flat >= 0]])

    weights = torch.rand(tokens, top_k)
    sizes_of = {"total_tokens": tokens, "top_k": top_k, "hidden_size": 40}
    got = tileops.moe_unpermute(rows, back, weights, **sizes_of, routed_scaling_factor=2.5)
    kept = (weights * (here >= 0)).double().sum(1, keepdim=True)
    close(got, (2.5 * kept * x.double()).to(torch.bfloat16))
    out = torch.empty_like(got)
    same = tileops.moe_unpermute(
        rows, back, weights, **sizes_of, out=out, routed_scaling_factor=2.5
    )
    assert same is out
    assert torch.equal(out, got)
    gaps = torch.empty(tokens, 80, dtype=out.dtype)[:, ::2]
    for wrong in (gaps, rows[:tokens]):
        with pytest.raises(ValueError, match="out must"):
            tileops.moe_unpermute(
                rows, back, weights, **sizes_of, out=wrong, routed_scaling_factor=1.0
            )


@pytest.mark.parametrize(("tokens", "experts", "top_k"), [(16, 8, 2), (1, 4, 4), (9, 20, 3)])
def test_fused_moe(tokens, experts, top_k) -> None:
    torch.manual_seed(5)
    x = torch.randn(tokens, 64, dtype=torch.bfloat16) / 2
    w1 = torch.randn(experts, 48, 64, dtype=torch.bfloat16) / 8
    w2 = torch.randn(experts, 64, 24, dtype=torch.bfloat16) / 8
    ids = torch.randint(0, experts, (tokens, top_k))
    weights = torch.rand(tokens, top_k).softmax(-1).to(torch.bfloat16)
    got = tilegym.fused_moe(x, w1, w2, weights, ids)
    want = experts_of(x, w1, w2, weights, ids)
    torch.testing.assert_close(got.double(), want, rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("weighted", [False, True])
def test_one_step_of_fused_moe(weighted) -> None:
    torch.manual_seed(6)
    tokens, experts, top_k = 7, 5, 2
    a, b = torch.randn(tokens, 33), torch.randn(experts, 19, 33)
    ids, weights = torch.randint(0, experts, (tokens, top_k)), torch.rand(tokens, top_k)
    aligned = tilegym.moe_align_block_size(ids, 16, experts)
    c = torch.empty(tokens, top_k, 19)
    tilegym.invoke_fused_moe_kernel(
        a, b, c, None, None, weights, ids, *aligned[:3], weighted, top_k, {}, torch.float32, False
    )
    want = torch.einsum("mk,mtnk->mtn", a.double(), b.double()[ids])
    close(c, want * weights.double()[..., None] if weighted else want)


@pytest.mark.parametrize("sizes", [(20, 13, 0, 8), (0, 0, 0, 64), (5,)])
def test_unsloths_grouped_gemm_and_its_gradients(sizes) -> None:
    torch.manual_seed(7)
    x = torch.randn(sum(sizes), 30, requires_grad=True)
    w = torch.randn(len(sizes), 17, 30, requires_grad=True)
    groups = torch.tensor(sizes, dtype=torch.int32)
    got = unsloth.grouped_gemm(x, w, groups, 1)
    parts = x.double().split(list(sizes))
    want = torch.cat([part @ m.T for part, m in zip(parts, w.double(), strict=True)])
    close(got, want)
    grad = torch.randn_like(got)
    for g, v in zip(
        torch.autograd.grad(got, (x, w), grad),
        torch.autograd.grad(want, (x, w), grad.double()),
        strict=True,
    ):
        torch.testing.assert_close(g, v, rtol=1e-4, atol=1e-4)


def test_unsloths_grouped_gemm_permutes() -> None:
    torch.manual_seed(8)
    x, w = torch.randn(6, 20), torch.randn(3, 9, 20)
    ids = torch.tensor([[0, 2], [1, 2], [0, 1], [2, 0], [1, 0], [2, 1]])
    order = ids.flatten().argsort(stable=True).to(torch.int32)
    sizes = ids.flatten().bincount(minlength=3)
    made = unsloth.grouped_gemm(x, w, sizes, 2, order, permute_x=True)
    each = torch.einsum("tk,tenk->ten", x.double(), w.double()[ids]).flatten(0, 1)
    close(made, each[order.long()])
    back = unsloth.grouped_gemm(x[order.long() // 2], w, sizes, 2, order, permute_y=True)
    close(back, each)


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_products_of_batches_that_differ(ta, tb) -> None:
    torch.manual_seed(9)
    a, b = torch.randn(3, 12, 18), torch.randn(3, 18, 7)
    masked = torch.tensor([5, 0, 12], dtype=torch.int32)
    left, right = (a.mT.contiguous() if ta else a), (b.mT.contiguous() if tb else b)
    got = flashinfer.masked_bmm(left, right, masked, ta, tb)
    rows = (torch.arange(12) < masked[:, None])[..., None]
    close(got, (a.double() @ b.double()) * rows)
    bounds = torch.tensor([0, 9, 9, 36], dtype=torch.int32)
    flat = a.reshape(36, 18)
    left = flat.T.contiguous() if ta else flat
    got = flashinfer.ragged_bmm(left, right, bounds, 27, None, ta, tb)
    close(got, torch.cat([flat[:9].double() @ b[0].double(), flat[9:].double() @ b[2].double()]))


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (0.5, 2.0), (1.0, 1.0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_gemm_alpha_beta(alpha, beta, dtype) -> None:
    torch.manual_seed(10)
    a, b, c = torch.randn(9, 40), torch.randn(40, 11), torch.randn(9, 11)
    a, b, c = (t.to(dtype) for t in (a, b, c))
    want = alpha * (a.double() @ b.double()) + beta * c.double()
    for ta, tb in ((False, False), (True, True)):
        into = c.clone()
        left, right = (a.T.contiguous() if ta else a), (b.T.contiguous() if tb else b)
        got = flashinfer.gemm_alpha_beta(left, right, into, ta, tb, alpha, beta)
        assert got is into
        torch.testing.assert_close(
            got.double(), want, rtol=2e-3, atol=1e-2 if dtype.itemsize == 2 else 1e-4
        )


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("streams", [2, 4])
def test_hyper_connections(batch, streams) -> None:
    torch.manual_seed(11)
    n, c = streams, 40
    x = torch.randn(batch, n * c).to(torch.bfloat16)
    phi, b = torch.randn(n * c, n * n + 2 * n) / 8, torch.randn(n * n + 2 * n)
    alphas = {"alpha_pre": 0.7, "alpha_post": 0.4, "alpha_res": 0.9}
    got = tileops.mhc_pre(phi, x, b, **alphas, sinkhorn_repeat=20, sinkhorn_eps=0.02)
    wide = x.double()
    h = wide @ phi.double() / (wide.square().mean(1, keepdim=True).sqrt() + 1e-4)
    pre = torch.sigmoid(0.7 * h[:, :n] + b[:n])
    m = (0.9 * h[:, 2 * n :] + b[2 * n :]).view(batch, n, n)
    m = torch.exp(m - m.amax(-1, keepdim=True))
    for _ in range(20):
        m = m / (m.sum(-1, keepdim=True) + 0.02)
        m = m / (m.sum(-2, keepdim=True) + 0.02)
    rows = wide.view(batch, n, c)
    close(got[0], (m @ rows).flatten(1).to(torch.bfloat16))
    close(got[1], (pre[:, None] @ rows)[:, 0].to(torch.bfloat16))
    layer, post = torch.randn(batch, c).to(torch.bfloat16), torch.rand(batch, n)
    added = tileops.mhc_post(layer, post, got[0])
    want = post.double()[:, :, None] * layer.double()[:, None] + got[0].double().view(batch, n, c)
    close(added, want.flatten(1).to(torch.bfloat16))


def test_tilegyms_hyper_connections() -> None:
    torch.manual_seed(12)
    n, rows, c = 4, 5, 24
    x, w, bias = torch.randn(rows, n * c), torch.randn(n * c, 24) / 8, torch.randn(24)
    y, size = tilegym.mhc_gemm_rms_scale(x, w, n, 0.5, 0.6, 0.7, bias)
    r = x.double().square().mean(1, keepdim=True).sqrt()
    factors = torch.tensor([0.5] * n + [0.6] * n + [0.7] * n * n)
    want = x.double() @ w.double() * factors / r + bias.double()
    want[:, :n], want[:, n : 2 * n] = want[:, :n].sigmoid(), 2 * want[:, n : 2 * n].sigmoid()
    close(size, r)
    close(y, want)
    m = torch.exp(want[:, 2 * n :].view(rows, n, n))
    for _ in range(20):
        m = m / m.sum(-1, keepdim=True)
        m = m / m.sum(-2, keepdim=True)
    before = y.clone()
    mixed = tilegym.mhc_sinkhorn(y, n)
    assert mixed is y
    assert torch.equal(y[:, : 2 * n], before[:, : 2 * n])
    close(y[:, 2 * n :].contiguous(), m.flatten(1))
    f = torch.randn(rows, c)
    got = tilegym.mhc_apply_residual(x, f, y, n)
    out = m @ x.double().view(rows, n, c) + want[:, n : 2 * n, None] * f.double()[:, None]
    close(got, out.flatten(1))


@pytest.mark.parametrize("options", [{}, {"logit_softcapping": 30.0}, {"logit_scaling": 0.5}])
def test_unsloths_cross_entropy(options) -> None:
    torch.manual_seed(13)
    logits = torch.randn(2, 9, 101, requires_grad=True)
    labels = torch.randint(0, 101, (2, 9))
    labels[0, :4] = -100
    wide = logits.double() * (options.get("logit_scaling") or 1)
    if cap := options.get("logit_softcapping"):
        wide = cap * torch.tanh(wide / cap)
    want = F.cross_entropy(wide.flatten(0, 1), labels.flatten())
    got = unsloth.cross_entropy_loss(logits, labels, **options)
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)
    (grad,) = torch.autograd.grad(got, logits)
    (expected,) = torch.autograd.grad(want, logits)
    torch.testing.assert_close(grad, expected, rtol=1e-4, atol=1e-6)
    none = torch.full_like(labels, -100)
    assert unsloth.cross_entropy_loss(logits, none, n_items=1).item() == 0
    assert not math.isfinite(unsloth.cross_entropy_loss(logits, none).item())


def test_a_map_names_each_expert_here_once() -> None:
    x, ids = torch.randn(8, 16), torch.zeros(8, 2, dtype=torch.int32)
    options = {"num_experts": 4, "num_experts_local": 2}
    with pytest.raises(ValueError, match="needs an expert_map"):
        tileops.moe_permute_nopad(x, ids, None, **options)
    for wrong in ([-1, 0, 2, -1], [-1, 0, 0, -1], [-1, 0, -1, -1]):
        with pytest.raises(ValueError, match="exactly once each"):
            tileops.moe_permute_nopad(x, ids, torch.tensor(wrong, dtype=torch.int32), **options)
