"""Gradients of every operator that has one, against PyTorch's of the same function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import tilewright.torch  # noqa: F401 - registers the operators
import torch
import torch.nn.functional as F
from cases import Case, assert_close, every_case, results
from torch.utils._python_dispatch import TorchDispatchMode

from tilewright import _schema

OPS = torch.ops.tilewright
Tensor = torch.Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def gated(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: f(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]


def gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return rms_norm(x + residual, weight, eps), x + residual


def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def rope(x: Tensor, cos: Any, sin: Any, positions: Any, interleaved: bool, inverse: bool) -> Tensor:
    rows = torch.arange(x.shape[1]).expand(x.shape[:2]) if positions is None else positions
    c, s = cos[rows][:, :, None], sin[rows][:, :, None] * (-1 if inverse else 1)
    pairs = cos.shape[1]
    head, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
    a, b = (head[..., ::2], head[..., 1::2]) if interleaved else head.chunk(2, -1)
    a, b = a * c - b * s, b * c + a * s
    turned = torch.stack((a, b), -1).flatten(-2) if interleaved else torch.cat((a, b), -1)
    return torch.cat((turned, rest), -1)


ACTIVATIONS = {"none": lambda x: x, "relu": F.relu, "gelu": F.gelu, "silu": F.silu}


def linear(x: Tensor, weight: Tensor, bias: Any, residual: Any, activation: str) -> Tensor:
    out = ACTIVATIONS[activation](F.linear(x, weight, bias))
    return out if residual is None else out + residual


def cross_entropy(
    x: Tensor, target: Tensor, ignored: int, reduction: str, smoothing: float, z_loss: float
) -> Tensor:
    plain = F.cross_entropy(
        x, target, ignore_index=ignored, reduction=reduction, label_smoothing=smoothing
    )
    squares = torch.where(target != ignored, x.logsumexp(-1).square(), 0)
    counted = (target != ignored).sum()
    sums = {"mean": squares.sum() / counted, "sum": squares.sum(), "none": squares}
    return plain + z_loss * sums[reduction]


def linear_cross_entropy(x: Tensor, weight: Tensor, target: Tensor, *rest: Any) -> Tensor:
    return cross_entropy(x @ weight.T, target, *rest)


def attention(q: Tensor, k: Tensor, v: Tensor, lens: Any, *rest: Any) -> Tensor:
    scale, causal, left, right, softcap = rest[3:]
    group = q.shape[2] // max(k.shape[2], 1)
    keys, values = k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)
    scores = torch.einsum("bshd,blhd->bhsl", q, keys) * (scale or 1 / math.sqrt(q.shape[3]))
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    there = torch.full((q.shape[0],), k.shape[1]) if lens is None else lens.long()
    j = torch.arange(k.shape[1])
    at = torch.arange(q.shape[1])[None, :, None] + (there - q.shape[1])[:, None, None]
    seen = (j < there[:, None, None]).expand(-1, q.shape[1], -1)
    seen = seen & (j >= at - left if left >= 0 else seen)
    right = 0 if causal else right
    seen = (seen & (j <= at + right if right >= 0 else seen))[:, None]
    weights = torch.where(seen, scores, -torch.inf).softmax(-1)
    weights = torch.where(seen.any(-1, keepdim=True), weights, 0)
    return torch.einsum("bhsl,blhd->bshd", weights, values)


def group_masks(rows: int, offsets: Tensor, starts: Tensor | None) -> Tensor:
    """[groups, rows, 1]: 1 where a group has the row."""
    row = torch.arange(rows)
    begins = torch.cat([offsets.new_zeros(1), offsets])[:-1] if starts is None else starts
    return ((row >= begins[:, None]) & (row < offsets[:, None]))[..., None]


def grouped_matmul(a: Tensor, b: Tensor, offsets: Tensor, starts: Tensor | None) -> Tensor:
    return ((a * group_masks(len(a), offsets, starts)) @ b).sum(0)


def k_grouped_matmul(a: Tensor, b: Tensor, offsets: Tensor, starts: Tensor | None) -> Tensor:
    return a @ (b * group_masks(len(b), offsets, starts))


def philox_words(seed: int, count: int) -> Tensor:
    """The words of tile/philox.h: Philox-4x32-10 of Salmon et al., SC 2011."""
    words = []
    for e in range(count):
        c = [e // 64 * 16 + e % 16, 0, 0, 0]
        key = [seed & 0xFFFFFFFF, seed >> 32]
        for _ in range(10):
            a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [b >> 32 ^ c[1] ^ key[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ key[1], a & 0xFFFFFFFF]
            key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
        words.append(c[e // 16 % 4])
    return torch.tensor(words, dtype=torch.float64)


def dropout(x: Tensor, p: float, seed: int) -> Tensor:
    kept = philox_words(seed, x.numel()).reshape(x.shape) >= p * 2**32
    return x * kept / (1 - p) if p < 1 else x * 0


# The function that each operator computes, in PyTorch's terms.
COMPOSITES: dict[str, Callable[..., Any]] = {
    "add": lambda x, other, alpha: x + alpha * other,
    "amax": torch.amax,
    "attention": attention,
    "cross_entropy": cross_entropy,
    "dropout": dropout,
    "embedding": lambda weight, indices: F.embedding(indices, weight),
    "erf": torch.erf,
    "exp": torch.exp,
    "fused_add_rms_norm": add_rms_norm,
    "fused_linear_cross_entropy": linear_cross_entropy,
    "gelu": lambda x, approximate: F.gelu(x, approximate=approximate),
    "gelu_and_mul": gated(F.gelu),
    "gelu_tanh_and_mul": gated(gelu_tanh),
    "grouped_matmul": grouped_matmul,
    "k_grouped_matmul": k_grouped_matmul,
    "layer_norm": layer_norm,
    "linear": linear,
    "log": torch.log,
    "log_softmax": F.log_softmax,
    "matmul": lambda a, b, alpha: alpha * (a @ b),
    "mean": torch.mean,
    "mul": torch.mul,
    "relu": F.relu,
    "rms_norm": rms_norm,
    "rope": rope,
    "scale": torch.mul,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "silu_and_mul": gated(F.silu),
    "softmax": F.softmax,
    "sum": torch.sum,
    "swiglu": lambda gate, up: F.silu(gate) * up,
    "tanh": torch.tanh,
}
# Tables, of which nobody asks the gradient.
CONSTANT = {"rope": ("cos", "sin")}
MAX_ELEMENTS = 30_000


def elements(case: Case) -> int:
    return sum(a.numel() for a in case.arguments() if isinstance(a, Tensor))


def is_empty(case: Case) -> bool:
    return any(a.numel() == 0 for a in case.arguments() if isinstance(a, Tensor))


def has_rule(case: Case) -> bool:
    """Whether the operator has a gradient where its scalars and optional tensors are these."""
    gradient = case.op.gradient
    if gradient is None:
        return False
    if not any(a.is_floating_point() for a in case.arguments() if isinstance(a, Tensor)):
        return False
    if case.op.name == "attention" and len(set(case.dtypes)) > 1:
        return False
    if "f16" in case.dtypes:  # the C++ tests have all dtypes
        return False
    named = dict(zip((arg.name for arg in case.op.inputs), case.arguments(), strict=True))
    given = {name: "absent" if named[name] is None else str(named[name]) for name in named}
    return all(given[name] == value for name, value in gradient.conditions.items())


CASES = [c for c in every_case() if c.op.gradient and elements(c) < MAX_ELEMENTS and has_rule(c)]
# Small enough to be differentiated element by element.
SMALL = [c for c in CASES if c.combo == 0 and elements(c) < 200 and not is_empty(c)]
FEW = {c.op.name: max((s for s in SMALL if s.op is c.op), key=elements) for c in SMALL}


def ready(case: Case, dtype: torch.dtype | None = None) -> list[Any]:
    """Arguments whose gradient is asked for where the operator has one, in float64 if wanted."""
    out = []
    for arg, value in zip(case.op.inputs, case.arguments(), strict=True):
        if isinstance(value, Tensor) and value.is_floating_point():
            constant = arg.name in CONSTANT.get(case.op.name, ())
            if case.op.name == "log":
                value = value.abs() + 0.25
            if dtype is not None and arg.type[0].isupper():
                value = value.to(dtype)
            value = value.requires_grad_(not constant)
        out.append(value)
    return out


def gradients(function: Callable[..., Any], arguments: list[Any], seed: int = 3) -> list[Any]:
    """Gradients of all that ask for one, for random gradients of the results."""
    made = [r for r in results(function(*arguments)) if r.requires_grad]
    torch.manual_seed(seed)
    given = [torch.randn(r.shape, dtype=torch.float64).to(torch.bfloat16).to(r.dtype) for r in made]
    wanted = [a for a in arguments if isinstance(a, Tensor) and a.requires_grad]
    return list(torch.autograd.grad(made, wanted, given))


def test_every_gradient_is_compared() -> None:
    with_gradient = {op.name for op in _schema.operators().values() if op.gradient}
    assert with_gradient == set(COMPOSITES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_pytorchs_gradient_in_float64(case: Case) -> None:
    got = gradients(getattr(OPS, case.op.name), ready(case))
    wide = [
        a.detach().double().requires_grad_(a.requires_grad)
        if isinstance(a, Tensor) and a.is_floating_point()
        else a
        for a in ready(case)
    ]
    want = gradients(COMPOSITES[case.op.name], wide)
    for g, w in zip(got, want, strict=True):
        # More than one rounding: of the forward, whose result is used, and of the backward.
        assert_close(g, w.to(g.dtype), 4 * case.tolerance(g.dtype))


@pytest.mark.parametrize("case", FEW.values(), ids=str)
def test_gradcheck(case: Case) -> None:
    function = getattr(OPS, case.op.name)
    if case.op.name in ("relu", "amax"):  # not differentiable where values are equal
        torch.manual_seed(0)
    assert torch.autograd.gradcheck(
        lambda *a: tuple(r for r in results(function(*a)) if r.requires_grad),
        ready(case, torch.float64),
        nondet_tol=0.0,
    )


@pytest.mark.parametrize("options", [(False, -1, -1, 0.0), (True, 2, -1, 0.0), (False, -1, 1, 2.0)])
def test_gradcheck_of_attention(options: tuple[Any, ...]) -> None:
    torch.manual_seed(0)
    sizes = ((2, 3, 4, 3), (2, 5, 2, 3), (2, 5, 2, 2))
    q, k, v = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in sizes)
    lens = torch.tensor([5, 4], dtype=torch.int32)
    assert torch.autograd.gradcheck(
        lambda *qkv: OPS.attention(*qkv, lens, None, None, None, 0.0, *options), (q, k, v)
    )


def test_dropout_keeps_its_share() -> None:
    x = torch.ones(100_000)
    out = OPS.dropout(x, 0.3, 5)
    assert torch.equal(out, OPS.dropout(x.reshape(10, -1), 0.3, 5).flatten())
    assert not torch.equal(out, OPS.dropout(x, 0.3, 6))
    assert abs((out == 0).double().mean().item() - 0.3) < 5 * math.sqrt(0.21 / 100_000)
    with pytest.raises(ValueError, match=r"p = 1\.5"):
        OPS.dropout(x, 1.5)


@pytest.mark.parametrize("name", ["add", "matmul", "mul", "scale", "rope", "linear", "exp"])
def test_gradgradcheck(name: str) -> None:
    assert torch.autograd.gradgradcheck(getattr(OPS, name), ready(FEW[name], torch.float64))


@pytest.mark.parametrize("case", FEW.values(), ids=str)
def test_opcheck(case: Case) -> None:
    torch.library.opcheck(getattr(OPS, case.op.name).default, tuple(ready(case)))


def test_differentiating_twice_says_what_is_missing() -> None:
    x = torch.randn(2, 5, requires_grad=True)
    (grad,) = torch.autograd.grad(OPS.softmax(x).square().sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="softmax_backward has no gradient for"):
        grad.sum().backward()
    target, head = torch.tensor([3, 1]), torch.randn(7, 5)
    (grad,) = torch.autograd.grad(OPS.cross_entropy(x, target), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="cross_entropy_backward has no gradient for"):
        grad.sum().backward()
    loss = OPS.fused_linear_cross_entropy(x, head, target)
    with pytest.raises(NotImplementedError, match="entropy cannot be differentiated twice"):
        torch.autograd.grad(loss, x, create_graph=True)


def test_operators_without_a_gradient_say_so() -> None:
    table = torch.randn(3, 4, requires_grad=True)
    x = torch.randn(1, 3, 2, 8, requires_grad=True)
    out = OPS.rope(x, table, table.detach())
    with pytest.raises(NotImplementedError, match="rope has no gradient for cos"):
        out.sum().backward()
    weight = torch.randn(3, 4, requires_grad=True)
    with pytest.raises(RuntimeError, match="results written to given tensors have none"):
        OPS.exp.out(weight, out=torch.empty(3, 4))


class Recorder(TorchDispatchMode):
    """The operators of tilewright that run."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        if function.namespace == "tilewright":
            self.called.append(f"{function._opname}.{function._overloadname}")
        return function(*args, **(kwargs or {}))


def test_only_what_is_wanted_is_computed_and_kept() -> None:
    x, weight = torch.randn(3, 8, requires_grad=True), torch.randn(8)
    out = OPS.rms_norm(x, weight)
    with Recorder() as recorder:
        out.sum().backward()
    assert recorder.called == ["rms_norm_backward.default"]
    out = OPS.rms_norm(x, weight.requires_grad_())
    with Recorder() as recorder:
        out.sum().backward()
    assert recorder.called == ["rms_norm_backward.full"]
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        OPS.mul(x, weight.detach())
        assert len(kept) == 1
        OPS.sum(x)
        assert len(kept) == 1


def test_results_that_nobody_differentiates() -> None:
    x = torch.randn(3, 8, requires_grad=True)
    residual = torch.randn(3, 8, requires_grad=True)
    _, total = OPS.fused_add_rms_norm(x, residual, torch.ones(8))
    total.sum().backward()
    assert torch.equal(x.grad, torch.ones(3, 8))
    assert torch.equal(residual.grad, torch.ones(3, 8))
    with torch.no_grad():
        assert not OPS.rms_norm(x, torch.ones(8)).requires_grad
    with torch.inference_mode():
        assert not OPS.rms_norm(x, torch.ones(8)).requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weight_gradients_have_the_same_bits_for_any_number_of_threads(dtype: torch.dtype) -> None:
    x, weight = torch.randn(700, 64, dtype=dtype), torch.randn(64, dtype=dtype, requires_grad=True)
    kept, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(gradients(lambda w: OPS.layer_norm(x, w, w), [weight])[0])
    finally:
        torch.set_num_threads(kept)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


class Block(torch.nn.Module):
    """A gated layer as a language model has it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.Parameter(torch.ones(width))
        self.up = torch.nn.Parameter(torch.randn(4 * width, width) / math.sqrt(width))
        self.down = torch.nn.Parameter(torch.randn(width, 2 * width) / math.sqrt(width))

    def forward(self, x: Tensor) -> Tensor:
        hidden = OPS.silu_and_mul(OPS.linear(OPS.rms_norm(x, self.norm), self.up))
        return OPS.linear(hidden, self.down, None, x)

    def plain(self, x: Tensor) -> Tensor:
        hidden = gated(F.silu)(F.linear(rms_norm(x, self.norm, 1e-6), self.up))
        return F.linear(hidden, self.down) + x


def test_a_compiled_layer_has_the_same_gradients() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    block = Block(16)
    compiled = torch.compile(block, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in (3, 5):
        x = torch.randn(2, rows, 16)
        got, want = [], []
        for function, found in ((compiled, got), (block.plain, want)):
            block.zero_grad()
            function(x).square().mean().backward()
            found.extend(p.grad for p in block.parameters())
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-5)


def test_functional_call() -> None:
    block = Block(8)
    parameters = {name: 2 * p for name, p in block.named_parameters()}
    out = torch.func.functional_call(block, parameters, torch.randn(2, 3, 8))
    out.sum().backward()
    assert all(p.grad is not None for p in block.parameters())
