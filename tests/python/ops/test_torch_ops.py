"""torch.ops.tilewright over the whole catalog: values, layouts, overloads, compilation."""

from __future__ import annotations

import os
from typing import Any

import pytest
import tilewright.torch
import torch
from cases import Case, assert_close, every_case, on_devices, overload, results
from torch._dynamo.testing import CompileCounterWithBackend

import tilewright

CASES = every_case()
OPS = torch.ops.tilewright
opcheck = torch.library.opcheck


def packet(case: Case) -> Any:
    return getattr(OPS, case.op.name)


def spread(value: Any) -> Any:
    """The same numbers with gaps between them; opaque bytes stay in one piece."""
    if not isinstance(value, torch.Tensor) or value.dtype == torch.uint8 or value.dim() == 0:
        return value
    wide = value.new_empty([2 * size for size in value.shape])
    out = wide[tuple(slice(None, None, 2) for _ in value.shape)]
    return out.copy_(value)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_the_float64_definition(case: Case) -> None:
    arguments = case.arguments()
    got = results(packet(case).default(*arguments))
    function = getattr(tilewright.ops, case.op.name)
    want = results(function(*arguments, backend="reference"))
    for g, w in zip(got, want, strict=True):
        assert_close(g, w, case.tolerance(w.dtype))


@pytest.mark.parametrize(("case", "device"), on_devices(CASES), ids=str)
def test_layouts_and_overloads_agree(case: Case, device: str) -> None:
    arguments = case.arguments(device=device)
    want = results(overload(case)(*arguments))
    for g, w in zip(results(overload(case)(*map(spread, arguments))), want, strict=True):
        assert_close(g, w, case.tolerance(w.dtype, device))
    wanted = case.op.outputs if case.wants_full else case.op.required_outputs
    given = {arg.name: spread(torch.empty_like(w)) for arg, w in zip(wanted, want, strict=True)}
    packet(case).out(*arguments, **given)
    for arg, w in zip(wanted, want, strict=True):
        # On a GPU another layout is another kernel's, which sums in another order.
        assert_close(given[arg.name], w, 0 if device == "cpu" else case.tolerance(w.dtype, device))


def gives_nan(case: Case, arguments: list[Any]) -> bool:
    return any(bool(r.double().isnan().any()) for r in results(overload(case)(*arguments)))


def comparable(case: Case, device: str = "cpu") -> tuple[Any, ...]:
    """Arguments without NaN in the result: opcheck takes two of them for different."""
    arguments = case.arguments(device=device)
    if gives_nan(case, arguments):
        arguments = [a.abs() if isinstance(a, torch.Tensor) else a for a in arguments]
    return tuple(arguments)


@pytest.fixture
def compares_8_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """opcheck compares tensors by torch.allclose, which lacks 8-bit floats."""
    close = torch.allclose

    def allclose(a: torch.Tensor, b: torch.Tensor, **options: Any) -> bool:
        if a.dtype.itemsize == 1:
            return torch.equal(a.view(torch.uint8), b.view(torch.uint8))
        return close(a, b, **options)

    monkeypatch.setattr(torch, "allclose", allclose)


@pytest.mark.usefixtures("compares_8_bits")
@pytest.mark.parametrize(("case", "device"), on_devices(CASES), ids=str)
def test_schema_and_fake_function(case: Case, device: str) -> None:
    tests = ("test_schema", "test_faketensor", "test_autograd_registration")
    opcheck(overload(case), comparable(case, device), test_utils=tests)


@pytest.mark.usefixtures("compares_8_bits")
@pytest.mark.parametrize(("case", "device"), on_devices(CASES), ids=str)
def test_out_variant_passes_opcheck(case: Case, device: str) -> None:
    arguments = comparable(case, device)
    wanted = case.op.outputs if case.wants_full else case.op.required_outputs
    made = results(overload(case)(*arguments))
    given = {arg.name: torch.empty_like(w) for arg, w in zip(wanted, made, strict=True)}
    opcheck(packet(case).out, arguments, given, test_utils=("test_schema", "test_faketensor"))


# Traces of all of them take half an hour, and depend on no dtype but by the fake functions, which
# are tested with all: most of the time cases of the first are traced, the richest compiled.
EVERY_CASE = os.environ.get("TILEWRIGHT_EVERY_CASE", "") == "1"
TRACED = [case for case in CASES if EVERY_CASE or case.combo == 0]
RICH = [case for case in TRACED if EVERY_CASE or case.is_last]


@pytest.mark.parametrize("case", TRACED, ids=str)
def test_traces_with_symbolic_sizes(case: Case) -> None:
    arguments = comparable(case)
    if gives_nan(case, list(arguments)):
        pytest.skip("NaN whatever the arguments are: the mean of nothing")
    opcheck(overload(case), arguments, test_utils=("test_aot_dispatch_dynamic",))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("case", RICH, ids=str)
def test_compiles_without_a_graph_break(case: Case, backend: str) -> None:
    torch._dynamo.reset()
    arguments = case.arguments()
    compiled = torch.compile(overload(case), fullgraph=True, dynamic=True, backend=backend)
    for g, w in zip(
        results(compiled(*arguments)), results(overload(case)(*arguments)), strict=True
    ):
        assert_close(g, w, 0)


def test_sizes_that_an_operator_settles_agree_with_symbolic_ones() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        codes, scale = OPS.quantize_int8(x, 8)
        return OPS.mul(x, OPS.dequantize(codes, scale, 1, 8))

    compiled = torch.compile(scaled, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in (3, 5):
        x = torch.randn(rows, 16)
        assert_close(compiled(x), scaled(x), 0)


# Calls at a size n of operators with sizes that arguments decide, alone or by division.
SIZED = {
    "topk": lambda n: (torch.randn(n, 5 * n), 3),
    "moe_topk": lambda n: (torch.randn(n, 5 * n), 3),
    "quantize_int8": lambda n: (torch.randn(n, 8 * n), 8),
    "delta_rule_transform": lambda n: (torch.randn(2, n, 3, 4), torch.rand(2, n, 3), None, 5),
    "linear_attention": lambda n: (
        *(torch.randn(2, n, 3, 4) for _ in range(2)),
        torch.randn(2, n, 3, 5),
        -torch.rand(2, n, 3, 4),
        None,
        None,
        0.0,
        4,
    ),
}


@pytest.mark.parametrize("name", SIZED)
def test_one_graph_serves_all_sizes(name: str) -> None:
    torch._dynamo.reset()
    packet = getattr(OPS, name)
    function = packet.full if hasattr(packet, "full") else packet.default
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=counter)
    graphs = []
    for n in (6, 11, 14):
        arguments = SIZED[name](n)
        for g, w in zip(results(compiled(*arguments)), results(function(*arguments)), strict=True):
            assert_close(g, w, 0)
        graphs.append(counter.frame_count)
    assert graphs[0] == graphs[-1], graphs


# Sizes that broadcast, or lead, and are equal without PyTorch's knowing it before.
EQUAL_SIZES = {
    "a constant": lambda x, y, w: OPS.add(x, torch.ones(4)),
    "a parameter": lambda x, y, w: OPS.mul(x, w),
    "a sum": lambda x, y, w: OPS.swiglu(torch.cat([x, x]), y),
    "a quotient": lambda x, y, w: OPS.binary(x.chunk(2, -1)[0], y[:, :2].narrow(0, 0, 1), "div"),
    "a condition": lambda x, y, w: OPS.where(torch.ones(4, dtype=torch.bool), x, 2 * x),
    "a residual": lambda x, y, w: OPS.linear(torch.cat([x, x]), x, None, y[:, :3]),
    "a fixed residual": lambda x, y, w: OPS.fused_add_rms_norm(y, torch.ones(6, 4), w)[0],
}


@pytest.mark.parametrize("name", EQUAL_SIZES)
def test_symbolic_sizes_are_found_equal(name: str) -> None:
    torch._dynamo.reset()
    function, w = EQUAL_SIZES[name], torch.nn.Parameter(torch.randn(4))
    compiled = torch.compile(
        lambda x, y: function(x, y, w), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    x, y = torch.randn(3, 4, requires_grad=True), torch.randn(6, 4)
    want = function(x, y, w)
    torch.testing.assert_close(compiled(x, y), want)


def test_sizes_that_are_not_equal_are_told_of() -> None:
    compiled = torch.compile(OPS.mul, fullgraph=True, dynamic=True, backend="aot_eager")
    with pytest.raises(RuntimeError, match=r"mul: other has a size of s\d+, but s\d+ is needed"):
        compiled(torch.randn(3, 4), torch.randn(5))


def attend(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    q, k, v = (OPS.linear(x, part).view(1, -1, 2, 16) for part in w.chunk(3))
    return OPS.attention(q, k, v, causal=True).flatten(2) * 2


def classify(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    targets = torch.arange(len(x), device=x.device) % len(w)
    return OPS.cross_entropy(OPS.linear(OPS.silu(x) + x, w), targets)


def project(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    gate, up = OPS.linear(x, w).chunk(2, -1)
    return OPS.mean(OPS.mul(OPS.sigmoid(gate), up), 0) + 1


def normalize(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    h = OPS.rms_norm(x, w[0])
    return OPS.layer_norm(OPS.softmax(h + x, -1) * 2, w[1], w[2])


@pytest.mark.parametrize("function", [attend, classify, project, normalize])
def test_inductor_runs_one_graph_at_several_sizes(function: Any) -> None:
    """Forward and backward."""
    torch._dynamo.reset()
    counter: Any = CompileCounterWithBackend("inductor")
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=counter)
    w = torch.randn(96, 32, requires_grad=True)
    for rows in (3, 5, 17):
        x = torch.randn(rows, 32, requires_grad=True)
        want, got = function(x, w), compiled(x, w)
        torch.testing.assert_close(got, want)
        grad = torch.randn_like(want)
        for g, t in zip(*(torch.autograd.grad(r, (x, w), grad) for r in (got, want)), strict=True):
            torch.testing.assert_close(g, t, rtol=1e-4, atol=1e-5)
    assert counter.frame_count == 1
