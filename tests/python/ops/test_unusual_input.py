"""Input that is wrong is refused; input that is merely unusual is computed."""

from __future__ import annotations

import ctypes
import math
import re
from typing import Any

import numpy as np
import pytest
import tilewright.torch  # noqa: F401 - registers the operators
import torch
from cases import Case, assert_close, every_case, results
from package_path import run_python

from tilewright import _arrays, _call, _library, _schema, _values, ops

OPS = torch.ops.tilewright
X = torch.linspace(-3, 3, 24).reshape(2, 12)


def shrunk(kept: int) -> torch.Tensor:
    """A tensor whose storage was taken away but for so many bytes."""
    out = torch.ones(2, 12)
    out.untyped_storage().resize_(kept)
    return out


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: OPS.exp(shrunk(8)), "exp: x needs 96 bytes, but its storage has 8"),
        (lambda: OPS.exp.out(X, out=shrunk(92)), "exp: out needs 96 bytes, but its storage has 92"),
        (lambda: OPS.add(X, torch.ones(2, 12, device="meta")), "other is on meta, but x is on cpu"),
        (lambda: OPS.add(torch.ones(2, 12, device="meta"), X), "other is on cpu, but x is on meta"),
        (lambda: OPS.exp.out(X, out=torch.ones(2, 12, device="meta")), "out is on meta, but x is"),
        (lambda: OPS.rms_norm(torch.tensor(1.0), torch.ones(1)), "at least 1 dimension is needed"),
        (lambda: OPS.matmul(X, X), "a is f32[2, 12]@cpu, but 3 dimensions are needed"),
        (lambda: OPS.rms_norm(X, torch.ones(12).half()), "weight is f16[12]@cpu, but x is f32"),
        (lambda: OPS.softmax_backward(X, X.T, 0), "output is f32[12, 2]@cpu, but * = [12]"),
        (lambda: OPS.sum.out(X, 0, out=torch.ones(7)), "out is f32[7]@cpu, but * = [12]"),
    ],
)
def test_refusals(call, message) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        call()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda x: OPS.gelu(x), "x: i32[2, 3, 4]@cpu, out: i32[2, 3, 4]@cpu"),
        (lambda x: OPS.softmax(x, 0), "x: i32[2, 3, 4]@cpu, out: i32[2, 3, 4]@cpu"),
        (lambda x: OPS.lerp(x, x[0, 0], x), "x: i32[2, 3, 4]@cpu, end: i32[4]@cpu"),
        (lambda x: OPS.sum(x.bool(), 1), "x: bool[2, 3, 4]@cpu, out: bool[2, 4]@cpu"),
    ],
)
def test_refused_dtypes_name_the_shapes_that_were_given(call, told) -> None:
    """Not what is left of them once dimensions have been moved and merged."""
    with pytest.raises(RuntimeError) as caught:
        call(torch.zeros(2, 3, 4, dtype=torch.int32))
    assert f"no kernel takes {told}" in str(caught.value)


def test_tensors_that_lie_at_the_end_of_their_storage() -> None:
    whole = torch.arange(30.0)
    for part in (whole[6:], whole[5::5], whole.view(5, 6)[:, 3:], whole[30:], whole[29:].view(())):
        assert torch.equal(OPS.scale(part, 2.0), 2 * part)


def test_integers_have_no_gradient() -> None:
    with pytest.raises(RuntimeError, match="floating point"):
        OPS.copy(torch.ones(3, dtype=torch.int32).requires_grad_())
    assert not OPS.copy(torch.ones(3, dtype=torch.int32)).requires_grad


def test_forward_mode_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="exp has no derivative in forward mode"):
        torch.func.jvp(OPS.exp, (X,), (X,))
    with torch.autograd.forward_ad.dual_level():
        assert torch.equal(OPS.relu(X), X.relu())


def pairs(case: Case) -> list[tuple[int, _schema.Argument]]:
    """Inputs that an output could be written to, by shape and dtype."""
    return [
        (i, output)
        for i, arg in enumerate(case.op.inputs)
        for output in case.op.required_outputs
        if (arg.type, arg.dims) == (output.type, output.dims)
    ]


ALIASED = [case for case in every_case() if case.combo == 0 and pairs(case)]
OUT_OF_PLACE = {
    "transpose",
    "permute",
    "attention_backward",
    "attention_varlen_backward",
    "embedding_backward",
    "moe_combine_backward",
}


@pytest.mark.parametrize("case", ALIASED, ids=str)
def test_in_place_is_right_or_refused(case: Case) -> None:
    packet, outputs = getattr(OPS, case.op.name), case.op.required_outputs
    want = results(packet.default(*case.arguments()))
    for i, written in pairs(case):
        arguments = case.arguments()
        given = {arg.name: torch.empty_like(w) for arg, w in zip(outputs, want, strict=True)}
        if arguments[i] is None or given[written.name].shape != arguments[i].shape:
            continue
        given[written.name] = arguments[i]
        if case.op.name in OUT_OF_PLACE and arguments[i].numel():
            with pytest.raises(ValueError, match="in memory"):
                packet.out(*arguments, **given)
            continue
        packet.out(*arguments, **given)
        for arg, w in zip(outputs, want, strict=True):
            assert_close(given[arg.name], w, 0)


@pytest.mark.parametrize("case", [c for c in every_case() if c.is_last and not c.combo], ids=str)
def test_an_output_of_another_size_is_refused(case: Case) -> None:
    packet, arguments = getattr(OPS, case.op.name), case.arguments()
    made = results((packet.full if case.wants_full else packet.default)(*arguments))
    wanted = case.op.outputs if case.wants_full else case.op.required_outputs
    for wrong in range(len(made)):
        for more in (1, -1):
            shapes = [list(w.shape) for w in made]
            shapes[wrong][-1:] = [shapes[wrong][-1] + more] if shapes[wrong] else [2]
            given = {
                arg.name: torch.empty(shape, dtype=w.dtype)
                for arg, shape, w in zip(wanted, shapes, made, strict=True)
            }
            with pytest.raises(ValueError, match=case.op.name):
                packet.out(*arguments, **given)


def test_sizes_that_are_arguments() -> None:
    ids = torch.zeros(4, 2, dtype=torch.int32)
    refused = {
        "k = -1 must be at least 0": lambda: OPS.topk(X, -1),
        "k = -9007199254740993 must be": lambda: OPS.topk(X, -(2**53) - 1),  # no double
        f"size of order overflows 64 bits: 8 * {2**61}": lambda: OPS.moe_align(ids, 8, 2**61 + 1),
        f"size of order overflows 64 bits: 8 + {2**63 - 2}": lambda: OPS.moe_align(
            ids, 1, 2**63 - 1
        ),
        f"block_size = {-(2**53) - 1} at least 1": lambda: OPS.moe_align(ids, 1, -(2**53) - 1),
        "top_k = -2 must be at least 0": lambda: OPS.moe_topk(X, -2),
        "group_size = 0 must be at least 1": lambda: OPS.quantize_fp8(X, 0),
        "group_size = 5 must divide C = 12": lambda: OPS.quantize_int8(X, 5),
        "block_size = 0": lambda: OPS.moe_align(ids, 3, 0),
        "experts = -1": lambda: OPS.moe_align(ids, -1),
        "but C/group_size = 3": lambda: OPS.quantize_int8.out(
            X, 4, out=torch.empty(2, 12, dtype=torch.int8), scale=torch.empty(2, 2)
        ),
    }
    for message, call in refused.items():
        with pytest.raises(ValueError, match=re.escape(message)):
            call()


def test_outputs_that_overlap_something_else_are_refused() -> None:
    buffer = torch.randn(9, 8)
    square = torch.randn(1, 4, 4)
    refused = [
        lambda: OPS.exp.out(buffer[:8], out=buffer[1:]),
        lambda: OPS.exp.out(buffer[1:], out=buffer[:8]),
        lambda: OPS.exp.out(buffer[:, :4], out=buffer[:, 3:7]),
        lambda: OPS.exp.out(buffer[:1].expand(9, 8), out=buffer),
        lambda: OPS.exp.out(buffer[:8, :8].T, out=buffer[:8, :8]),
        lambda: OPS.matmul.out(square, torch.randn(1, 4, 4), out=square),
        lambda: OPS.sum.out(buffer[:, ::2], 1, out=buffer.view(-1)[18:27]),
    ]
    for call in refused:
        with pytest.raises(ValueError, match=r"but it overlaps .* in memory"):
            call()
    x, weight = torch.randn(2, 8), torch.ones(8)
    same = torch.empty(2, 8)
    with pytest.raises(ValueError, match=r"residual_out is .* overlaps out"):
        OPS.fused_add_rms_norm.out(x, x, weight, out=same, residual_out=same)
    with pytest.raises(ValueError, match=r"x_grad is .* overlaps x in memory"):
        OPS.fused_linear_cross_entropy.out(
            x, torch.randn(5, 8), torch.tensor([1, 3]), loss=torch.empty(()), x_grad=x
        )


def test_outputs_between_the_elements_of_an_input_are_not() -> None:
    buffer = torch.randn(6, 40)
    for x, out in [
        (buffer[:, :10], buffer[:, 10:20]),
        (buffer[:, ::2], buffer[:, 1::2]),
        (buffer[::2], buffer[1::2]),
        (buffer[:, 8:9], buffer[:, 9:10]),
    ]:
        want = x.exp()
        OPS.exp.out(x, out=out)
        torch.testing.assert_close(out, want, rtol=1e-6, atol=0)


def written_through_c(strides: list[int], start: int, size: int = 24) -> tuple[int, torch.Tensor]:
    """Status of exp(X) written with these strides, and the memory it was written to."""
    op, reading, memory = _schema.find("exp"), _arrays.Reading(), torch.zeros(size)
    values = (_library.Value * 2)()
    _values.fill(values[0], op.inputs[0], X, reading)
    view = _library.TensorView(
        data=memory.data_ptr() + 4 * start,
        device=_library.Device(1, 0),
        rank=2,
        dtype=_library.DataType(2, 32, 1),
        shape=(ctypes.c_int64 * 2)(2, 12),
        strides=(ctypes.c_int64 * 2)(*strides),
    )
    values[1].kind, values[1].payload.tensor = _library.TENSOR, ctypes.pointer(view)
    handle = _library.operator_handle("exp")
    return _library.load().tw_call(_call._context(), handle, values, 2, None, None), memory


def test_output_strides_of_the_c_interface() -> None:
    status, memory = written_through_c([1, 2], 0)  # by columns: each element has its place
    assert status == 0
    torch.testing.assert_close(memory.view(12, 2).T, X.exp(), rtol=1e-6, atol=0)
    overlaps, backwards = "its elements may overlap in memory", "its strides must not be negative"
    refused = [([0, 1], overlaps), ([11, 1], overlaps), ([1, 1], overlaps)]
    refused += [([-12, 1], backwards), ([12, -1], backwards), ([-12, -1], backwards)]
    for strides, rule in refused:
        status, memory = written_through_c(strides, 24, 60)
        assert status == 1, strides
        told = _library.load().tw_last_error().decode()
        assert told.startswith(f"exp: out is f32[2, 12]@cpu, but {rule}\n  in exp(")
        assert not memory.any()


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_numpy_arrays_that_run_backwards_are_read(backend) -> None:
    """Of PyTorch's tensors none do."""
    x = np.random.default_rng(0).standard_normal((6, 10), dtype=np.float32)
    for back in (x[::-1], x[:, ::-1], x[::-1, ::-1], x[::-2, ::-3]):
        near = np.ascontiguousarray(back)
        for function in (ops.exp, ops.softmax, ops.sum, ops.copy, ops.transpose):
            got, want = function(back, backend=backend), function(near, backend=backend)
            np.testing.assert_array_equal(got, want)
        weight = np.ones(back.shape[1], np.float32)[::-1]
        for got, want in (
            (ops.linear(back, back, backend=backend), ops.linear(near, near, backend=backend)),
            (ops.rms_norm(back, weight), ops.rms_norm(near, np.ascontiguousarray(weight))),
            (ops.add(back, near), ops.add(near, near)),
        ):
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [torch.from_numpy, np.asarray])
def test_a_call_after_one_that_found_no_memory(kind) -> None:
    """Which had given back what both use."""
    x = kind(np.linspace(-1, 1, 300 * 300, dtype=np.float32).reshape(300, 300))
    want = ops.linear(x, x)
    keys, beta = (kind(np.ones(shape, np.float32)) for shape in ((1, 7, 1, 8), (1, 7, 1)))
    with pytest.raises(MemoryError, match="cannot allocate"):
        ops.delta_rule_transform(keys, beta, None, 8 * 10**6)  # more than addresses reach
    np.testing.assert_array_equal(ops.linear(x, x), want)


def test_while_the_interpreter_ends() -> None:
    result = run_python(
        "import atexit, threading, torch, tilewright.torch\n"
        "x = torch.randn(64, 512)\n"
        "call = torch.ops.tilewright.softmax.default\n"
        "class Last:\n"
        "    def __del__(self):\n"
        "        call(x)\n"
        "last = Last()\n"
        "atexit.register(lambda: print(float(call(x).sum()).__round__()))\n"
        "def work():\n"
        "    for _ in range(300):\n"
        "        call(x)\n"
        "for _ in range(3):\n"
        "    threading.Thread(target=work).start()\n"
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "64\n"


def test_results_do_not_keep_their_arguments() -> None:
    import weakref

    x: Any = torch.randn(4, requires_grad=True)
    plain = torch.randn(4)
    gone = weakref.ref(plain)
    out = OPS.add(x, plain)
    del plain
    assert gone() is None
    assert out.requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("queries", [1, 40])
@pytest.mark.parametrize("hidden", [100, 700, 1500])
def test_scores_of_minus_infinity_weigh_nothing(
    dtype: torch.dtype, queries: int, hidden: int
) -> None:
    """As a mask of them does; a row of nothing else is zero, as PyTorch's."""
    keys = 1500
    q, k, v = (torch.randn(2, n, 4, 64).to(dtype) for n in (queries, keys, keys))
    q[..., 0] = 1
    k[:, :hidden, :, 0] = -math.inf
    out, lse = OPS.attention.full(q, k, v)
    if hidden == keys:
        assert torch.equal(out, torch.zeros_like(out))
        assert bool((lse == -math.inf).all())
    else:
        want, want_lse = OPS.attention.full(q, k[:, hidden:], v[:, hidden:])
        if dtype == torch.bfloat16:  # weights, too, where pairs of them are multiplied
            torch.testing.assert_close(out, want, rtol=1.6e-2, atol=1e-3)
        else:
            torch.testing.assert_close(out, want)
        torch.testing.assert_close(lse, want_lse)
