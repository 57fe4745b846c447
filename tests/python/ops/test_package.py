"""The Python package: import, arrays of other libraries, backends, fallback, explain, reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from package_path import run_python

import tilewright
from tilewright import _schema, backends, composites, ops

ROOT = Path(__file__).resolve().parents[3]
X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 12)


class Lends:
    """An array whose library gives anything for DLPack's capsule."""

    dtype = np.dtype(np.float32)
    shape = (2, 12)

    def __init__(self, given: object) -> None:
        self.given = given

    def __dlpack__(self, **_: object) -> object:
        return self.given


class OnGpu:
    """An array of another library than PyTorch that says to be in a GPU's memory."""

    dtype = np.dtype(np.float32)
    shape = (2, 12)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, **_: object) -> object:
        raise AssertionError("nobody may read it")


@pytest.fixture
def cast_to_torch():
    """An implementation of exp for the backend torch, removed afterwards."""
    tilewright.register_impl("exp", "torch", lambda x: np.exp(x))
    yield
    tilewright.unregister_impl("exp", "torch")


def test_import_loads_neither_torch_nor_numpy() -> None:
    code = (
        "import sys, tilewright, tilewright.env_check\n"
        "assert not {'torch', 'numpy'} & set(sys.modules), sys.modules.keys()"
    )
    assert run_python(code).stderr == ""


def test_works_where_torch_cannot_be_imported() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np, tilewright\n"
        "print(tilewright.ops.exp(np.zeros(2, np.float32)))"
    )
    result = run_python(code)
    assert result.stdout == "[1. 1.]\n", result.stderr


def test_numpy_arrays_come_back_as_numpy_arrays() -> None:
    out = ops.softmax(X)
    assert isinstance(out, np.ndarray)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out.sum(-1), 1, rtol=1e-6)


def test_layouts_of_numpy() -> None:
    want = np.exp(X)
    np.testing.assert_allclose(ops.exp(X.T), want.T, rtol=1e-6)
    np.testing.assert_allclose(ops.exp(X[:, ::3]), want[:, ::3], rtol=1e-6)
    np.testing.assert_allclose(ops.exp(X[::-1, ::-1]), want[::-1, ::-1], rtol=1e-6)
    np.testing.assert_allclose(ops.exp(np.broadcast_to(X[:1], X.shape)), want[[0, 0]], rtol=1e-6)
    read_only = X.copy()
    read_only.flags.writeable = False
    np.testing.assert_allclose(ops.exp(read_only), want, rtol=1e-6)
    assert ops.exp(X[:0]).shape == (0, 12)


def test_dtypes_that_numpy_has_from_elsewhere() -> None:
    dtypes = pytest.importorskip("ml_dtypes")
    x = X.astype(dtypes.bfloat16)
    out = ops.exp(x[:, ::3])
    assert out.dtype == dtypes.bfloat16
    np.testing.assert_array_equal(out, np.exp(x[:, ::3].astype(np.float32)).astype(out.dtype))
    quantized, scale = ops.quantize_fp8(X, 4)
    assert quantized.dtype == dtypes.float8_e4m3fn
    back = ops.dequantize(quantized, scale, 1, 4)
    np.testing.assert_allclose(back, X, rtol=0.1, atol=0.02)
    with pytest.raises(NotImplementedError, match="exp: x: DLPack only supports native byte"):
        ops.exp(X.astype(">f4"))


def test_several_outputs_and_named_arguments() -> None:
    weight = np.ones(12, np.float32)
    out, summed = ops.fused_add_rms_norm(x=X, residual=X, weight=weight, eps=1e-5)
    np.testing.assert_allclose(summed, 2 * X)
    assert out.shape == X.shape


def test_lists_of_integers() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for order in ([2, 0, 1], (2, 0, 1), np.array([2, 0, 1], np.int32)):
        np.testing.assert_array_equal(ops.permute(x, order), x.transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: ops.rms_norm(X, np.ones(5, np.float32)),
            ValueError,
            "weight is f32[5]@cpu, but C",
        ),
        (lambda: ops.softmax(X, 3), ValueError, "dim = 3 is not a dimension of f32[2, 12]"),
        (lambda: ops.exp(X.astype(np.int32)), NotImplementedError, "no kernel takes x: i32"),
        (lambda: ops.exp(X.astype(np.complex64)), NotImplementedError, "complex64, which no"),
        (lambda: ops.exp(), TypeError, "x is missing"),
        (lambda: ops.exp(X, y=1), TypeError, "there is no y"),
        (lambda: ops.exp(3.0), TypeError, "x must be an array"),
        (lambda: ops.exp(np.ma.masked_less(X, 0)), NotImplementedError, "exp: x is masked, which"),
        (lambda: ops.exp(X, backend="metal"), ValueError, "no backend 'metal'"),
        (lambda: ops.exp(X, backend="cuda"), NotImplementedError, "no kernel for backend cuda"),
        (lambda: ops.exp(OnGpu(), backend="cpu"), NotImplementedError, "no kernel for backend cpu"),
        (lambda: ops.no_such_operator(X), AttributeError, "no operator no_such_operator"),
        (lambda: ops.exp(X, x=X), TypeError, "exp: x is given twice"),
        (lambda: ops.exp(X.astype(">f4")), NotImplementedError, "native byte order. Candidates: "),
        (lambda: ops.add(X, Lends(3)), TypeError, "add: other: __dlpack__ of Lends gave 3, no"),
        (lambda: ops.rms_norm(X, None), TypeError, "rms_norm: weight is missing"),
        (lambda: ops.rms_norm(X, X[0], "a"), TypeError, "rms_norm: eps = 'a' must be a number"),
        (lambda: ops.softmax(X, 1.5), TypeError, "softmax: dim = 1.5 must be an integer"),
        (lambda: ops.softmax(X, 2**70), ValueError, "7411303424 must fit 64 bits"),
        (lambda: ops.gelu(X, 3), TypeError, "gelu: approximate = 3 must be a string"),
        (lambda: ops.rope(X, X, X, None, 2), TypeError, "interleaved = 2 must be True or False"),
        (lambda: ops.permute(X, "ab"), TypeError, "permute: dims = 'ab' must be integers"),
    ],
)
def test_errors(call, error, message) -> None:
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)


def test_arrays_in_the_memory_of_a_gpu_that_is_not_there() -> None:
    if "cuda" in tilewright.get_available_backends():
        pytest.skip("it is there")
    with pytest.raises(NotImplementedError, match="no kernel for backend cuda"):
        ops.exp(OnGpu())


def test_tensors_beside_arrays() -> None:
    """The first one decides what comes back, if nothing is lost."""
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(X)
    assert torch.equal(ops.add(tensor, X), 2 * tensor)
    assert isinstance(ops.add(X, tensor), np.ndarray)
    recorded = tensor.clone().requires_grad_()
    ops.add(recorded, X).sum().backward()
    assert torch.equal(recorded.grad, torch.ones(2, 12))
    for call in (lambda: ops.add(X, recorded), lambda: ops.exp(recorded, backend="reference")):
        with pytest.raises(NotImplementedError, match="has no gradient, but a tensor requires one"):
            call()
        with torch.no_grad():
            call()


def test_torch_tensors_raise_the_same_classes() -> None:
    torch = pytest.importorskip("torch")
    tensor, ones = torch.from_numpy(X), torch.ones(12)
    assert torch.equal(ops.rms_norm(tensor, ones, 1e-6), ops.rms_norm(tensor, ones))
    for call, error, message in (
        (lambda: ops.rms_norm(tensor, None), TypeError, "rms_norm: weight is missing"),
        (lambda: ops.rms_norm(tensor, ones, None), TypeError, "rms_norm: eps must not be None"),
        (lambda: ops.rms_norm(tensor, ones, "a"), TypeError, "eps = 'a' must be a number"),
        (lambda: ops.softmax(tensor, 1.5), TypeError, "dim = 1.5 must be an integer"),
        (lambda: ops.exp(tensor.to_sparse()), NotImplementedError, "x is torch.sparse_coo, but a"),
        (
            lambda: ops.exp(tensor.to_mkldnn()),
            NotImplementedError,
            "x is torch._mkldnn, but a dense",
        ),
        (
            lambda: ops.exp(torch.quantize_per_tensor(tensor, 1, 0, torch.qint8)),
            NotImplementedError,
            "exp: x is quantized, but a dense tensor is needed",
        ),
    ):
        with pytest.raises(error) as caught:
            call()
        assert message in str(caught.value)
    with pytest.raises(ValueError, match="C = 12"):
        ops.rms_norm(torch.from_numpy(X), torch.ones(5))
    with pytest.raises(NotImplementedError, match="no kernel takes x: i32"):
        ops.exp(torch.zeros(3, dtype=torch.int32))


def test_gradients_of_registered_implementations() -> None:
    torch = pytest.importorskip("torch")
    weight = torch.tensor([2.0, 3.0])
    seen = []

    def forward(x, other, alpha):
        return (x + alpha * other).detach()  # nothing that PyTorch could record

    def backward(ctx, grad):
        seen.append([len(ctx.saved_tensors), ctx.arguments])
        return grad * 10, grad * 100

    tilewright.register_impl("add", "torch", forward, backward)
    try:
        x = torch.ones(2, requires_grad=True)
        other = torch.ones(2, requires_grad=True)
        out = ops.add(x, other, 0.5, backend="torch")
        out.backward(weight)
        assert torch.equal(out, torch.full((2,), 1.5))
        assert torch.equal(x.grad, 10 * weight)
        assert torch.equal(other.grad, 100 * weight)
        assert seen == [[3, [None, None, 0.5]]]
        with torch.no_grad():
            assert not ops.add(x, other, backend="torch").requires_grad
    finally:
        tilewright.unregister_impl("add", "torch")


def test_backends() -> None:
    assert tilewright.get_current_backend() == "cpu"
    with tilewright.use_backend("reference"):
        assert tilewright.get_current_backend() == "reference"
        with tilewright.explain() as e:
            ops.exp(X)
        assert e.records[0].backend == "reference"
    assert tilewright.get_current_backend() == "cpu"
    without = [name for name in tilewright.get_available_backends_for_op("exp") if name != "cuda"]
    assert without == ["cpu", "reference", *(["torch"] if composites.is_available() else [])]
    with pytest.raises(ValueError, match="did you mean fused_add_rms_norm"):
        tilewright.get_available_backends_for_op("norm")


def test_a_gpu_is_a_backend_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = backends.cuda_unavailable()
    assert ("cuda" in tilewright.get_available_backends()) == (reason == "")
    monkeypatch.setattr(backends, "cuda_unavailable", lambda: "")
    assert "cuda" in tilewright.get_available_backends()
    on_cuda = _schema.find("exp").on_cuda
    assert ("cuda" in tilewright.get_available_backends_for_op("exp")) == on_cuda
    with pytest.raises(NotImplementedError, match=r"takes arrays on the cuda|no kernel for GPUs"):
        ops.exp(X, backend="cuda")
    monkeypatch.setattr(backends, "cuda_unavailable", lambda: "the fan is loose")
    assert "cuda" not in tilewright.get_available_backends()
    with pytest.raises(NotImplementedError, match="cuda: the fan is loose"):
        ops.exp(X, backend="cuda")


def test_a_processor_without_kernels_is_no_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    assert backends.cpu_unavailable() == ""
    monkeypatch.setenv("TILEWRIGHT_ISA", "mmx")
    assert "is no instruction set" in backends.cpu_unavailable()
    assert "cpu" not in tilewright.get_available_backends()
    assert "cpu" not in tilewright.get_available_backends_for_op("exp")
    with pytest.raises(NotImplementedError, match='cpu: TILEWRIGHT_ISA is "mmx"'):
        ops.exp(X, backend="cuda")


def test_the_kernels_of_either_device_are_the_default() -> None:
    with tilewright.use_backend("cuda"), tilewright.explain() as e:
        ops.exp(X)
    assert (e.records[0].backend, e.records[0].kernel) == ("cpu", "exp/cpu")


def test_a_registered_implementation_runs(cast_to_torch: None) -> None:
    assert "torch" in tilewright.get_available_backends_for_op("exp")
    np.testing.assert_allclose(ops.exp(X, backend="torch"), np.exp(X))
    with pytest.raises(ValueError, match="overwrite=True"):
        tilewright.register_impl("exp", "torch", np.exp)


def test_fallback_is_off_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotImplementedError):
        ops.exp(X, backend="cuda")
    monkeypatch.setenv("TILEWRIGHT_FALLBACK", "reference")
    with tilewright.explain(time=True) as e:
        ops.exp(X, backend="cuda")
        ops.exp(X)
    assert e.fallbacks == 1
    assert e.records[0].backend == "reference"
    assert "no kernel for backend cuda" in e.records[0].reason
    assert json.loads(e.to_json())[1]["shapes"] == [[2, 12]]
    assert len(str(e).splitlines()) == 3
    monkeypatch.setenv("DISABLE_FALLBACK", "0")
    ops.exp(X, backend="cuda")
    monkeypatch.setenv("DISABLE_FALLBACK", "1")
    with pytest.raises(NotImplementedError):
        ops.exp(X, backend="cuda")
    for wrong in ("true", "2", ""):
        monkeypatch.setenv("DISABLE_FALLBACK", wrong)
        with pytest.raises(ValueError, match=f"DISABLE_FALLBACK='{wrong}' must be 0 or 1"):
            ops.exp(X, backend="cuda")


@pytest.mark.parametrize("policy", ["torch", "reference"])
def test_candidates_are_listed_where_the_fallback_refuses(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_FALLBACK", policy)
    monkeypatch.setattr(backends, "cuda_unavailable", lambda: "the fan is loose")
    told = "Candidates: cpu: not for these dtypes; cuda: the fan is loose; reference: not for"
    with pytest.raises(NotImplementedError, match=told):
        ops.exp(X.astype(np.int32))

    def refuse(_x: object) -> None:
        raise NotImplementedError("only on Sundays")

    tilewright.register_impl("exp", policy, refuse)
    try:
        with pytest.raises(
            NotImplementedError, match=rf"^only on Sundays\. .*{policy}: only on Su"
        ):
            ops.exp(X.astype(np.int32))
    finally:
        tilewright.unregister_impl("exp", policy)


def test_many_threads() -> None:
    want, wrong = ops.softmax(X), []

    def work() -> None:
        for _ in range(50):
            if not np.array_equal(ops.softmax(X), want):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_after_fork() -> None:
    code = (
        "import os, numpy as np\n"
        "from tilewright import ops\n"
        "x = np.ones((512, 4096), np.float32)\n"
        "want = ops.softmax(x)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if np.array_equal(ops.softmax(x), want) else 3)\n"
        "raise SystemExit(os.waitpid(child, 0)[1])"
    )
    assert run_python(code).returncode == 0


def test_stub_and_header_are_up_to_date() -> None:
    library = Path(os.environ["TILEWRIGHT_LIBRARY_DIR"]) / "libtilewright.so"
    for command in (["tools/python_stubs.py"], ["tools/c_header.py", str(library)]):
        result = subprocess.run([sys.executable, *command, "--check"], cwd=ROOT, check=False)
        assert result.returncode == 0, command
