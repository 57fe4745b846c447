"""Backends in functions that torch.compile traces."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tilewright.torch
import torch
from tilewright.compat import tilegym

import tilewright
from tilewright import ops

KERNEL = "tilewright.rms_norm.default"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    tilewright.set_backend("cpu")
    for name, backend in tilewright.registered_impls():
        tilewright.unregister_impl(name, backend)


def traced(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[list[str]]]:
    """A compiled function, and the names of what each of its graphs calls."""
    graphs: list[list[str]] = []

    def keep(graph: torch.fx.GraphModule, _example: Any) -> Callable[..., Any]:
        graphs.append([str(node.target) for node in graph.graph.nodes if "call" in node.op])
        return graph.forward

    return torch.compile(function, fullgraph=True, backend=keep), graphs


def norm(x: torch.Tensor, weight: torch.Tensor, **named: Any) -> torch.Tensor:
    out: torch.Tensor = ops.rms_norm(x, weight, **named)
    return out + 1


def operands() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x, weight = torch.randn(4, 64), torch.randn(64)
    return x, weight, torch.nn.functional.rms_norm(x, (64,), weight, 1e-6) + 1


@pytest.mark.parametrize("backend", [None, "cpu"])
def test_the_kernel_is_one_node(backend: str | None) -> None:
    x, weight, want = operands()
    function, graphs = traced(lambda x, weight: norm(x, weight, backend=backend))
    torch.testing.assert_close(function(x, weight), want)
    assert [KERNEL in graph for graph in graphs] == [True]


ELSEWHERE = "cpu" if torch.cuda.is_available() else "cuda"


@pytest.mark.parametrize("way", ["argument", "compat"])
def test_kernels_of_another_device_are_refused_as_outside_of_a_graph(way: str) -> None:
    x = torch.ones(3, device={"cpu": "cuda", "cuda": "cpu"}[ELSEWHERE])

    def call(x: torch.Tensor) -> torch.Tensor:
        if way == "compat":
            return tilegym.softmax(x, backend=ELSEWHERE)
        return ops.exp(x, backend=ELSEWHERE)

    with pytest.raises(torch._dynamo.exc.Unsupported, match="calls that no kernel takes"):
        traced(call)[0](x)
    with pytest.raises(NotImplementedError, match=f"no kernel for backend {ELSEWHERE}"):
        torch.compile(call, backend="eager")(x)
    with tilewright.use_backend(ELSEWHERE):  # which stands for the kernels of any device
        torch.testing.assert_close(traced(ops.exp)[0](x), x.exp())


def test_a_composite_becomes_part_of_the_graph() -> None:
    x, weight, want = operands()
    function, graphs = traced(lambda x, weight: norm(x, weight, backend="torch"))
    torch.testing.assert_close(function(x, weight), want)
    assert len(graphs) == 1
    assert not any("tilewright" in node for node in graphs[0])


def test_a_block_around_the_call_decides() -> None:
    x, weight, want = operands()
    function, graphs = traced(norm)
    function(x, weight)
    with tilewright.use_backend("torch"):
        torch.testing.assert_close(function(x, weight), want)
    function(x, weight)
    assert [KERNEL in graph for graph in graphs] == [True, False]  # traced again, then known
    tilewright.set_backend("torch")
    function(x, weight)
    assert KERNEL not in graphs[-1]


def test_an_implementation_of_ones_own_is_traced() -> None:
    x, weight, want = operands()
    function, _ = traced(norm)
    function(x, weight)
    tilewright.register_impl("rms_norm", "cpu", lambda x, weight, eps: x * 3)
    torch.testing.assert_close(function(x, weight), x * 3 + 1)
    tilewright.unregister_impl("rms_norm", "cpu")
    torch.testing.assert_close(function(x, weight), want)


def test_the_definition_breaks_the_graph() -> None:
    x, weight, want = operands()
    with tilewright.use_backend("reference"):
        torch.testing.assert_close(torch.compile(norm)(x, weight), want)
        with pytest.raises(torch._dynamo.exc.Unsupported, match="definitions run outside"):
            traced(norm)[0](x, weight)


def test_arguments_as_outside_of_a_graph() -> None:
    x, weight, want = operands()
    function, _ = traced(lambda x, weight: norm(eps=1e-6, weight=weight, x=x))
    torch.testing.assert_close(function(x, weight), want)
    q = torch.randn(1, 3, 2, 8)
    function, _ = traced(lambda q: ops.attention(q, q, q, scale=None, softcap=None))
    torch.testing.assert_close(function(q), ops.attention(q, q, q))


def test_blocks_of_several_threads_leave_nothing() -> None:
    """Whichever ends first."""
    for names in (("torch", "reference"), ("reference", "torch")):
        opened, ended = threading.Event(), threading.Event()

        def other(name: str, opened: threading.Event, ended: threading.Event) -> None:
            with tilewright.use_backend(name):
                opened.set()
                ended.wait()

        thread = threading.Thread(target=other, args=(names[1], opened, ended))
        with tilewright.use_backend(names[0]):
            thread.start()
            opened.wait()
        ended.set()
        thread.join()
        x, weight, want = operands()
        function, graphs = traced(norm)
        torch.testing.assert_close(function(x, weight), want)
        assert KERNEL in graphs[0]


def test_arrays_of_numpy_break_the_graph() -> None:
    x = np.linspace(0, 1, 12, dtype=np.float32)
    out = torch.compile(lambda x: 2 * ops.exp(x), backend="eager")(x)
    np.testing.assert_allclose(out, 2 * np.exp(x), rtol=1e-6)
