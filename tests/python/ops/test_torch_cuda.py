"""torch.ops.tilewright on tensors of a GPU: results, streams, graphs, errors."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tilewright.torch  # makes torch.ops.tilewright
import torch
from cases import Case, has_cpu_kernels

from tilewright import _schema, ops

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
OPS = torch.ops.tilewright
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def normal(*shape: int, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(*shape, generator=generator, device="cuda", dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 5), (7, 4096), (2, 3, 1031), (5, 20001), (1, 300000)])
def test_rows_match_float64(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, weight = normal(*shape, dtype=dtype), normal(shape[-1], dtype=dtype, seed=1)
    tolerance = {"rtol": 1.6e-2, "atol": 1e-2} if dtype != torch.float32 else {}
    norm = torch.nn.functional.rms_norm(x.double(), x.shape[-1:], weight.double(), 1e-6)
    torch.testing.assert_close(OPS.rms_norm(x, weight), norm.to(dtype), **tolerance)
    soft = torch.softmax(x.double(), -1).to(dtype)
    torch.testing.assert_close(OPS.softmax(x), soft, rtol=1.6e-2, atol=1e-6)
    total = x.double().sum(-1)
    assert ((OPS.sum(x, -1).double() - total).abs() < 0.02 * total.abs() + 0.5).all()
    assert torch.equal(OPS.copy(x.transpose(0, -1)), x.transpose(0, -1).contiguous())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(9001, 640), (2999, 4096), (700, 8200), (345, 32768), (170, 65536)]
)
def test_gradients_of_norms_match_float64(shape: tuple[int, int], dtype: torch.dtype) -> None:
    """Of so many rows that each block takes several."""
    cols = shape[-1:]
    grad, x, more = (normal(*shape, dtype=dtype, seed=i) for i in range(3))
    weight = normal(*cols, dtype=dtype, seed=3)
    is_wide = dtype == torch.float32
    for_rows = {"rtol": 1e-5, "atol": 1e-5} if is_wide else {"rtol": 1.6e-2, "atol": 1e-2}
    for_sums = {"rtol": 1e-5, "atol": 1e-3} if is_wide else {"rtol": 1.6e-2, "atol": 1e-2}
    wide, scale, shift = (
        t.double().requires_grad_() for t in (x, weight, torch.zeros_like(weight))
    )

    def expect(
        outs: list[torch.Tensor], inputs: list[torch.Tensor], got: tuple[torch.Tensor, ...]
    ) -> None:
        want = torch.autograd.grad(outs, inputs, [grad.double(), more.double()][: len(outs)])
        for i, (value, exact) in enumerate(zip(got, want, strict=True)):
            torch.testing.assert_close(value.double(), exact, **(for_sums if i else for_rows))

    norm = torch.nn.functional.rms_norm(wide, cols, scale, 1e-6)
    got = OPS.rms_norm_backward.full(grad, x, weight, more)
    expect([norm, wide * 1], [wide, scale], got)
    again = OPS.rms_norm_backward.full(grad, x, weight, more)
    assert all(torch.equal(a, b) for a, b in zip(got, again, strict=True))
    norm = torch.nn.functional.layer_norm(wide, cols, scale, shift, 1e-5)
    expect([norm], [wide, scale, shift], OPS.layer_norm_backward.full(grad, x, weight))


def test_goes_into_the_current_stream() -> None:
    stream = torch.cuda.Stream()
    x = torch.zeros(1 << 24, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)  # what follows in this stream comes much later
        x.fill_(-1)
        out = OPS.relu(x)
        x.fill_(2)
    stream.synchronize()
    assert (out == 0).all()


@pytest.mark.parametrize("columns", [1, 33, 63, 65, 130, 255])
def test_what_is_behind_odd_columns_stays(columns: int) -> None:
    wide = torch.full((1, 200, -(-columns // 8) * 8 + 8), 7.0, device="cuda", dtype=torch.bfloat16)
    a, b = normal(1, 200, 128), normal(1, 128, columns, seed=1)
    OPS.matmul.out(a, b, out=wide[:, :, :columns])
    assert (wide[:, :, columns:] == 7).all()
    want = (a.double() @ b.double()).to(torch.bfloat16)
    torch.testing.assert_close(wide[:, :, :columns], want, rtol=1.6e-2, atol=0.1)


def test_is_captured_in_a_graph() -> None:
    x, weight = normal(64, 4096), normal(4096)
    OPS.rms_norm(x, weight), OPS.softmax(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = OPS.softmax(OPS.rms_norm(x, weight))
    x.copy_(normal(64, 4096, seed=5))
    graph.replay()
    assert torch.equal(out, OPS.softmax(OPS.rms_norm(x, weight)))


def test_opcheck() -> None:
    torch.library.opcheck(OPS.rms_norm.default, (normal(3, 40), normal(40)))
    torch.library.opcheck(OPS.silu_and_mul.default, (normal(3, 40),))
    torch.library.opcheck(OPS.permute.default, (normal(3, 4, 5), [2, 0, 1]))


def test_compiles_without_a_break() -> None:
    call = torch.compile(lambda x, w: OPS.gelu(OPS.rms_norm(x, w)), fullgraph=True)
    x, weight = normal(8, 512), normal(512)
    torch.testing.assert_close(call(x, weight), OPS.gelu(OPS.rms_norm(x, weight)))


def test_refuses_tensors_on_two_devices() -> None:
    with pytest.raises(ValueError, match=r"weight is bf16\[8\]@cpu, but x is bf16\[2, 8\]@cuda:0"):
        OPS.rms_norm(normal(2, 8), normal(8).cpu())


def test_says_where_an_operator_has_no_kernel() -> None:
    packed = torch.zeros(64, dtype=torch.uint8, device="cuda")
    with pytest.raises(RuntimeError, match="no kernel takes tensors on cuda:0"):
        OPS.linear_packed(normal(2, 8, dtype=torch.float32), packed)


@pytest.mark.parametrize(
    "op", [op for op in _schema.operators().values() if op.reference_dtypes], ids=lambda op: op.name
)
def test_dtypes_without_a_kernel_are_refused(op: _schema.Operator) -> None:
    """The definition, which answers for them on a CPU, cannot reach a GPU's memory."""
    label, text = op.edge_cases[-1]
    values = [v.cuda() if isinstance(v, torch.Tensor) else v
              for v in Case(op, 0, label, text).arguments()]  # fmt: skip
    for i, arg in enumerate(op.inputs):
        if op.reference_dtypes[0].get(arg.type) == "f64" and values[i] is not None:
            values[i] = values[i].double()
    with pytest.raises(RuntimeError, match="the tensors are on cuda:0"):
        getattr(OPS, op.name)(*values)


def test_explain_names_the_gpu() -> None:
    with tilewright.explain() as e:
        ops.exp(normal(3, 5))
        ops.exp(normal(3, 5), backend="cuda")
        ops.exp(normal(3, 5), backend="reference")
        if has_cpu_kernels():
            ops.exp(normal(3, 5).cpu())
    names = ["cuda", "cuda", "reference"] + ["cpu"] * has_cpu_kernels()
    assert [r.backend for r in e.records] == names
    assert [r.kernel for r in e.records[:3:2]] == ["exp/cuda", "exp/reference"]
    assert [(r.device, r.isa) for r in e.records[:2]] == [("cuda:0", "cuda")] * 2
    assert e.fallbacks == 0


class Lent:
    """An array of a library that has nothing to do with PyTorch's dispatch, as CuPy's are."""

    float32, int32, int64 = torch.float32, torch.int32, torch.int64

    def __init__(self, data: torch.Tensor) -> None:
        self.data = data

    def __dlpack__(self, **named: object) -> object:
        assert named.get("stream", 1) == 1  # none in the CPU's memory
        return self.data.__dlpack__(**named)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.data.__dlpack_device__()

    def __array_namespace__(self) -> type[Lent]:
        return Lent

    @staticmethod
    def empty(sizes: tuple[int, ...], dtype: torch.dtype) -> Lent:
        return Lent(torch.empty(sizes, dtype=dtype, device="cuda"))


def test_arrays_of_other_libraries() -> None:
    x, weight = normal(5, 64, dtype=torch.float32), normal(64, dtype=torch.float32)
    with tilewright.explain() as e:
        got = tilewright.ops.rms_norm(Lent(x), Lent(weight))
    assert isinstance(got, Lent)
    assert torch.equal(got.data, OPS.rms_norm(x, weight))
    assert (e.records[0].backend, e.records[0].isa) == ("cuda", "cuda")
    values, indices = tilewright.ops.topk(Lent(x), 3)
    assert torch.equal(values.data, OPS.topk(x, 3)[0])
    assert indices.data.shape == (5, 3)
    with pytest.raises(ValueError, match="weight"):
        tilewright.ops.rms_norm(Lent(x), Lent(weight.cpu()))
    with pytest.raises(NotImplementedError, match="makes no arrays of"):
        tilewright.ops.type_as(Lent(x), Lent(x[0].bfloat16()))


def test_the_gpu_is_a_backend() -> None:
    assert "cuda" in tilewright.get_available_backends()
    assert "cuda" in tilewright.get_available_backends_for_op("rms_norm")
    x = normal(3, 40, dtype=torch.float32)
    torch.testing.assert_close(ops.softmax(x, backend="reference"), torch.softmax(x, -1))
    assert ops.softmax(x, backend="reference").device == x.device
    reason = "takes arrays on the cpu, these are on the" if has_cpu_kernels() else "this processor"
    with pytest.raises(NotImplementedError, match=f"cpu: {reason}"):
        ops.softmax(x, backend="cpu")
    with pytest.raises(NotImplementedError, match="cuda: takes arrays on the cuda"):
        ops.softmax(x.cpu(), backend="cuda")


WRONG_INDICES = {
    "embedding": "OPS.embedding(torch.ones(5, 8, device=d), torch.tensor([1, 5], device=d))",
    "rope": "OPS.rope(torch.ones(1, 2, 1, 8, device=d), torch.ones(4, 4, device=d), "
    "torch.ones(4, 4, device=d), torch.tensor([[0, -1]], dtype=torch.int32, device=d))",
    "cross_entropy": "OPS.cross_entropy(torch.ones(2, 8, device=d), "
    "torch.tensor([1, 8], device=d))",
    "sample": "OPS.sample(torch.ones(2, 8, device=d), "
    "torch.full((2, 3), 8, dtype=torch.int32, device=d), repetition_penalty=2.0)",
}


@pytest.mark.parametrize("op", WRONG_INDICES)
def test_indices_out_of_range_stop_the_call(op: str) -> None:
    """In a process of its own: a GPU's context does not survive."""
    code = (
        "import torch, tilewright.torch\n"
        "OPS, d = torch.ops.tilewright, 'cuda'\n"
        f"out = {WRONG_INDICES[op]}\n"
        "print('no error', out)"
    )
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root / "python"), "TILEWRIGHT_SYNC": "1"}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1, result.stdout
    assert f"{op}: running on " in result.stderr
    assert "an index is out of range" in result.stderr


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("latent", [256, 512])
@pytest.mark.parametrize("keys", [4096, 8192])
@pytest.mark.parametrize("heads", [64, 128, 256])
@pytest.mark.parametrize("batch", [1, 16, 32, 64])
def test_mla_matches_float64(
    batch: int, heads: int, keys: int, latent: int, dtype: torch.dtype
) -> None:
    """At sizes of real caches, one cache row holding latent and rotated dims."""
    q = normal(batch, 1, heads, latent + 64, dtype=dtype)
    cache = normal(batch, keys, 1, latent + 64, dtype=dtype, seed=1)
    out = OPS.mla(q[..., :latent], q[..., latent:], cache[..., :latent], cache[..., latent:])
    scores = q[:, 0].double() @ cache[:, :, 0].double().mT / (latent + 64) ** 0.5
    want = torch.softmax(scores, -1) @ cache[:, :, 0, :latent].double()
    # The rounding of a result to bf16 is alone more than that.
    relative = 1e-5 if dtype == torch.float16 else 2**-8
    torch.testing.assert_close(out[:, 0].double(), want, rtol=relative, atol=3e-4)


@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("kind", [torch.int8, torch.float8_e4m3fn])
@pytest.mark.parametrize(("latent", "parts"), [(512, 4), (512, 1), (256, 2)])
@pytest.mark.parametrize(("batch", "heads"), [(1, 128), (40, 16), (7, 64)])
def test_mla_of_narrow_latents(
    batch: int, heads: int, latent: int, parts: int, kind: torch.dtype, paged: bool
) -> None:
    """Keys of any number; what follows those that there are is NaN, or as many as a byte has."""
    keys, dtype = 1000, torch.bfloat16
    q = normal(batch, heads, latent + 64, dtype=dtype)
    pe = normal(batch, keys, 1, 64, dtype=dtype, seed=1)
    codes = (normal(batch, keys, 1, latent, dtype=torch.float32, seed=2) * 20).to(kind)
    scales = normal(batch, keys, 1, parts, dtype=torch.float32, seed=3).abs() / 20
    lens = torch.arange(batch, device="cuda", dtype=torch.int32) * 17 % keys + 1
    wide = codes.double() * scales.double().repeat_interleave(latent // parts, -1)
    cache = torch.cat((wide, pe.double()), -1)
    for b in range(batch):
        pe[b, int(lens[b]) :] = math.nan
        scales[b, int(lens[b]) :] = math.nan
    queries = (q[..., :latent], q[..., latent:])
    if paged:
        cut = [x.view(batch * keys // 8, 8, 1, -1) for x in (codes, pe, scales)]
        table = torch.arange(len(cut[0]), device="cuda", dtype=torch.int32).view(batch, -1)
        out = OPS.mla_paged(*queries, cut[0], cut[1], table, lens, None, cut[2])
    else:
        queries = tuple(x[:, None] for x in queries)
        out = OPS.mla(*queries, codes, pe, lens, scales)[:, 0]
    for b in range(batch):
        count = int(lens[b])
        scores = q[b].double() @ cache[b, :count, 0].mT / (latent + 64) ** 0.5
        want = torch.softmax(scores, -1) @ wide[b, :count, 0]
        error = (out[b].double() - want).norm() / want.norm()
        assert error < 8e-3, (b, float(error))


def e4m3(*shape: int, seed: int) -> torch.Tensor:
    return (normal(*shape, dtype=torch.float32, seed=seed) * 16).to(torch.float8_e4m3fn)


@pytest.mark.parametrize(
    ("m", "n", "k", "block"),
    [(4096, 2112, 1024, 128), (128, 4096, 3088, 128), (64, 2112, 7168, 128),
     (2048, 4096, 2048, 4096), (1000, 1031, 1040, 512), (256, 300, 520, 128)],
)  # fmt: skip
def test_scaled_matmul_matches_float64(m: int, n: int, k: int, block: int) -> None:
    a, b = e4m3(m, k, seed=1), e4m3(1, n, k, seed=2)
    depth = -(-k // block)
    a_scale = normal(m, depth, dtype=torch.float32, seed=3).abs()
    b_scale = normal(1, -(-n // block), depth, dtype=torch.float32, seed=4).abs()
    wide_a = a.double() * a_scale.double().repeat_interleave(block, 1)[:, :k]
    wide_b = b_scale[0].double().repeat_interleave(block, 0)[:n]
    wide_b = b[0].double() * wide_b.repeat_interleave(block, 1)[:, :k]
    want = wide_a @ wide_b.t()
    out = OPS.scaled_grouped_matmul(a, b, a_scale, b_scale, block_n=block, block_k=block)
    # What the tensor cores add up has some 14 bits.
    assert (out - want).norm() < 1e-3 * want.norm()


def test_scaled_matmul_groups_change_between_replays() -> None:
    a, b = e4m3(1500, 512, seed=1), e4m3(4, 640, 512, seed=2)
    a_scale = normal(1500, 4, dtype=torch.float32, seed=3).abs()
    b_scale = normal(4, 5, 4, dtype=torch.float32, seed=4).abs()
    offsets = torch.tensor([0, 700, 700, 1400], device="cuda", dtype=torch.int32)
    OPS.scaled_grouped_matmul(a, b, a_scale, b_scale, offsets)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = OPS.scaled_grouped_matmul(a, b, a_scale, b_scale, offsets)
    wide_a = a.double() * a_scale.double().repeat_interleave(128, 1)
    wide_b = b_scale.double().repeat_interleave(128, 1).repeat_interleave(128, 2)
    wide_b = b.double() * wide_b
    for ends in ([0, 700, 700, 1400], [5, 5, 1337, 1500], [1, 2, 3, 3]):
        offsets.copy_(torch.tensor(ends))
        graph.replay()
        want, first = torch.zeros(1500, 640, device="cuda", dtype=torch.float64), 0
        for group, end in enumerate(ends):
            want[first:end] = wide_a[first:end] @ wide_b[group].t()
            first = end
        assert (out - want).norm() < 1e-3 * want.norm(), ends
        assert (out[ends[-1] :] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("sizes", [(64, 96, 128), (301, 203, 77), (1, 500, 64), (130, 8, 2050)])
def test_linear_takes_operands_that_lie_across(
    sizes: tuple[int, int, int], dtype: torch.dtype
) -> None:
    rows, features, depth = sizes
    x, weight = normal(depth, rows, dtype=dtype), normal(depth, features, dtype=dtype, seed=1)
    bias = normal(features, dtype=dtype, seed=2)
    want = x.double().T @ weight.double()
    tolerance = {"rtol": 1.6e-2, "atol": 2e-2 * depth**0.5}
    for left in (x.T, x.T.contiguous()):
        for right in (weight.T, weight.T.contiguous()):
            out = OPS.linear(left, right)
            torch.testing.assert_close(out, want.to(dtype), **tolerance)
            out = OPS.linear(left, right, bias)
            torch.testing.assert_close(out, (want + bias.double()).to(dtype), **tolerance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("features", [64, 66])
def test_fused_loss_of_several_parts(features: int, dtype: torch.dtype) -> None:
    rows, vocabulary = 2500, 131072  # of which the logits of 2048 rows are made at a time
    x = normal(rows, features, dtype=dtype).requires_grad_()
    weight = (normal(vocabulary, features, dtype=dtype, seed=1) * 0.1).requires_grad_()
    target = torch.arange(rows, device="cuda") * 37 % vocabulary
    target[::7] = -100
    loss = OPS.fused_linear_cross_entropy(x, weight, target, reduction="sum")
    grads = torch.autograd.grad(loss, (x, weight))
    exact = [t.detach().double().requires_grad_() for t in (x, weight)]
    want = torch.nn.functional.cross_entropy(exact[0] @ exact[1].T, target, reduction="sum")
    torch.testing.assert_close(loss.double(), want, rtol=1e-2, atol=0)
    for ours, other in zip(grads, torch.autograd.grad(want, exact), strict=True):
        assert float((ours.double() - other).norm() / other.norm()) < 2e-2


@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_quotients_stay_whole(dtype: torch.dtype) -> None:
    """GPUs divide approximately unless they are told not to, and 9 / 3 is below 3 then."""
    y = torch.arange(1, 128, device="cuda").to(dtype)
    for factor in (1, 3, 7, -5, 31):
        x = (y.double() * factor).to(dtype)
        quotient = x.double() / y.double()
        assert torch.equal(OPS.binary(x, y, "trunc_divide"), quotient.trunc().to(dtype))
        assert torch.equal(OPS.binary(x, y, "floor_divide"), quotient.floor().to(dtype))
