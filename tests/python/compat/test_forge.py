"""forge-cute-py's operators against PyTorch."""

from __future__ import annotations

import pytest
import torch
from oracles import close
from tilewright.compat import forge


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_operators(dtype) -> None:
    x = torch.randn(37, 52).to(dtype)
    assert torch.equal(forge.copy_transpose(x, 32), x.T.contiguous())
    close(forge.reduce(x, 0), x.double().sum(0).to(dtype))
    close(forge.reduce(x, 1, "max"), x.amax(1))
    close(forge.reduce(x, 0, "min"), x.amin(0))
    close(forge.reduce(x, op="prod"), x.double().prod(-1).to(dtype))
    close(forge.reduce_sum(x), x.double().sum(-1).to(dtype))
    close(forge.reduce_sum(x, 1, variant="shfl"), x.double().sum(-1).to(dtype))
    close(forge.softmax_online(x, -1), x.double().softmax(-1).to(dtype))


def test_refusals() -> None:
    x = torch.ones(2, 3)
    with pytest.raises(ValueError, match="tile_size must be 16 or 32, not 7"):
        forge.copy_transpose(x, 7)
    with pytest.raises(ValueError, match="op must be sum"):
        forge.reduce(x, op="median")
    for dim in (0, 1):
        with pytest.raises(ValueError, match="expects dim=-1"):
            forge.softmax_online(x, dim)


def test_softmax_backends() -> None:
    assert forge.list_softmax_online_backends()[:2] == ("kernel", "ref")
    x = torch.randn(3, 5, requires_grad=True)
    forge.register_softmax_online_backend(
        "mine", lambda x, dim: 2 * x.softmax(dim), lambda dy, y, dim: 7 * dy
    )
    try:
        with pytest.raises(ValueError, match="already"):
            forge.register_softmax_online_backend("mine", torch.softmax)
        forge.set_softmax_online_backend("ref")
        close(forge.softmax_online(x.detach()), x.softmax(-1))
        forge.set_softmax_online_backend("mine")
        assert forge.get_softmax_online_backend() == "mine"
        y = forge.softmax_online(x)
        close(y, 2 * x.softmax(-1))
        y.sum().backward()
        assert torch.equal(x.grad, torch.full_like(x, 7))
        with pytest.raises(ValueError, match="Unknown softmax_online backend 'other'"):
            forge.set_softmax_online_backend("other")
    finally:
        forge.set_softmax_online_backend("kernel")
        del forge._backends["mine"]


@pytest.mark.parametrize("name", ["kernel", "ref", "forward only"])
def test_softmax_gradients(name) -> None:
    x = torch.randn(3, 5, requires_grad=True)
    dy = torch.randn(3, 5)
    forge.register_softmax_online_backend("forward only", torch.softmax, overwrite=True)
    try:
        forge.set_softmax_online_backend(name)
        (got,) = torch.autograd.grad(forge.softmax_online(x), x, dy)
        close(got, torch.autograd.grad(x.softmax(-1), x, dy)[0])
    finally:
        forge.set_softmax_online_backend("kernel")
        del forge._backends["forward only"]


@pytest.mark.parametrize("name", ["kernel", "ref", "mine"])
def test_any_backend_compiles(name) -> None:
    forge.register_softmax_online_backend("mine", torch.softmax, overwrite=True)
    forge.set_softmax_online_backend(name)
    x, dy = torch.randn(3, 5, requires_grad=True), torch.randn(3, 5)
    try:
        compiled = torch.compile(forge.softmax_online, fullgraph=True, backend="aot_eager")
        (got,) = torch.autograd.grad(compiled(x), x, dy)
        close(got, torch.autograd.grad(x.softmax(-1), x, dy)[0])
    finally:
        forge.set_softmax_online_backend("kernel")
        del forge._backends["mine"]
        torch.compiler.reset()


def test_backends_may_be_replaced_by_ones_that_fit() -> None:
    built_in = forge._backends["kernel"]
    try:
        forge.register_softmax_online_backend("kernel", lambda x, dim: 3 * x, overwrite=True)
        assert torch.equal(forge.softmax_online(torch.ones(2, 3)), torch.full((2, 3), 3.0))
        for wrong in (lambda x, dim: x.sum(dim), lambda x, dim: x.double()):
            forge.register_softmax_online_backend("kernel", wrong, overwrite=True)
            with pytest.raises(ValueError, match="backend 'kernel' returned"):
                forge.softmax_online(torch.ones(2, 3))
    finally:
        forge._backends["kernel"] = built_in
    with pytest.raises(TypeError, match="needs functions"):
        forge.register_softmax_online_backend("none", 3)


def test_upstream_paths() -> None:
    from tilewright.compat.forge.ops import reduce_sum

    assert reduce_sum is forge.reduce_sum


def test_copy_transpose_is_an_operator_of_torch() -> None:
    x = torch.randn(48, 16)
    assert torch.equal(torch.ops.forge_cute_py.copy_transpose(x, 16), x.t().contiguous())
    torch.library.opcheck(torch.ops.forge_cute_py.copy_transpose, (x, 32))
