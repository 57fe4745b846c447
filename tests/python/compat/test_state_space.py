"""TileOPs' stages of Mamba-2 against their definitions in float64."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from tilewright.compat import tileops

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
BOUND = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
# batch, chunks, steps of a chunk, heads, columns of x, states, groups
SHAPES = [(2, 3, 16, 4, 8, 12, 2), (1, 1, 1, 1, 1, 1, 1), (1, 2, 7, 6, 5, 3, 1)]


def close(got: torch.Tensor, want: torch.Tensor, dtype: torch.dtype = torch.float32) -> None:
    """Shape, contiguity and values, as exact as `dtype` allows."""
    assert got.shape == want.shape
    assert got.is_contiguous()
    torch.testing.assert_close(got.double(), want.double(), rtol=BOUND[dtype], atol=BOUND[dtype])


def heads_of(x, heads):
    """[B, S, G, N] in float64, a group for each head."""
    return x.double().repeat_interleave(heads // x.shape[2], 2)


def recurrence(x, dt, decay, b, c, state):
    """Step by step: x [B, S, H, P], dt and decay [B, S, H], b and c [B, S, H, N]."""
    out = []
    for t in range(x.shape[1]):
        new = x[:, t, :, :, None] * b[:, t, :, None] * dt[:, t, :, None, None]
        state = state * decay[:, t, :, None, None].exp() + new
        out.append((state * c[:, t, :, None]).sum(-1))
    return torch.stack(out, 1), state


def draw(shape, dtype):
    batch, chunks, steps, heads, columns, states, groups = shape
    torch.manual_seed(steps)
    x = torch.randn(batch, chunks * steps, heads, columns).to(dtype)
    b, c = (torch.randn(batch, chunks * steps, groups, states).to(dtype) for _ in range(2))
    return x, b, c, torch.randn(batch, chunks * steps, heads), -torch.rand(heads)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("softplus", [False, True])
def test_da_cumsum(softplus, has_bias, dtype) -> None:
    dt, a = torch.randn(2, 21, 3), -torch.rand(3)
    bias = torch.randn(3) if has_bias else None
    name = str(dtype).removeprefix("torch.")
    options = {"dt_softplus": softplus, "dt_min": 0.1, "dt_max": 1.5}
    out, sums = tileops.da_cumsum(dt, a, bias, chunk_len=7, dtype=name, **options)
    want = dt.double() + (bias.double() if has_bias else 0)
    want = (F.softplus(want) if softplus else want).clamp(0.1, 1.5)
    want = want.unflatten(1, (3, 7)).permute(0, 3, 1, 2)
    close(out, want, dtype)
    close(sums, (want * a.double().view(1, 3, 1, 1)).cumsum(-1))
    assert (out.dtype, sums.dtype) == (dtype, torch.float32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_stages_are_the_recurrence(shape, dtype) -> None:
    batch, chunks, steps, heads, columns, states, groups = shape
    x, b, c, dt, a = draw(shape, dtype)
    first = torch.randn(batch, heads, columns, states)
    step_sizes, sums = tileops.da_cumsum(dt, a, chunk_len=steps, dtype=dtype, dt_softplus=True)
    cb = tileops.cb_producer(
        c, b, batch=batch, num_chunks=chunks, n_groups=groups, chunk_len=steps, d_state=states
    )
    by_chunk = [y.double().unflatten(1, (chunks, steps)).transpose(2, 3) for y in (c, b)]
    close(cb, (by_chunk[0] @ by_chunk[1].mT).tril(), dtype)
    assert cb.dtype == dtype
    added = tileops.ssd_chunk_state(x, b, step_sizes, sums)
    flat, last = tileops.ssd_state_passing(added.flatten(3), sums[..., -1], first.flatten(2))
    before = flat.unflatten(3, (columns, states))
    y = tileops.ssd_chunk_scan(x, cb, sums, c, before, step_sizes)
    sizes = step_sizes.double().permute(0, 2, 3, 1).flatten(1, 2)
    decay = F.softplus(dt.double()) * a.double()
    wide = (heads_of(b, heads), heads_of(c, heads))
    want, want_last = recurrence(x.double(), sizes, decay, *wide, first.double())
    scale = want.square().mean().sqrt().clamp(min=1)
    close(y / scale, want / scale, dtype)
    close(last, want_last.flatten(2), torch.float16 if dtype == torch.float32 else dtype)
    assert {z.dtype for z in (added, flat, last, y)} == {torch.float32}


def test_a_chunk_keeps_its_last_sequence() -> None:
    x, b, _, _, _ = draw((1, 3, 4, 2, 3, 5, 1), torch.float32)
    dt, sums = torch.rand(1, 2, 3, 4), -torch.rand(1, 2, 3, 4).cumsum(-1)
    sequence = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1, 2, 2, -1, -1]], dtype=torch.int32)
    got = tileops.ssd_chunk_state(x, b, dt, sums, sequence)
    keep = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]]).double()
    weights = (sums[..., -1:] - sums).double().exp() * dt.double() * keep
    by_chunk = [y.double().unflatten(1, (3, 4)) for y in (x, heads_of(b, 2))]
    close(got, torch.einsum("bhcl,bclhp,bclhn->bchpn", weights, *by_chunk))
    assert got[:, 2].abs().max() == 0


def test_state_passing_starts_from_zero() -> None:
    states, sums = torch.randn(2, 4, 3, 6), -torch.rand(2, 3, 4)
    out, last = tileops.ssd_state_passing(states.half(), sums)
    s = torch.zeros(2, 3, 6).double()
    for n in range(4):
        close(out[:, n].contiguous(), s)
        s = s * sums[:, :, n, None].double().exp() + states[:, n].half().double()
    close(last, s)


@pytest.mark.parametrize("dtype", DTYPES)
def test_decode_changes_the_state(dtype) -> None:
    a, dt = -torch.rand(6, 4, 5), torch.rand(2, 6, 4)
    x = torch.randn(2, 6, 4).to(dtype)
    b, c = (torch.randn(2, 3, 5).to(dtype) for _ in range(2))
    state = torch.randn(2, 6, 4, 5)
    into, out_of = (y.double().repeat_interleave(2, 1)[:, :, None] for y in (b, c))
    kept = state.double() * (dt[..., None] * a).double().exp()
    want = kept + (dt.double() * x.double())[..., None] * into
    y = tileops.ssd_decode(a, dt, x, b, c, state)
    close(state, want)
    close(y, (want * out_of).sum(-1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_mamba2(shape, dtype) -> None:
    batch, _, steps, heads, columns, states, _ = shape
    x, b, c, dt, a = draw(shape, dtype)
    bias, first = torch.randn(heads), torch.randn(batch, heads, columns, states)
    for given_bias, state, softplus in (
        (None, None, True),
        (bias, first, True),
        (None, first, False),
    ):
        raw = dt.double() + (0 if given_bias is None else given_bias.double())
        sizes = (F.softplus(raw) if softplus else raw).clamp(min=0)
        start = torch.zeros_like(first) if state is None else state
        wide = (heads_of(b, heads), heads_of(c, heads))
        want, last = recurrence(x.double(), sizes, sizes * a.double(), *wide, start.double())
        scale = math.sqrt(max(1.0, want.square().mean().item()))
        options = {"chunk_size": steps, "dt_softplus": softplus}
        y, final = tileops.mamba2(x, dt, a, b, c, given_bias, state, **options)
        close(y / scale, want / scale)
        close(final / scale, last / scale)
