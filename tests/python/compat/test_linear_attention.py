"""Linear attention of TileOPs and TileGym against the recurrence in float64 and its autograd."""

from __future__ import annotations

import pytest
import torch
from tilewright.compat import tilegym, tileops

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
BOUND = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def close(got: torch.Tensor, want: torch.Tensor, dtype: torch.dtype) -> None:
    """Shape, contiguity and values, as exact as `dtype` allows."""
    assert got.shape == want.shape
    assert got.is_contiguous()
    torch.testing.assert_close(got.double(), want.double(), rtol=BOUND[dtype], atol=BOUND[dtype])


def recurrence(q, k, v, g, beta=None, state=None, scale=1.0):
    """[B, T, H, D], g for each key dimension: the outputs, and the states before each step."""
    q, k, v, g = (x.double() for x in (q, k, v, g))
    batch, steps, heads, dims = q.shape
    s = torch.zeros(batch, heads, dims, v.shape[-1]).double() if state is None else state.double()
    out, states = [], [s]
    for t in range(steps):
        s = s * g[:, t].exp()[..., None]
        change = v[:, t]
        if beta is not None:
            held = torch.einsum("bhdv,bhd->bhv", s, k[:, t])
            change = beta.double()[:, t, :, None] * (change - held)
        s = s + k[:, t, :, :, None] * change[:, :, None]
        out.append(scale * torch.einsum("bhdv,bhd->bhv", s, q[:, t]))
        states.append(s)
    return torch.stack(out, 1), states


def draw(batch, steps, heads, dims, columns, dtype):
    """q, k, v, g for each step, g for each key dimension, and beta."""
    torch.manual_seed(steps + dims)
    q, k = (torch.randn(batch, steps, heads, dims) / dims**0.5 for _ in range(2))
    v = torch.randn(batch, steps, heads, columns)
    gate, gates = -torch.rand(batch, steps, heads) * 0.5, -torch.rand(batch, steps, heads, dims)
    beta = torch.rand(batch, steps, heads)
    return [x.to(dtype) for x in (q, k, v, gate, gates, beta)]


def turned(*given):
    """[B, T, H, ...] to [B, H, T, ...]."""
    return [x.transpose(1, 2).contiguous() for x in given]


def inverse(k, beta, g, chunk):
    """(I + strictly lower diag(beta) (Gamma * K K^T))^-1 of chunks of [B, T, H, D], by torch."""
    k, beta, g = (x.double().transpose(1, 2) for x in (k, beta, g))
    batch, heads, steps, _ = k.shape
    k, beta, g = (x.unflatten(2, (-1, chunk)) for x in (k, beta, g))
    sums = g.cumsum(-1)
    weights = beta[..., None] * (sums[..., None] - sums[..., None, :]).exp() * (k @ k.mT)
    matrix = torch.eye(chunk).double() + weights.tril(-1)
    return torch.linalg.inv(matrix).reshape(batch, heads, steps, chunk)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "chunk"), [((2, 64, 3, 32, 48), 32), ((1, 5, 2, 7, 3), 1)])
def test_delta_net(shape, chunk, dtype) -> None:
    q, k, v, _, _, beta = draw(*shape, dtype)
    o, s, a_w, a_u, w, u = tileops.delta_net(*turned(q, k, v, beta), chunk_size=chunk)
    want, states = recurrence(q, k, v, torch.zeros_like(q), beta)
    close(o, want.transpose(1, 2), dtype)
    close(s, torch.stack(states[::chunk], 2), dtype)
    a = inverse(k, beta, torch.zeros_like(beta), chunk)
    for got in (a_w, a_u):
        close(got, a, dtype)
    for got, x in ((w, k), (u, v)):
        weighed = (x.double() * beta.double()[..., None]).transpose(1, 2)
        blocks = a.unflatten(2, (-1, chunk)) @ weighed.unflatten(2, (-1, chunk))
        close(got, blocks.flatten(2, 3), dtype)
    assert s.dtype == torch.float32
    assert {x.dtype for x in (o, a_w, a_u, w, u)} == {dtype}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "chunk"), [((2, 64, 3, 32, 48), 16), ((1, 6, 2, 9, 5), 3)])
def test_gated_delta_net(shape, chunk, dtype) -> None:
    q, k, v, g, _, beta = draw(*shape, dtype)
    want, states = recurrence(q, k, v, g[..., None], beta)
    a = inverse(k, beta, g, chunk)
    s = torch.stack(states[::chunk], 2)
    o, *rest = tileops.gated_delta_net_bthd(q, k, v, g, beta, chunk_size=chunk)
    for got, wanted in zip([o, *rest], [want, s, *[a.transpose(1, 2)] * 2], strict=True):
        close(got, wanted, dtype)
        assert got.dtype == dtype
    o, *rest = tileops.gated_delta_net_bhtd(*turned(q, k, v, g, beta), chunk_size=chunk)
    for got, wanted in zip([o, *rest], [want.transpose(1, 2), s, a, a], strict=True):
        close(got, wanted, dtype)


def test_chunks_that_do_not_divide_the_length_are_refused() -> None:
    q, k, v, g, _, beta = draw(1, 10, 1, 4, 4, torch.float32)
    with pytest.raises(ValueError, match="length 10 must be a multiple of chunk_size = 4"):
        tileops.gated_delta_net_bthd(q, k, v, g, beta, chunk_size=4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 37, 3, 24, 40), (1, 1, 1, 8, 8)])
def test_prefill_then_decode(shape, dtype) -> None:
    q, k, v, g, gates, beta = draw(*shape, dtype)
    want, states = recurrence(q, k, v, g[..., None], beta)
    o, last = tileops.gated_delta_net_prefill_bthd(q, k, v, g, beta)
    close(o, want, dtype)
    close(last, states[-1], dtype)
    o, last = tileops.gated_delta_net_prefill_bhtd(*turned(q, k, v, g, beta))
    close(o, want.transpose(1, 2), dtype)
    one = [x[:, 0] for x in (q, k, v)]
    for got, want_g, want_beta, scale in (
        (tileops.gated_delta_net_decode(*one, g[:, 0], beta[:, 0], last), g[..., None], beta, 1.0),
        (tileops.delta_net_decode(*one, beta[:, 0], last), torch.zeros_like(q), beta, 1.0),
        (tileops.gla_decode(*one, gates[:, 0], last), gates, None, shape[3] ** -0.5),
        (tileops.gla_decode(*one, gates[:, 0], last, scale=0.7), gates, None, 0.7),
    ):
        first = [x[:, :1] for x in (q, k, v, want_g)]
        next_beta = None if want_beta is None else want_beta[:, :1]
        out, after = recurrence(*first, next_beta, last, scale)
        close(got[0], out[:, 0], dtype)
        close(got[1], after[-1], dtype)
        assert got[0].dtype == got[1].dtype == dtype


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 64, 2, 32, 16), (1, 13, 3, 5, 70)])
def test_gla(shape, dtype) -> None:
    q, k, v, _, g, _ = draw(*shape, dtype)
    batch, _, heads, dims, columns = shape
    first = torch.randn(batch, heads, dims, columns)
    for state in (None, first):
        for scale in (-1.0, 0.3):
            want, states = recurrence(q, k, v, g, None, state, scale if scale > 0 else dims**-0.5)
            o, last = tileops.gla(q, k, v, g, state, chunk_size=16, scale=scale)
            close(o, want, dtype)
            close(last, states[-1], dtype)
            assert last.dtype == torch.float32


def autograd(run, *inputs):
    """Gradients in float64 of what run(*inputs) returns, summed."""
    leaves = [x.double().requires_grad_() for x in inputs]
    run(*leaves).sum().backward()
    return [x.grad for x in leaves]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "chunk"), [((2, 24, 2, 16, 8), 8), ((1, 3, 1, 5, 7), 1)])
def test_gradients_of_the_delta_rule(shape, chunk, dtype) -> None:
    q, k, v, g, _, beta = draw(*shape, dtype)
    do = torch.randn(v.shape).to(dtype)
    options = {"chunk_size": chunk}
    given = turned(q, k, v, beta)
    saved = tileops.delta_net(*given, **options)[1:]
    want = autograd(
        lambda q, k, v, b: recurrence(q, k, v, torch.zeros_like(q), b)[0] * do.double(),
        q, k, v, beta,
    )  # fmt: skip
    got = tileops.delta_net_bwd(*turned(do), *given, *saved, **options)
    for a, b in zip(got, want, strict=True):
        close(a, b.transpose(1, 2), dtype)
    given = turned(q, k, v, g, beta)
    states = tileops.gated_delta_net_bhtd(*given, **options)[1]
    want = autograd(
        lambda q, k, v, g, b: recurrence(q, k, v, g[..., None], b)[0] * do.double(),
        q, k, v, g, beta,
    )  # fmt: skip
    got = tileops.gated_delta_net_bwd(*turned(do), *given, states, **options)
    for a, b in zip(got, want, strict=True):
        close(a, b.transpose(1, 2), dtype)
        assert a.dtype == dtype


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("has_state", [False, True])
def test_gradients_of_gla(has_state, dtype) -> None:
    q, k, v, _, g, _ = draw(2, 24, 2, 8, 12, dtype)
    do, dht = torch.randn(v.shape).to(dtype), torch.randn(2, 2, 8, 12)
    first = torch.randn(2, 2, 8, 12) if has_state else torch.zeros(2, 2, 8, 12)
    _, states = recurrence(q, k, v, g, None, first)

    def run(q, k, v, g):
        out, after = recurrence(q, k, v, g, None, first, 8**-0.5)
        return (out * do.double()).sum() + (after[-1] * dht.double()).sum()

    h = torch.stack(states[::8], 1).float()
    got = tileops.gla_bwd(q, k, v, g, h, do, dht, chunk_size=8, has_initial_state=has_state)
    for a, b in zip(got, autograd(run, q, k, v, g), strict=True):
        close(a, b, torch.float32)
        assert a.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "rule", [tilegym.chunk_gated_delta_rule, tilegym.recurrent_gated_delta_rule]
)
@pytest.mark.parametrize("shape", [(2, 37, 4, 64, 32), (1, 1, 1, 16, 16)])
def test_tilegym(shape, rule, dtype) -> None:
    q, k, v, g, _, beta = draw(*shape, dtype)
    batch, _, heads, dims, columns = shape
    state = torch.randn(batch, heads, dims, columns)
    norm = [x.double() * (x.double().square().sum(-1, True) + 1e-6).rsqrt() for x in (q, k)]
    want, states = recurrence(*norm, v, g[..., None].float(), beta, state, dims**-0.5)
    named = {"initial_state": state, "output_final_state": True}
    out, last = rule(q, k, v, g.float(), beta, use_qk_l2norm_in_kernel=True, **named)
    close(out, want, dtype)
    close(last, states[-1], dtype)
    assert (out.dtype, last.dtype) == (dtype, torch.float32)
    want, _ = recurrence(q, k, v, g[..., None], beta, None, dims**-0.5)
    out, last = rule(q, k, v, g, beta)
    close(out, want, dtype)
    assert last is None
