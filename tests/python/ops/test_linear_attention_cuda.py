"""Linear attention of many steps on a GPU, with gates of a head or of each dimension."""

from __future__ import annotations

import pytest
import tilewright.torch  # noqa: F401
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
OPS = torch.ops.tilewright
BOUND = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2, torch.float32: 1e-5}
# batch, steps, heads of q and k, of v, dimensions, columns
SHAPES = [(2, 70, 2, 2, 128, 128), (1, 257, 2, 6, 64, 40), (1, 129, 1, 2, 256, 100),
          (2, 100, 2, 2, 100, 77), (1, 64, 1, 1, 13, 27), (1, 300, 4, 4, 128, 256)]  # fmt: skip


def recurrence(q, k, v, g, beta, state):
    """Step by step in float64: the outputs, and the states before each 64 steps and at the end."""
    q, k, v, g, beta, state = (x if x is None else x.double() for x in (q, k, v, g, beta, state))
    group = v.shape[2] // q.shape[2]
    q, k = (x.repeat_interleave(group, 2) for x in (q, k))
    if state is None:
        state = q.new_zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3])
    outs, states = [], []
    for t in range(v.shape[1]):
        if t % 64 == 0:
            states.append(state)
        state = state * g[:, t].exp()[..., None]
        change = v[:, t]
        if beta is not None:
            held = torch.einsum("bhdc,bhd->bhc", state, k[:, t])
            change = beta[:, t, :, None] * (change - held)
        state = state + k[:, t, :, :, None] * change[:, :, None]
        outs.append(q.shape[3] ** -0.5 * torch.einsum("bhdc,bhd->bhc", state, q[:, t]))
    return torch.stack(outs, 1), torch.stack([*states, state], 2)


def close(got: torch.Tensor, want: torch.Tensor, factor: float = 1) -> None:
    """As the tests of all operators have it."""
    allowed = factor * BOUND[got.dtype] * (want.abs() + want.square().mean().sqrt())
    assert ((got.double() - want).abs() <= allowed).all()


def gradients(outs, operands, grads):
    return torch.autograd.grad(outs, [x for x in operands if x is not None], grads)


def draw(shape, dtype, one_gate, strength, delta):
    """Operands, of which queries and keys are one tensor's."""
    batch, steps, heads, value_heads, dims, columns = shape
    generator = torch.Generator(device="cuda").manual_seed(steps + dims)

    def normal(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, generator=generator, device="cuda")

    qk = F.normalize(normal(batch, steps, 2 * heads, dims), dim=-1).to(dtype)
    q, k = qk.chunk(2, dim=2)
    v = normal(batch, steps, value_heads, columns).to(dtype)
    g = -strength * normal(batch, steps, value_heads, 1 if one_gate else dims).abs()
    beta = normal(batch, steps, value_heads).sigmoid() if delta else None
    state = normal(batch, value_heads, dims, columns) if steps % 2 else None
    return q, k, v, g.expand(-1, -1, -1, dims), beta, state


@pytest.mark.parametrize("delta", [False, True])
@pytest.mark.parametrize("one_gate", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_many_steps(dtype, shape, one_gate, delta):
    """Outputs and states, of weak gates and strong ones."""
    for strength in (0.01, 2.0):
        operands = draw(shape, dtype, one_gate, strength, delta)
        made = OPS.linear_attention.full(*operands, 0.0, 64)
        out, states = recurrence(*operands)
        close(made[0], out)
        close(made[1], states[:, :, -1])
        close(made[2], states)
        again = OPS.linear_attention.full(*operands, 0.0, 64)
        assert all(torch.equal(*two) for two in zip(made, again, strict=True))


@pytest.mark.parametrize("one_gate", [False, True])
@pytest.mark.parametrize("delta", [False, True])
def test_gates_that_leave_nothing(delta, one_gate):
    """A state that is forgotten, in the middle of a chunk and twice in one."""
    operands = list(draw((1, 128, 1, 1, 128, 64), torch.bfloat16, one_gate, 0.1, delta))
    gates = operands[3].clone()
    gates[:, [50, 70, 90, 91]] = -torch.inf
    operands[3] = gates[..., :1].expand_as(gates) if one_gate else gates
    out, last = OPS.linear_attention(*operands)
    want, states = recurrence(*operands)
    close(out, want)
    close(last, states[:, :, -1])


@pytest.mark.parametrize("delta", [False, True])
@pytest.mark.parametrize("one_gate", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_of_many_steps(dtype, shape, one_gate, delta):
    """Of all operands and the state, of weak gates and strong ones."""
    for strength in (0.01, 2.0):
        operands = draw(shape, dtype, one_gate, strength, delta)
        state = torch.randn(operands[2].shape[0], operands[2].shape[2], *shape[4:], device="cuda")
        operands = (*operands[:5], state)
        grad, final_grad = torch.randn_like(operands[2]), torch.randn_like(state)
        exact = [x if x is None else x.double().requires_grad_() for x in operands]
        out, states = recurrence(*exact)
        wanted = gradients((out, states[:, :, -1]), exact, (grad.double(), final_grad.double()))
        own = [x if x is None else x.detach().requires_grad_() for x in operands]
        made, again = (gradients(OPS.linear_attention(*own), own, (grad, final_grad))
                       for _ in range(2))  # fmt: skip
        for n, (got, want, repeated) in enumerate(zip(made, wanted, again, strict=True)):
            close(got, want, 10 if n >= 3 else 1)  # gates': sums of steps, of which most cancels
            assert torch.equal(got, repeated)
