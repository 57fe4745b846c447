"""Gradients of every operator that has one, against PyTorch's of the same function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import tilewright.torch  # noqa: F401 - registers the operators
import torch
import torch.nn.functional as F
from cases import Case, assert_close, on_devices, results
from composites import COMPOSITES, gated, rms_norm
from differentiable import CASES, EACH, FEW, gradients, in_float64, ready
from tilewright._second import SECOND
from torch.utils._python_dispatch import TorchDispatchMode

from tilewright import _schema

OPS = torch.ops.tilewright
Tensor = torch.Tensor


def test_every_gradient_is_compared() -> None:
    """With PyTorch's, or with its own in float64, and that with differences of the definition."""
    with_gradient = {op.name for op in _schema.operators().values() if op.gradient}
    by_differences = {case.op.name for case in EACH.values() if in_float64(case)}
    assert with_gradient <= set(COMPOSITES) | by_differences


@pytest.mark.parametrize(("case", "device"), on_devices(CASES), ids=str)
def test_matches_pytorchs_gradient_in_float64(case: Case, device: str) -> None:
    got = gradients(getattr(OPS, case.op.name), ready(case, device=device))
    wide = [
        a.detach().double().requires_grad_(a.requires_grad)
        if isinstance(a, Tensor) and a.is_floating_point()
        else a
        for a in ready(case)
    ]
    own = getattr(OPS, case.op.name)
    want = gradients(COMPOSITES.get(case.op.name, own), wide)
    for g, w in zip(got, want, strict=True):
        # Of these PyTorch's gradients in float16 are as far off, to the digit: they follow from a
        # result that was rounded (near 1, where 1 - y is small), or add up products that were.
        slack = {"lerp": 2.0, "sigmoid": 1.6, "tanh": 2.1}.get(case.op.name, 1.0)
        assert_close(g.cpu(), w.to(g.dtype), (slack if g.dtype == torch.float16 else 1) *
                     case.tolerance(g.dtype, device))  # fmt: skip


@pytest.mark.parametrize("case", [c for c in EACH.values() if in_float64(c)], ids=str)
def test_gradcheck(case: Case) -> None:
    function = getattr(OPS, case.op.name)
    if case.op.name in ("relu", "amax"):  # not differentiable where values are equal
        torch.manual_seed(0)
    assert torch.autograd.gradcheck(
        # What a row lacks is -inf, of which there are no differences.
        lambda *a: tuple(r.clamp(min=-1e30) for r in results(function(*a)) if r.requires_grad),
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
        lambda *qkv: OPS.attention(*qkv, lens, *(None,) * 5, 0.0, *options), (q, k, v)
    )


def test_gradcheck_of_what_has_no_small_case() -> None:
    torch.manual_seed(0)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    ends = torch.tensor([0, 2, 5], dtype=torch.int32)
    assert torch.autograd.gradcheck(OPS.swiglu, (leaf(2, 3), leaf(2, 3)))
    options: tuple[dict[str, Any], ...] = (
        {"causal": True},
        {"causal": True, "window_left": 1},
        {"window_left": 1, "window_right": 1, "softcap": 2.0},
    )
    for given in options:
        assert torch.autograd.gradcheck(
            lambda q, k, v, given=given: OPS.attention_varlen(q, k, v, ends, ends, **given)[0],
            (leaf(5, 4, 3), leaf(5, 2, 3), leaf(5, 2, 2)),
        )
    targets = torch.tensor([3, -100, 0])
    for reduction in ("none", "mean", "sum"):
        assert torch.autograd.gradcheck(
            lambda x, reduction=reduction: OPS.cross_entropy(
                x, targets, reduction=reduction, label_smoothing=0.2
            ),
            (leaf(3, 5),),
        )
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(lambda a, b: OPS.grouped_matmul(a, b, ends[1:]), (leaf(5, 3), leaf(2, 3, 4)))
        assert check(lambda a, b: OPS.k_grouped_matmul(a, b, ends[1:]), (leaf(3, 5), leaf(5, 4)))


def test_dropout_keeps_its_share() -> None:
    x = torch.ones(100_000)
    out = OPS.dropout(x, 0.3, 5)
    assert torch.equal(out, OPS.dropout(x.reshape(10, -1), 0.3, 5).flatten())
    assert not torch.equal(out, OPS.dropout(x, 0.3, 6))
    assert abs((out == 0).double().mean().item() - 0.3) < 5 * math.sqrt(0.21 / 100_000)
    with pytest.raises(ValueError, match=r"p = 1\.5"):
        OPS.dropout(x, 1.5)


TWICE = ["add", "matmul", "mul", "scale", "rope", "linear", "exp", "fused_add_rms_norm"]
TWICE += ["copy", "dropout", "fft", "lerp", "permute", "transpose", "where"]  # linear, so again
TWICE += [name.removesuffix("_backward") for name in SECOND if not name.endswith(".full")]


@pytest.mark.parametrize("name", [name for name, case in FEW.items() if in_float64(case)])
def test_all_second_gradients_are_checked(name: str) -> None:
    given = ready(FEW[name], torch.float64)
    leaves = [a for a in given if isinstance(a, Tensor) and a.requires_grad]
    made = [r for r in results(getattr(OPS, name)(*given)) if r.requires_grad]
    grads = [torch.ones_like(r).requires_grad_() for r in made]
    try:
        once = torch.autograd.grad(made, leaves, grads, create_graph=True, allow_unused=True)
        sums = [g.sum() for g in once if g is not None and g.requires_grad]
        torch.autograd.grad(sums, [*leaves, *grads], allow_unused=True)
    except RuntimeError:  # among them NotImplementedError
        assert name not in TWICE
    else:
        assert name in TWICE or not sums


@pytest.mark.parametrize("name", TWICE)
def test_gradgradcheck(name: str) -> None:
    torch.manual_seed(1)
    function = getattr(OPS, name)
    if name in FEW:
        given = ready(FEW[name], torch.float64)
    else:
        given = [torch.randn(2, 3, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradgradcheck(function, given)
    if f"{name}_backward" in SECOND:  # which has to agree with the operator that it stands for
        once = gradients(function, given)
        leaves = [a for a in given if isinstance(a, Tensor) and a.requires_grad]
        torch.manual_seed(3)
        out = function(*given)
        grad = torch.randn(out.shape, dtype=torch.float64).bfloat16().to(out.dtype)
        again = torch.autograd.grad(out, leaves, grad.requires_grad_(), create_graph=True)
        for a, b in zip(once, again, strict=True):
            assert_close(b, a, 1e-11)


def test_a_gradient_penalty_in_half_precision() -> None:
    x, weight = (torch.randn(4, 8).bfloat16(), torch.randn(8).bfloat16())
    residual = torch.randn(4, 8).bfloat16()

    def penalty(normalize: Callable[..., Tensor], dtype: torch.dtype) -> Tensor:
        given = [t.to(dtype).requires_grad_() for t in (x, residual, weight)]
        out = normalize(*given, 1e-6)
        found = torch.autograd.grad(out.square().sum(), given[0], create_graph=True)[0]
        return torch.autograd.grad(found.square().sum(), given[2])[0]

    got = penalty(lambda *a: OPS.fused_add_rms_norm(*a)[0], torch.bfloat16)
    want = penalty(lambda x, r, w, eps: rms_norm(x + r, w, eps), torch.float64)
    assert float((got.double() - want).norm() / want.norm()) < 0.03


@pytest.mark.parametrize(("case", "device"), on_devices(list(FEW.values())), ids=str)
def test_opcheck(case: Case, device: str) -> None:
    torch.library.opcheck(getattr(OPS, case.op.name).default, tuple(ready(case, device=device)))


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


ENDS = torch.tensor([0, 2, 5], dtype=torch.int32)
WITHOUT_SMALL_CASE: dict[str, Callable[[], tuple[Any, ...]]] = {
    "attention_varlen": lambda: (leaf(5, 4, 8), leaf(5, 2, 8), leaf(5, 2, 8), ENDS, ENDS),
    "grouped_matmul": lambda: (leaf(5, 3), leaf(2, 3, 4), ENDS[1:].clone()),
    "k_grouped_matmul": lambda: (leaf(3, 5), leaf(5, 4), ENDS[1:].clone()),
    "swiglu": lambda: (leaf(2, 3), leaf(2, 3)),
}


@pytest.mark.parametrize("name", WITHOUT_SMALL_CASE)
def test_opcheck_without_a_small_case(name: str) -> None:
    torch.manual_seed(0)
    torch.library.opcheck(getattr(OPS, name).default, WITHOUT_SMALL_CASE[name]())


def test_opcheck_leaves_none_out() -> None:
    with_gradient = {op.name for op in _schema.operators().values() if op.gradient}
    assert with_gradient <= FEW.keys() | WITHOUT_SMALL_CASE.keys()


def test_differentiating_twice_says_what_is_missing() -> None:
    x = torch.randn(2, 5, requires_grad=True)
    (grad,) = torch.autograd.grad(OPS.unary(x, "sin").square().sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="for grad: unary cannot be differentiated tw"):
        grad.sum().backward()
    target, head = torch.tensor([3, 1]), torch.randn(7, 5)
    (grad,) = torch.autograd.grad(OPS.cross_entropy(x, target), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="cross_entropy_backward has no gradient for"):
        grad.sum().backward()
    loss = OPS.fused_linear_cross_entropy(x, head, target)
    with pytest.raises(NotImplementedError, match="entropy cannot be differentiated twice"):
        torch.autograd.grad(loss, x, create_graph=True)


def test_gradients_kept_since_the_forward_pass_stay_as_they_are() -> None:
    """loss.backward() hands them over without a copy: nobody may see that."""
    x = torch.randn(4, 5, requires_grad=True)
    head = torch.randn(7, 5, requires_grad=True)
    target = torch.tensor([3, 1, 0, 6])
    want = torch.autograd.grad(torch.nn.functional.cross_entropy(x @ head.T, target), [x, head])
    loss = OPS.fused_linear_cross_entropy(x, head, target)
    for factor in (1.0, 1.0, 0.5, 1.0):
        got = torch.autograd.grad(loss * factor, [x, head], retain_graph=True)
        torch.testing.assert_close(list(got), [factor * grad for grad in want])
    for count in (1, 2, 3):
        loss.backward(retain_graph=count < 3)
        torch.testing.assert_close([x.grad, head.grad], [count * grad for grad in want])
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


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
