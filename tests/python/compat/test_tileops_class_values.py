"""What classes of TileOPs 0.1.0 compute where the functions beside them take or return less."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from oracles import close
from tilewright.compat.tileops import ops
from tilewright.compat.tileops.moe import ContiguousLayoutSpec, MaskedLayoutSpec

X = torch.randn(4, 6, 8)
INTS = torch.int32


def test_names_of_activations() -> None:
    half, slope = X.chunk(2, -1), torch.rand(6)
    mask, low, high = X > 0, -torch.rand(8), torch.rand(8)
    for made, want in (
        (ops.ReLUFwdOp()(X), F.relu(X)),
        (ops.GELUFwdOp(approximate="tanh")(X), F.gelu(X, approximate="tanh")),
        (ops.SiLUFwdOp()(X), F.silu(X)),
        (ops.SELUFwdOp()(X), F.selu(X)),
        (ops.ELUFwdOp(alpha=0.5)(X), F.elu(X, 0.5)),
        (ops.LeakyReLUFwdOp(negative_slope=0.2)(X), F.leaky_relu(X, 0.2)),
        (ops.PReLUFwdOp()(X, slope), F.prelu(X, slope)),
        (ops.SiLUAndMulFwdOp()(input=X), F.silu(half[0]) * half[1]),
        (ops.GELUAndMulFwdOp()(X), F.gelu(half[0]) * half[1]),
        (
            ops.GELUAndMulFwdOp(approximate="tanh")(X),
            F.gelu(half[0], approximate="tanh") * half[1],
        ),
        (ops.LerpScalarFwdOp(weight=0.3)(X, X.flip(0)), X.lerp(X.flip(0), 0.3)),
        (ops.ClampTensorFwdOp()(X, low, high), X.clamp(low, high)),
        (ops.MaskedFillTensorFwdOp()(X, mask, torch.tensor(2.0)), X.masked_fill(mask, 2.0)),
    ):
        close(made, want)


def test_reductions() -> None:
    for order in (1, 2, math.inf):
        made = ops.VectorNormFwdOp(order, dim=[0, 2], keepdim=True, dtype=torch.float32)(X.half())
        close(made, torch.linalg.vector_norm(X.half().float(), order, (0, 2), keepdim=True))
    close(ops.CumsumFwdOp(1, dtype=torch.float32)(X.half()), X.half().float().cumsum(1))
    close(ops.CumprodFwdOp(-1, dtype=torch.float32)(X.half()), X.half().float().cumprod(-1))
    close(ops.LogSumExpFwdOp(dim=(0, 1))(input=X), X.logsumexp((0, 1)))


def test_dropout() -> None:
    x = torch.ones(1000)
    once, again = ops.DropoutFwdOp(0.5, seed=3), ops.DropoutFwdOp(0.5, True)
    assert torch.equal(once(x), once(x))
    assert not torch.equal(again(x), again(x))
    assert set(once(x).tolist()) == {0.0, 2.0}
    assert ops.DropoutFwdOp(inplace=True)(x) is x
    assert set(x.tolist()) == {0.0, 2.0}
    assert torch.equal(ops.DropoutFwdOp(0.5, False)(x), x)


def test_batch_norm_and_its_gradients() -> None:
    weight, bias, grad = torch.rand(6), torch.randn(6), torch.randn(4, 6, 8)
    mean, scale = X.mean((0, 2)), (X.var((0, 2), correction=0) + 1e-5).rsqrt()
    wanted = (torch.nn.functional.batch_norm(X, None, None, weight, bias, True), mean, scale)
    made = ops.BatchNormFwdOp(training=True)(X, weight=weight, bias=bias)
    for mine, theirs in zip(made, wanted, strict=True):
        close(mine, theirs)
    for factor in (weight, None):
        leaves = [X.clone(), torch.ones(6) if factor is None else weight.clone(), bias.clone()]
        x, scales, shift = (leaf.requires_grad_() for leaf in leaves)
        out = torch.nn.functional.batch_norm(x, None, None, scales, shift, True)
        theirs = torch.autograd.grad(out, leaves, grad)
        own = ops.BatchNormBwdOp()(grad, X, *made[1:], weight=factor)
        for mine, want in zip(own, theirs, strict=True):
            close(mine, want)


@pytest.mark.parametrize("kind", [torch.float16, torch.float32])
def test_running_statistics_of_instance_norm(kind: torch.dtype) -> None:
    torch.manual_seed(0)  # float16 rounds the same way only as long as no sum lies between two
    x, mean, var = (torch.randn(4, 6, 8) * 3 + 1).to(kind), torch.randn(6), torch.rand(6) + 0.5
    mine, theirs = (mean.clone(), var.clone()), (mean.clone(), var.clone())
    want = F.instance_norm(x, *theirs, momentum=0.3)
    close(ops.InstanceNormFwdOp(momentum=0.3)(x, *mine), want)
    for a, b in zip(mine, theirs, strict=True):
        close(a, b)


def test_attention_in_pages_and_with_logarithms() -> None:
    pages, q = torch.randn(2, 64, 2, 16), torch.randn(2, 3, 2, 16)
    table, lengths = torch.tensor([[2, 0], [1, 3]], dtype=INTS), torch.tensor([20, 32], dtype=INTS)
    made = ops.MHAPagedFwdOp(16)(q, pages[0], pages[1], table, lengths)
    for i, n in enumerate(lengths.tolist()):
        rows = torch.cat([torch.arange(16) + 16 * p for p in table[i].tolist()])[:n]
        k, v = (x[rows].transpose(0, 1) for x in pages)
        want = F.scaled_dot_product_attention(q[i].transpose(0, 1), k, v)
        close(made[i], want.transpose(0, 1).contiguous())
    k, v = (torch.randn(2, 5, 2, 16, requires_grad=True) for _ in range(2))
    leaf, grad = q.clone().requires_grad_(), torch.randn(2, 3, 2, 16)
    out, lse = ops.GQADenseWithLSEFwdOp()(q, k.detach(), v.detach())
    close(lse, (torch.einsum("bshd,blhd->bhsl", q, k) / 4).logsumexp(-1))
    want = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (leaf, k, v)))
    want.transpose(1, 2).backward(grad)
    made = ops.GQADenseBwdOp()(grad, q, k.detach(), v.detach(), out, lse)
    for mine, theirs in zip(made, (leaf, k, v), strict=True):
        close(mine, theirs.grad, 1e-4)


def test_summaries_of_blocks() -> None:
    q, k, v = torch.randn(7, 2, 16), torch.randn(3, 1, 16), torch.randn(3, 1, 16)
    starts, chunks = torch.tensor([0, 7], dtype=INTS), torch.tensor([0, 3], dtype=INTS)
    tokens = torch.tensor([[0, i] for i in range(7)], dtype=INTS)
    out, lse = ops.NSACompressedVarlenFwdOp(block_size=2)(q, k, v, starts, chunks, tokens)
    assert lse.shape == (2, 7)
    assert torch.equal(lse[:, 0], torch.full((2,), -torch.inf))
    assert not out[0].any()
    for i in range(1, 7):
        n = (i + 1) // 2
        scores = q[i] @ k[:n, 0].T / 4
        close(lse[:, i].contiguous(), scores.logsumexp(-1))
        close(out[i], scores.softmax(-1) @ v[:n, 0])


def test_gated_linear_attention_by_chunks() -> None:
    q, k, v = torch.randn(2, 8, 2, 4), torch.randn(2, 8, 2, 4), torch.randn(2, 8, 2, 5)
    g, first = -torch.rand(2, 8, 2, 4), torch.randn(2, 2, 4, 5)
    given = [x.double().requires_grad_() for x in (q, k, v, g, first)]
    state, outs, states = given[4], [], []
    for i in range(8):
        if i % 4 == 0:
            states.append(state)
        state = state * given[3][:, i].exp()[..., None]
        state = state + given[1][:, i, :, :, None] * given[2][:, i, :, None]
        outs.append(torch.einsum("bhd,bhde->bhe", given[0][:, i] / 2, state))
    states.append(state)
    out, last, h = ops.GLAChunkFwdOp(chunk_size=4)(q, k, v, g, first)
    close(out, torch.stack(outs, 1).float(), 1e-4)
    close(last, state.float(), 1e-4)
    close(h, torch.stack(states, 1).float(), 1e-4)
    do, dlast = torch.randn_like(out), torch.randn_like(last)
    total = (torch.stack(outs, 1) * do).sum() + (state * dlast).sum()
    wanted = torch.autograd.grad(total, given)
    made = ops.GLAChunkBwdOp(4, has_initial_state=True)(do, dlast, q, k, v, g, h)
    for mine, theirs in zip(made, wanted, strict=True):
        close(mine, theirs.float(), 1e-4)
    assert ops.GLAChunkBwdOp(4)(do, dlast, q, k, v, g, h)[4] is None


def test_chunks_that_are_pooled() -> None:
    x = torch.randn(1, 70, 2, 4)
    pool = ops.MeanPoolingFwdOp(32, torch.float32)
    close(pool(x), torch.stack([c.mean(1) for c in x.split(32, 1)], 1))
    starts = torch.tensor([0, 40, 70], dtype=INTS)
    places = torch.tensor([[0, 0], [0, 1], [1, 0]], dtype=INTS)
    spans = ((0, 32), (32, 40), (40, 70))
    close(pool(x, starts, places), torch.stack([x[:, a:b].mean(1) for a, b in spans], 1))


def test_what_hyper_connections_return() -> None:
    phi, x, b = torch.randn(24, 8) / 5, torch.randn(3, 24).bfloat16(), torch.randn(8)
    streams, layer, weight = ops.MHCPreFwdOp(0.5, 0.6, 0.7, 3)(phi, x, b)
    assert (streams.shape, layer.shape) == ((3, 24), (3, 12))
    size = x.float().norm(dim=1, keepdim=True) / math.sqrt(24) + 1e-4
    want = 2 * torch.sigmoid(0.6 * (x.float() @ phi)[:, 2:4] / size + b[2:4])
    close(weight, want, 1e-4)


def chosen(scores: torch.Tensor, bias: torch.Tensor | None, kept: int, k: int) -> torch.Tensor:
    """The k best of 8 experts in the `kept` best of 4 groups, one token after the other."""
    ranked = scores if bias is None else scores + bias
    found = []
    for row in ranked:
        groups = row.view(4, 2)
        best = groups.amax(1) if bias is None else groups.sum(1)
        is_kept = torch.zeros(4, dtype=torch.bool)
        is_kept[best.topk(kept).indices] = True
        found.append(row.masked_fill(~is_kept.repeat_interleave(2), -torch.inf).topk(k).indices)
    return torch.stack(found)


@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
def test_experts_of_groups(scoring: str) -> None:
    logits = torch.randn(5, 8)
    bias = torch.randn(8) if scoring == "sigmoid" else None
    scores = getattr(torch, scoring)(logits, *((-1,) if scoring == "softmax" else ()))
    route = ops.FusedTopKFwdOp(3, scoring, True, 4, 2, 2.5)
    weights, ids = route(logits, bias)
    want = chosen(scores, bias, 2, 3)
    assert torch.equal(ids.long(), want)
    picked = scores.gather(1, want)
    close(weights, 2.5 * picked / picked.sum(-1, keepdim=True))


def layer(x: torch.Tensor, weights: list[torch.Tensor], expert: int) -> torch.Tensor:
    """One expert's gated layer with biases."""
    up, down, b_up, b_down = (w[expert] for w in weights)
    gate, value = (x @ up.T + b_up).chunk(2, -1)
    return (F.silu(gate) * value) @ down.T + b_down


def test_experts_with_biases() -> None:
    x, logits = torch.randn(5, 8), torch.randn(5, 4)
    shapes = ((4, 12, 8), (4, 8, 6), (4, 12), (4, 8))
    weights = [torch.randn(s) / 2 for s in shapes]
    up, down, *biases = weights
    none = [up, down, *(torch.zeros_like(b) for b in biases)]
    picked, ids = logits.softmax(-1).topk(2)

    def mixed(own: list[torch.Tensor]) -> torch.Tensor:
        rows = [
            sum(w * layer(x[t], own, e) for w, e in zip(picked[t], ids[t].tolist(), strict=True))
            for t in range(5)
        ]
        return torch.stack(rows)

    out, given = torch.empty(5, 8), (x, up, down, picked, ids.int())
    assert ops.FusedMoEExpertsFwdOp(2.0)(*given, *biases, out=out) is out
    close(out, 2 * mixed(weights), 1e-4)
    close(ops.IndexedExpertMLPFwdOp()(*given), mixed(none), 1e-4)
    close(ops.FusedMoEFwdOp(2)(x, logits, up, down), mixed(none), 1e-4)
    whole = ops.FusedMoEFwdOp(2, experts=ops.FusedMoEExpertsFwdOp(3.0))
    close(whole(x, logits, up, down, None, *biases), 3 * mixed(weights), 1e-4)
    shared = ops.FusedMoESharedExpertFwdOp(2, num_expert_group=1, tp_size=2, tp_rank=1)
    part, routed = shared(x, logits, up, down, None, up[0], down[0])
    close(routed, mixed(none), 1e-4)
    gate, value = (x @ up[0].T).view(5, 2, 6)[:, :, 3:].unbind(1)
    close(part, (F.silu(gate) * value) @ down[0][:, 3:].T, 1e-4)
    with pytest.raises(NotImplementedError, match="FusedMoEExpertsFwdOp: activation = 'swigluoai'"):
        ops.FusedMoEExpertsFwdOp(activation="swigluoai")(*given)
    with pytest.raises(ValueError, match="experts"):
        ops.FusedMoEFwdOp(2, activation="gelu_and_mul", experts=ops.FusedMoEExpertsFwdOp())


def test_products_of_experts_with_biases() -> None:
    weights = [torch.randn(s) / 2 for s in ((2, 12, 8), (2, 8, 6), (2, 12), (2, 8))]
    up, down, b_up, b_down = weights
    for spec, metadata, experts in (
        (ContiguousLayoutSpec.tight_physical_psum(), [1, 4], [0, 1, 1, 1]),
        (ContiguousLayoutSpec.tight_per_row(), [0, 1, 1, 1], [0, 1, 1, 1]),
        (ContiguousLayoutSpec.aligned_physical_psum(2), [1, 4], [0, None, 1, 1]),
    ):
        a, told = torch.randn(4, 8), torch.tensor(metadata, dtype=INTS)
        made = ops.MoEExpertMLPFwdOp(spec)(a, up, down, told, b_gate_up=b_up, b_down=b_down)
        product = ops.MoEGroupedGEMMFwdOp(spec)(a, up, told, bias=b_up)
        for row, expert in enumerate(experts):
            if expert is not None:
                close(made[row], layer(a[row], weights, expert), 1e-4)
                close(product[row], a[row] @ up[expert].T + b_up[expert], 1e-4)
    slabs, told = torch.randn(2, 3, 8), torch.tensor([2, 3], dtype=INTS)
    made = ops.MoEGroupedGEMMFwdOp(MaskedLayoutSpec(3))(slabs, up, told, bias=b_up)
    close(made, slabs @ up.mT + b_up[:, None], 1e-4)


def test_models_of_sequences_take_sizes_from_tensors() -> None:
    h, k, v, taps = (torch.randn(2, 5, 8) for _ in range(4))
    weight, taps = torch.rand(8), torch.randn(4, 8)
    y, vhat, alpha, *rest = ops.EngramGateConvFwdOp()(h, k, v, weight, weight, taps)

    def normed(x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (8,), weight, 1e-6)

    gate = torch.sigmoid((normed(h) * normed(k)).sum(-1) / math.sqrt(8))
    close(alpha, gate)
    close(vhat, gate[..., None] * v)
    padded = F.pad(normed(vhat), (0, 0, 3, 0))
    mixed = sum(padded[:, j : j + 5] * taps[j] for j in range(4))
    close(y, F.silu(mixed) + vhat)
    grads = ops.EngramGateConvBwdOp()(y, h, k, v, weight, weight, taps, vhat, alpha, *rest)
    assert [g.shape for g in grads] == [x.shape for x in (h, k, v, weight, weight, taps)]
    c, b = torch.randn(1, 4, 1, 3), torch.randn(1, 4, 1, 3)
    made = ops.SSDChunkCouplingFwdOp(2)(C=c, B=b)
    want = (c[0, :, 0] @ b[0, :, 0].T).tril()
    close(made.flatten(), torch.stack([want[:2, :2], want[2:, 2:]]).flatten())
