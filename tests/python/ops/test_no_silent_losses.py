"""What PyTorch keeps account of, and a call could lose without a word."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import tilewright.torch  # makes torch.ops.tilewright
import torch
import torch.nn.functional as F

import tilewright
from tilewright import ops

OPS = torch.ops.tilewright


@pytest.mark.parametrize("name", ["exp", "sigmoid", "softmax"])
def test_hessians_in_forward_mode_are_refused(name: str) -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = getattr(OPS, name)(x).square().sum()
        return out

    x = torch.tensor([0.3, 0.7])
    with pytest.raises(NotImplementedError, match="no derivative in forward mode"):
        torch.func.hessian(loss)(x)
    with pytest.raises(NotImplementedError, match="no derivative in forward mode"):
        torch.func.jvp(torch.func.grad(loss), (x,), (torch.ones(2),))
    backwards = torch.func.jacrev(torch.func.jacrev(loss))(x)
    expected = torch.autograd.functional.hessian(loss, x)
    torch.testing.assert_close(backwards, expected)
    assert float(expected.abs().max()) > 0


def test_a_result_written_over_what_a_gradient_needs_is_noticed() -> None:
    w = torch.tensor([2.0, 3.0], requires_grad=True)
    y = w * 1
    z = y * y
    with torch.no_grad():
        OPS.exp.out(torch.zeros(2), out=y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(z.sum(), w)


def test_negative_views_are_read_as_what_they_are() -> None:
    negative = torch._neg_view(torch.ones(2))
    want = torch.full((2,), float(np.exp(-1)))
    torch.testing.assert_close(ops.exp(negative), want)
    torch.testing.assert_close(ops.exp(negative, backend="reference"), want)
    assert (ops.add(np.ones(2, np.float32), negative) == 0).all()


def test_composites_refuse_what_kernels_refuse() -> None:
    ones = torch.ones(2, 4)
    for call, kind, text in (
        (lambda: ops.exp(ones.int(), backend="torch"), NotImplementedError, "int32"),
        (lambda: ops.add(ones, ones.double(), backend="torch"), ValueError, "other is f64"),
        (lambda: ops.rms_norm(ones, torch.ones(1), backend="torch"), ValueError, "C = 4"),
    ):
        with pytest.raises(kind, match=text):
            call()


def test_an_implementation_must_be_callable() -> None:
    with pytest.raises(TypeError, match="must be callable"):
        tilewright.register_impl("exp", "cpu", 3)  # type: ignore[arg-type]


def test_losses_under_autocast_are_float32() -> None:
    x = torch.randn(4, 9).bfloat16().requires_grad_()
    target = torch.tensor([1, 2, 3, 4])
    with torch.autocast("cpu", torch.bfloat16):
        ours = OPS.cross_entropy(x, target)
        theirs = torch.nn.functional.cross_entropy(x, target)
    assert ours.dtype == theirs.dtype == torch.float32
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_autocast_is_the_same_on_every_backend(is_compiled: bool) -> None:
    """Composites compute within the dtypes that they are given."""
    x, target = torch.randn(9, 9), torch.arange(9)

    def call(backend: str | None) -> list[torch.Tensor]:
        product = ops.linear(x, x, backend=backend)
        mixed = ops.add(product, x, backend=backend)
        loss = ops.cross_entropy(product, target, backend=backend)
        return [product, mixed, loss, ops.softmax(product, backend=backend)]

    torch._dynamo.reset()
    run = torch.compile(call, backend="eager") if is_compiled else call
    tilewright.register_impl("softmax", "torch", lambda x, dim: x.softmax(dim))
    try:
        with torch.autocast("cpu", torch.bfloat16):
            want = run(None)
            found = [run(backend) for backend in ("cpu", "torch", "reference")]
    finally:
        tilewright.unregister_impl("softmax", "torch")
    dtypes = [torch.bfloat16, torch.float32, torch.float32, torch.bfloat16]
    for made in (want, *found):
        assert [result.dtype for result in made] == dtypes
        for result, expected in zip(made, want, strict=True):
            torch.testing.assert_close(result, expected, rtol=1.6e-2, atol=1e-2)


class Lender:
    """All that DLPack asks for."""

    def __init__(self, array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
        self.array = array

    def __dlpack__(self, **named: object) -> object:
        return self.array.__dlpack__(**named)  # type: ignore[arg-type]

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_what_lends_its_memory_needs_nothing_else() -> None:
    with tilewright.explain() as e:
        out = ops.exp(Lender(np.zeros(3, np.float32)))
    assert (out == 1).all()
    assert e.records[0].kernel == "exp/cpu"


def _dirty_memory() -> None:
    """Leaves NaN where the next tensors of some KiB are allocated."""
    held = [torch.full((1 << k,), float("nan")) for k in range(4, 14) for _ in range(8)]
    del held


@pytest.mark.parametrize("backend", ["cpu", "reference", "torch"])
@pytest.mark.parametrize(("first", "last"), [(0, 5), (3, 9), (0, 0)])
def test_rows_outside_all_sequences_are_zero(backend: str, first: int, last: int) -> None:
    q, kv = torch.randn(9, 2, 16), torch.randn(12, 2, 16)
    pages, lens = kv.view(3, 4, 2, 16), torch.tensor([7], dtype=torch.int32)
    cu = torch.tensor([first, last], dtype=torch.int32)
    keys, table = torch.tensor([0, 12], dtype=torch.int32), torch.tensor([[0, 1]]).int()
    latent, turned = kv[:, :1].view(3, 4, 1, 16), kv[:, 1:, :4].view(3, 4, 1, 4)
    for call in (
        lambda: ops.attention_varlen(q, kv, kv, cu, keys, backend=backend),
        lambda: ops.attention_paged(q, pages, pages, table, lens, cu, backend=backend),
        lambda: ops.mla_paged(q, q[..., :4], latent, turned, table, lens, cu, backend=backend),
    ):
        _dirty_memory()
        out = call()
        outside = torch.cat((out[:first], out[last:]))
        assert (outside == 0).all()
        assert (out[first:last] != 0).any() == (last > first)


def test_new_outputs_of_arrays_and_lse_have_no_rows_of_what_was_there() -> None:
    q, kv = np.ones((9, 2, 16), np.float32), np.ones((12, 2, 16), np.float32)
    cu, keys = np.array([0, 5], np.int32), np.array([0, 12], np.int32)
    for _ in range(8):
        np.full((9, 2, 16), np.nan, np.float32)  # freed at once
        assert (ops.attention_varlen(q, kv, kv, cu, keys)[5:] == 0).all()
    _dirty_memory()
    given = [torch.from_numpy(array) for array in (q, kv, kv, cu, keys)]
    assert (OPS.attention_varlen.full(*given)[1][:, 5:] == 0).all()


def test_a_given_output_keeps_its_rows_outside_all_sequences() -> None:
    q, out = torch.ones(9, 2, 16), torch.full((9, 2, 16), 7.0)
    cu, keys = torch.tensor([2, 5]).int(), torch.tensor([0, 9]).int()
    OPS.attention_varlen.out(q, q, q, cu, keys, out=out)
    assert (out[:2] == 7).all()
    assert (out[5:] == 7).all()
    assert (out[2:5] == 1).all()


def test_numbers_reach_kernels_as_they_are() -> None:
    ones = torch.ones(3, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"alpha = 0.5\d* must be an integer"):
        ops.add(ones, ones, alpha=0.5)
    big = (1 << 53) - 1
    assert ops.add(ones, ones, alpha=big).tolist() == [1 << 53] * 3
    x = torch.ones(3, dtype=torch.float64)
    assert ops.add(x, x, alpha=0.1).tolist() == torch.add(x, x, alpha=0.1).tolist()
    assert ops.scale(x, 0.1).tolist() == (x * 0.1).tolist()
    many = torch.ones(4096)
    seeds = [(1 << 62) + k for k in range(3)]
    masks = [ops.dropout(many, seed=seed) for seed in seeds]
    assert not torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[1], masks[2])


def test_none_is_not_a_number_of_another_meaning() -> None:
    x = torch.ones(2, 3)
    with pytest.raises(TypeError, match="dim must not be None"):
        ops.sum(x, None)
    with pytest.raises(TypeError, match="alpha must not be None"):
        ops.add(x, x, None)


def test_losses_take_shares_between_0_and_1() -> None:
    x, target = torch.ones(2, 3), torch.zeros(2, dtype=torch.int64)
    for share in (-0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match=r"must be in 0 \.\. 1"):
            ops.cross_entropy(x, target, label_smoothing=share)
        with pytest.raises(ValueError, match=r"must be in 0 \.\. 1"):
            ops.fused_linear_cross_entropy(x, torch.ones(4, 3), target, label_smoothing=share)


def dividing(eps: float, backend: str | None) -> list[Callable[[], object]]:
    """Calls of operators that keep a divisor from 0."""
    x, weight = torch.ones(2, 4), torch.ones(4)
    given = {"eps": eps, "backend": backend}
    return [
        lambda: ops.rms_norm(x, weight, **given),
        lambda: ops.rms_norm_backward(x, x, weight, **given),
        lambda: ops.fused_add_rms_norm(x, x, weight, **given),
        lambda: ops.layer_norm(x, **given),
        lambda: ops.layer_norm_backward(x, x, **given),
        lambda: ops.sinkhorn(x[None], **given),
        lambda: ops.quantize_int8(x, 4, **given),
        lambda: ops.quantize_fp8(x, 4, **given),
    ]


@pytest.mark.parametrize("backend", [None, "reference"])
def test_eps_is_no_negative_number(backend: str | None) -> None:
    for eps in (-1e-6, math.nan, math.inf):
        for call in dividing(eps, backend):
            with pytest.raises(ValueError, match=r"eps = \S+ must be finite and at least 0"):
                call()
    for call in dividing(0.0, backend):
        call()


@pytest.mark.parametrize("backend", [None, "reference"])
def test_windows_are_sizes_or_minus_1(backend: str | None) -> None:
    q, cu = torch.randn(1, 5, 2, 8), torch.tensor([0, 5], dtype=torch.int32)
    flat, lse = q[0], torch.zeros(1, 2, 5)
    table, lens = torch.zeros(1, 1, dtype=torch.int32), torch.tensor([5], dtype=torch.int32)
    for name in ("window_left", "window_right"):
        given = {name: -2, "backend": backend}
        for call in (
            lambda given=given: ops.attention(q, q, q, **given),
            lambda given=given: ops.attention_varlen(flat, flat, flat, cu, cu, **given),
            lambda given=given: ops.attention_paged(flat, q, q, table, lens, cu, **given),
            lambda given=given: ops.attention_backward(q, q, q, q, q, lse, **given),
            lambda given=given: ops.attention_varlen_backward(
                flat, flat, flat, flat, flat, lse[0], cu, cu, **given
            ),
        ):
            with pytest.raises(ValueError, match=f"{name} = -2 must be at least -1"):
                call()


def test_numbers_keep_float64_beside_tensors_of_it() -> None:
    torch.manual_seed(2)
    x, weight = torch.randn(3, 8, dtype=torch.float64), torch.ones(8, dtype=torch.float64)
    q = torch.randn(1, 5, 2, 8, dtype=torch.float64)
    heads, target = q.transpose(1, 2), torch.tensor([1, 0, 7])
    small = 1e-3 * x
    pairs = [
        (ops.rms_norm(small, weight, 1e-5), F.rms_norm(small, (8,), weight, 1e-5)),
        (ops.layer_norm(small, weight, None, 1e-5), F.layer_norm(small, (8,), weight, None, 1e-5)),
        (ops.activation(x, "clamp", -0.1, 0.3), x.clamp(-0.1, 0.3)),
        (ops.activation(x, "leaky_relu", 0.01), F.leaky_relu(x, 0.01)),
        (ops.lerp(x, weight, None, 0.3), torch.lerp(x, weight.expand_as(x), 0.3)),
        (ops.matmul(x, x.T, 0.1), 0.1 * (x @ x.T)),
        (
            ops.cross_entropy(x, target, label_smoothing=0.1),
            F.cross_entropy(x, target, label_smoothing=0.1),
        ),
        (
            ops.attention(q, q, q, scale=0.3),
            F.scaled_dot_product_attention(*[heads] * 3, scale=0.3).transpose(1, 2),
        ),
        (
            ops.attention(q, q, q, scale=0.3, softcap=0.7),
            (0.7 * (0.3 * heads @ heads.mT / 0.7).tanh()).softmax(-1).matmul(heads).transpose(1, 2),
        ),
    ]
    for got, want in pairs:
        torch.testing.assert_close(got, want, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("backend", [None, "reference", "torch"])
def test_unknown_dtypes_are_named(backend: str | None) -> None:
    for array in (torch.zeros(3, dtype=torch.complex64), torch.zeros(3, dtype=torch.uint16)):
        with pytest.raises(NotImplementedError, match=f"exp: x is {array.dtype}, which no"):
            ops.exp(array, backend=backend)
    with pytest.raises(NotImplementedError, match="exp: x is complex64, which no operator takes"):
        ops.exp(np.zeros(3, np.complex64), backend=backend)


def test_each_candidate_says_why_not() -> None:
    for call in (
        lambda: tilewright.set_backend("julia"),
        lambda: ops.exp(torch.zeros(3), backend="julia"),
    ):
        with pytest.raises(ValueError, match=r"no backend 'julia'\. Candidates: cpu: available; "):
            call()
    refused = r"\. Candidates: cpu: not for these dtypes; cuda: .+; reference: not for .+; torch: "
    for array in (torch.zeros(3, dtype=torch.int32), np.zeros(3, np.int32)):
        with pytest.raises(NotImplementedError, match=refused):
            ops.exp(array)
