"""explain(): a record of what ran, whoever called it."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tilewright.torch
import torch

import tilewright
from tilewright import _library, ops

X = torch.linspace(-1, 1, 24).reshape(4, 6)
ISA = _library.load().tw_isa().decode()


def test_calls_that_do_not_pass_by_python() -> None:
    compiled = torch.compile(lambda x: torch.ops.tilewright.tanh(2 * x), backend="aot_eager")
    leaf = X.clone().requires_grad_()
    with tilewright.explain() as e:
        torch.ops.tilewright.gelu(X)
        compiled(X)
        ops.softmax(leaf).sum().backward()
    assert [r.op for r in e.records] == ["gelu", "tanh", "softmax", "softmax_backward"]
    assert [r.reason for r in e.records] == [
        "called through torch.ops",
        "called through torch.ops",
        "current backend",
        "called through torch.ops",
    ]
    last = e.records[-1]
    assert (last.shapes, last.dtypes) == ([(4, 6), (4, 6)], ["float32", "float32"])
    assert (last.device, last.backend, last.kernel) == ("cpu", "cpu", "softmax_backward/cpu")


def activations(x: torch.Tensor) -> torch.Tensor:
    return ops.silu(2 * ops.gelu(x, backend="torch")) + ops.exp(x, backend="torch")


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_what_becomes_nodes_of_a_graph_leaves_records(backend: str) -> None:
    """Each time it runs, also where a gradient is wanted."""
    torch._dynamo.reset()
    compiled = torch.compile(activations, backend=backend, fullgraph=True, dynamic=True)
    want = activations(X)
    torch.testing.assert_close(compiled(X), want)  # nobody listens as it is made
    for x in (X, X[:3], X.clone().requires_grad_()):
        with tilewright.explain() as e:
            got = compiled(x)
        torch.testing.assert_close(got, want[: len(x)])
        told = {r.op: (r.backend, r.kernel) for r in e.records}
        assert len(e.records) == len(told) == 3
        assert told["gelu"] == ("torch", "gelu/torch")
        assert told["exp"] == ("torch", "exp/torch")
        assert told["silu"] == ("cpu", "silu/cpu")
        assert all((r.shapes, r.dtypes) == ([tuple(x.shape)], ["float32"]) for r in e.records)
        assert [r.reason for r in e.records if r.op == "exp"] == ["within a compiled graph"]
    got.sum().backward()
    torch.testing.assert_close(compiled(X), want)
    assert len(e.records) == 3


def test_an_implementation_within_a_graph_leaves_a_record() -> None:
    torch._dynamo.reset()
    tilewright.register_impl("silu", "torch", lambda x: x * torch.sigmoid(x), overwrite=True)
    try:
        with tilewright.explain() as e:
            compiled = torch.compile(lambda x: ops.silu(x, backend="torch"), backend="aot_eager")
            torch.testing.assert_close(compiled(X), torch.nn.functional.silu(X))
    finally:
        tilewright.unregister_impl("silu", "torch")
    assert [(r.op, r.backend) for r in e.records] == [("silu", "torch")]
    assert "<lambda>" in e.records[0].kernel


def test_the_build_that_ran_is_told() -> None:
    with tilewright.explain() as e:
        ops.exp(X.numpy())
        ops.linear(X.double(), X.double())
        ops.exp(X, backend="reference")
        ops.exp(X, backend="torch")
    built = [r.isa for r in e.records]
    assert built[0] in {"avx2", "avx512", ISA}
    assert built[1:] == ["reference", "reference", ""]


def test_what_an_implementation_calls_is_within_it() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.tilewright.mul(x, torch.ops.tilewright.sigmoid(x))

    tilewright.register_impl("silu", "torch", forward, overwrite=True)
    try:
        with tilewright.explain() as e:
            ops.silu(X, backend="torch")
    finally:
        tilewright.unregister_impl("silu", "torch")
    assert [r.op for r in e.records] == ["silu", "sigmoid", "mul"]
    assert [r.reason for r in e.records] == ["requested", "within silu", "within silu"]


def test_a_block_hears_its_own_thread_only() -> None:
    other = threading.Thread(target=lambda: torch.ops.tilewright.exp(X))
    with tilewright.explain() as outer:
        other.start()
        other.join()
        torch.ops.tilewright.relu(X)
    torch.ops.tilewright.erf(X)
    assert [r.op for r in outer.records] == ["relu"]


def test_blocks_that_nest_all_collect() -> None:
    with tilewright.explain() as outer:
        ops.relu(X)
        with tilewright.explain(time=True) as inner:
            torch.ops.tilewright.tanh(X)
            ops.linear(X.double(), X.double())
        torch.ops.tilewright.erf(X)
    assert [r.op for r in inner.records] == ["tanh", "linear"]
    assert [r.op for r in outer.records] == ["relu", "tanh", "linear", "erf"]
    assert all(r.seconds is None for r in outer.records)
    assert all(r.seconds for r in inner.records)
    assert inner.records[1].isa == outer.records[2].isa == "reference"


def test_calls_of_torch_ops_have_times() -> None:
    leaf, out = X.clone().requires_grad_(), torch.empty_like(X)
    with tilewright.explain(time=True) as e:
        torch.ops.tilewright.gelu(X)
        torch.ops.tilewright.exp.out(X, out=out)
        torch.ops.tilewright.softmax(leaf).sum().backward()
    assert [r.op for r in e.records] == ["gelu", "exp", "softmax", "softmax_backward"]
    assert all(r.seconds and r.seconds < 10 for r in e.records)
    assert all(line.split()[-1][0].isdigit() for line in str(e).splitlines()[1:])


def test_what_the_definition_answers_is_told() -> None:
    with tilewright.explain() as e:
        ops.linear(X.double(), X.double())
        torch.ops.tilewright.linear(X.double(), X.double())
        ops.linear(X.double().numpy(), X.double().numpy())
        ops.linear(X, X)
    assert [r.backend for r in e.records] == ["reference"] * 3 + ["cpu"]
    assert [r.kernel for r in e.records] == ["linear/reference"] * 3 + ["linear/cpu"]
    assert "answered by the definition" in e.records[0].reason
    assert e.fallbacks == 0


def test_a_failed_call_leaves_no_record() -> None:
    with tilewright.explain() as e:
        for wrong in (lambda: ops.softmax(X, 9), lambda: torch.ops.tilewright.softmax(X, 9)):
            try:
                wrong()
            except ValueError:
                continue
            raise AssertionError
        ops.exp(X)
    assert [r.op for r in e.records] == ["exp"]
    assert "FALLBACK" not in str(e)


def test_the_table_has_device_and_build() -> None:
    with tilewright.explain() as e:
        ops.exp(np.zeros((2, 3), np.float32))
    head, line = str(e).splitlines()
    assert head.split()[3:] == ["device", "backend", "kernel", "isa", "reason", "us"]
    assert line.split()[:5] == ["exp", "2x3", "float32", "cpu", "cpu"]
