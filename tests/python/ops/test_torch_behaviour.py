"""torch.ops.tilewright beside the rest of PyTorch: refusals, modes, threads, processes."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import tilewright.torch
import torch
from cases import every_case

import tilewright

OPS = torch.ops.tilewright
X = torch.linspace(-3, 3, 24).reshape(2, 12)
ROOT = Path(__file__).resolve().parents[3]


def resident_mebibytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: OPS.rms_norm(X, torch.ones(5)), ValueError, "weight is f32[5]@cpu, but C = 12"),
        (lambda: OPS.softmax(X, 2), ValueError, "dim = 2 is not a dimension of f32[2, 12]@cpu"),
        (lambda: OPS.add(X, torch.ones(5)), ValueError, "which does not broadcast to [2, 12]"),
        (lambda: OPS.exp(X.int()), RuntimeError, "no kernel takes x: i32"),
        (lambda: OPS.exp(X.to(torch.complex64)), RuntimeError, "x is complex64, which no operator"),
        (lambda: OPS.copy(X.to(torch.uint16)), RuntimeError, "x is uint16, which no operator"),
        (
            lambda: OPS.exp(X[0, 0].expand(1 << 59)),
            RuntimeError,
            "out[576460752303423488], 2.31e+18 bytes, was not allocated",
        ),
        (lambda: OPS.exp(torch.zeros([1] * 9)), ValueError, "9 dimensions, but at most 8"),
        (lambda: OPS.permute(X, [0, 0]), ValueError, "dims must hold each of 0 .. 1 once"),
        (lambda: OPS.exp.out(X, out=torch.empty(3)), ValueError, "broadcast to [2, 12]"),
        (
            lambda: OPS.exp.out(X, out=torch.empty(2, 1).expand(2, 12)),
            ValueError,
            "its elements may overlap",
        ),
        (lambda: OPS.exp.out(X, out=torch.empty(2, 12).double()), ValueError, "must be f32"),
        (
            lambda: OPS.embedding(torch.ones(3, 2), torch.tensor([3])),
            ValueError,
            "index 3 is outside the 3 rows",
        ),
        (lambda: OPS.exp(X.to_sparse()), NotImplementedError, "SparseCPU"),
        (lambda: OPS.exp([1.0]), RuntimeError, "Expected a value of type 'Tensor'"),
    ],
)
def test_refusals(call, error, message) -> None:
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)


CASE_OF = {case.op.name: case for case in reversed(every_case())}


@pytest.mark.parametrize("name", CASE_OF)
def test_each_required_tensor_that_is_missing_is_named(name: str) -> None:
    case = CASE_OF[name]
    arguments = case.arguments()
    call = getattr(OPS, name)
    for i, arg in enumerate(case.op.inputs):
        if i == 0 or arg.kind != "tensor" or arg.optional or arg.is_int_list:
            continue
        with pytest.raises(RuntimeError, match=f"^{name}: {arg.name} is missing\n  in {name}"):
            call.default(*arguments[:i], None, *arguments[i + 1 :])
    with pytest.raises(RuntimeError, match=f"^{name}: {case.op.outputs[0].name} is missing\n"):
        call.out(*arguments, **dict.fromkeys((arg.name for arg in case.op.outputs), None))


@pytest.mark.parametrize("wants_gradient", [False, True])
def test_nested_tensors_are_refused(wants_gradient: bool) -> None:
    nested = torch.nested.nested_tensor([X, X[:1]], requires_grad=wants_gradient)
    with pytest.raises(NotImplementedError, match="NestedTensorCPU"):
        OPS.relu(nested)


def test_calls_after_a_refusal_are_recorded() -> None:
    x = X.clone().requires_grad_()
    for mode in (torch.enable_grad, torch.no_grad):
        with mode(), pytest.raises(ValueError, match="but C = 12"):
            OPS.rms_norm(x, torch.ones(5))
    OPS.rms_norm(x * 2, torch.ones(12)).sum().backward()
    assert x.grad is not None


def test_no_call_keeps_memory() -> None:
    def calls() -> None:
        x = torch.ones(1, 2**18)
        with pytest.raises(ValueError, match="C = 262144"):
            OPS.rms_norm(x, torch.ones(5))
        OPS.exp(x)
        OPS.exp.out(x, out=torch.empty_like(x))
        OPS.rope(x.reshape(1, 1, -1, 64), *[torch.ones(9, 32)] * 2, torch.zeros(1, 1).int())
        OPS.permute(x, [1, 0])

    calls()
    before = resident_mebibytes()
    for _ in range(300):
        calls()
    assert resident_mebibytes() - before < 100  # one tensor kept per round: 300


def test_modes() -> None:
    want = X.softmax(-1)
    with torch.inference_mode():
        assert OPS.softmax(X).is_inference()
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(OPS.softmax(X), want)
    with torch.device("meta"):
        assert OPS.softmax(torch.empty(3, 4)).shape == (3, 4)
    on_meta = OPS.attention.full(*[torch.empty(2, 5, 4, 8, device="meta")] * 3)
    assert [tuple(t.shape) for t in on_meta] == [(2, 5, 4, 8), (2, 4, 5)]


def test_outputs_made_in_inference_mode_are_written_there_only() -> None:
    """As PyTorch's own are; whatever the inputs are."""
    with torch.inference_mode():
        out, x, lse = torch.zeros_like(X), X.clone(), torch.empty(1, 1, 2)
        theirs = out.clone()  # which PyTorch writes before it refuses
    for given in (X, x):
        with pytest.raises(RuntimeError, match="outside InferenceMode is not allowed"):
            torch.exp(given, out=theirs)
        with pytest.raises(RuntimeError, match=r"^exp: out: Inplace update to inference tensor"):
            OPS.exp.out(given, out=out)
    with torch.no_grad(), pytest.raises(RuntimeError, match="outside InferenceMode"):
        OPS.exp.out(X, out=out)
    q = torch.randn(1, 2, 1, 8)
    with pytest.raises(RuntimeError, match=r"^attention: lse: "):
        OPS.attention.out(q, q, q, out=torch.empty_like(q), lse=lse)
    with torch.inference_mode():
        assert not out.any()  # nothing was written
        OPS.exp.out(X, out=out)
        torch.testing.assert_close(out, X.exp())


def test_writing_in_inference_mode_is_told_to_autograd() -> None:
    for exp, function in ((torch.exp, torch.exp), (OPS.exp, OPS.exp.out)):
        leaf = X.clone().requires_grad_()
        kept = exp(leaf)
        with torch.inference_mode():
            normal = kept.detach()
            function(X, out=normal)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            kept.sum().backward()


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_what_torch_ops_run_is_the_kernel_whatever_the_backend(mode) -> None:
    tilewright.register_impl("exp", "cpu", lambda x: x * 0)
    try:
        with mode(), tilewright.explain() as e:
            for backend in ("reference", "torch", "cpu"):
                with tilewright.use_backend(backend):
                    torch.testing.assert_close(OPS.exp(X), X.exp())
            assert not tilewright.ops.exp(X).any()
    finally:
        tilewright.unregister_impl("exp", "cpu")
    assert {(r.backend, r.reason) for r in e.records[:3]} == {("cpu", "called through torch.ops")}
    assert len(e.records) == 4


class Norm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(12), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return OPS.rms_norm(x, self.weight)


def test_inside_a_module() -> None:
    norm = Norm()
    want = torch.nn.functional.rms_norm(X, (12,), eps=1e-6)
    torch.testing.assert_close(copy.deepcopy(norm)(X), want)
    doubled = torch.func.functional_call(norm, {"weight": 2 * norm.weight}, X)
    torch.testing.assert_close(doubled, 2 * want)
    exported = torch.export.export(norm, (X,), dynamic_shapes=({0: torch.export.Dim("rows")},))
    torch.testing.assert_close(exported.module()(X.repeat(3, 1)), want.repeat(3, 1))


def test_the_same_bits_for_every_number_of_threads() -> None:
    x = torch.randn(300, 4096)
    kept = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(OPS.softmax(x))
    finally:
        torch.set_num_threads(kept)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_weight_packed_here_multiplies(dtype: torch.dtype) -> None:
    x, weight = torch.randn(3, 37).to(dtype), torch.randn(50, 37).to(dtype)
    got = OPS.linear_packed(x, OPS.pack_weight(weight))
    assert torch.equal(got, OPS.linear_packed(x, OPS.pack_weight(weight.t().contiguous().t())))
    want = torch.nn.functional.linear(x.double(), weight.double()).to(dtype)
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)


def test_no_threads_beside_those_of_torch() -> None:
    code = (
        "import pathlib, torch, tilewright.torch\n"
        "torch.set_num_threads(3)\n"
        "torch.ops.tilewright.softmax(torch.randn(512, 4096))\n"
        "for task in pathlib.Path('/proc/self/task').iterdir():\n"
        "    print((task / 'comm').read_text().strip())\n"
    )
    paths = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    result = subprocess.run(
        [sys.executable, "-c", code], env=paths, capture_output=True, text=True, check=True
    )
    names = result.stdout.split()
    assert len(names) >= 3
    assert not [name for name in names if name.startswith("tilewright")]


def test_many_threads_at_once() -> None:
    x = torch.randn(64, 1024)
    want, wrong = OPS.softmax(x), []

    def work() -> None:
        for _ in range(30):
            if not torch.equal(OPS.softmax(x), want):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
