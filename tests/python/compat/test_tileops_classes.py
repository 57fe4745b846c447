"""TileOPs' operators as classes, and tilewright as a backend of TileOPs."""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from oracles import close
from tilewright.compat import coverage, tileops
from tilewright.compat._tileops_classes import Op
from tilewright.compat.tileops.gemm import GemmFwdOp, GEMMW4A8FwdOp, GEMMW4A16FwdOp
from tilewright.compat.tileops.norm import BatchNormFwdOp, RMSNormFwdOp
from tilewright.compat.tileops.ops.moe import ContiguousLayoutSpec, MoEPrePermuteFwdOp

LINES = (Path(__file__).parent / "classes.txt").read_text().splitlines()
X, W = torch.randn(3, 5, 24), torch.randn(24)


def declared() -> list[tuple[str, str]]:
    """The family and the line of each class of the file."""
    found, family = [], ""
    for line in LINES:
        if line.startswith("["):
            family = line[1:-1]
        elif not line.startswith("#"):
            found.append((family, line))
    return found


NAMES = [line.replace("(", " ").split()[0] for _, line in declared()]


def taken(text: str) -> list[inspect.Parameter]:
    """The parameters that a line states."""
    where: dict[str, Any] = {"inf": float("inf"), "torch": torch}
    exec(f"def f({text}): ...", where)
    return list(inspect.signature(where["f"]).parameters.values())


def test_every_class_takes_what_upstream_takes() -> None:
    for family, line in declared():
        module = importlib.import_module(f"tilewright.compat.tileops.{family}")
        name, is_older, of = line.partition(" = ")
        if is_older:
            assert vars(module)[name] is vars(module)[of] is getattr(tileops.ops, name)
            continue
        name, _, rest = line.partition("(")
        told, _, tensors = rest.partition(")")
        cls = getattr(module, name)
        assert cls is getattr(tileops.ops, name)
        ours = list(inspect.signature(cls).parameters.values())
        assert ours == list(inspect.signature(cls.__init__).parameters.values())[1:]
        assert [p.name for p in ours[-3:]] == ["target", "kernel_map", "tune"]
        theirs = taken(told)
        assert [p.name for p in ours[:-3]] == [p.name for p in theirs], line
        for mine, other in zip(ours, theirs, strict=False):
            assert other.default in (other.empty, mine.default), line
        if tensors:
            call = list(inspect.signature(cls.forward).parameters.values())[1:]
            call = [(p.name, p.default) for p in call if p.name != "out"]
            assert call == [(p.name, p.default) for p in taken(tensors[4:])], line
    assert coverage(["tileops.ops"])["tileops.ops"].provided.keys() == set(NAMES)
    assert len(NAMES) == len(set(NAMES))


def test_parameters_first_then_tensors() -> None:
    op = RMSNormFwdOp(normalized_shape=(24,))
    close(op(X, W), F.rms_norm(X, (24,), W))
    close(op(X / 1e4), F.rms_norm(X / 1e4, (24,)))
    assert op.normalized_shape == (24,)
    assert op.eps is None
    close(GemmFwdOp(False, False)(X[0], X[1].T.contiguous()), X[0] @ X[1].T)
    close(tileops.reduction.SumFwdOp(dim=-1, keepdim=True)(X), X.sum(-1, keepdim=True))
    close(tileops.elementwise.AddFwdOp(alpha=2).forward(X, W), X + 2 * W)
    want = tileops.rope_yarn(X[0], scale=2.0)
    close(tileops.rope.YaRNFwdOp(input_layout="1d", scaling_factor=2.0)(X[0]), want)
    close(tileops.rope.RopeYarnFwdOp(layout="1d", scale=2.0)(x=X[0]), want)
    rope = tileops.rope.RoPEFwdOp("interleaved")
    close(rope(X[0]), tileops.rope_non_neox(X[0]))
    assert callable(tileops.gemm)  # the function


def test_tensors_that_may_be_none_may_be_left_out() -> None:
    x, mean, var = torch.randn(4, 3, 5), torch.zeros(3), torch.ones(3)
    close(BatchNormFwdOp(training=True)(x)[0], F.batch_norm(x, None, None, training=True))
    assert BatchNormFwdOp()(x, mean, var)[1:] == (None, None)
    close(BatchNormFwdOp()(x, mean, running_var=var)[0], F.batch_norm(x, mean, var))


def test_what_classes_refuse() -> None:
    with pytest.raises(TypeError, match="RMSNormFwdOp: missing a required argument"):
        RMSNormFwdOp()
    with pytest.raises(TypeError, match="an unexpected keyword argument 'out_dtype'"):
        GemmFwdOp(out_dtype=torch.float32)
    with pytest.raises(ValueError, match="GEMMFwdOp: there is no target 'other'"):
        GemmFwdOp(target="other")
    with pytest.raises(AttributeError):
        _ = tileops.norm.NoSuchFwdOp
    for make, options in (
        (tileops.elementwise.GELUFwdOp, {"approximate": "invalid"}),
        (tileops.elementwise.DivFwdOp, {"rounding_mode": "invalid"}),
        (tileops.elementwise.ClampScalarFwdOp, {"min": None, "max": None}),
        (tileops.reduction.ProdFwdOp, {"dim": [0]}),
        (tileops.reduction.ProdFwdOp, {"dim": None}),
        (tileops.reduction.LogSumExpFwdOp, {"dim": None}),
    ):
        with pytest.raises(ValueError, match=make.__name__):
            make(**options)
    with pytest.raises(ValueError, match="an empty dim"):
        tileops.reduction.LogSumExpFwdOp(dim=[])(X)
    with pytest.raises(ValueError, match="bool"):
        tileops.elementwise.SubFwdOp()(X > 0, X > 0)
    with pytest.raises(NotImplementedError, match="VectorNormFwdOp: ord = 3"):
        tileops.reduction.VectorNormFwdOp(3)(X)


def test_what_every_operator_has() -> None:
    op = tileops.reduction.SumFwdOp(dim=-1, target=tileops.BUILTIN)
    op.request_tune()
    op.autotune()
    assert op.kernel_config() is None
    assert op.compile_op_names == ("tilewright::sum",)
    with pytest.raises(NotImplementedError, match="SumFwdOp: eval_roofline"):
        op.eval_roofline()
    from tilewright.compat.tileops import backend

    assert backend.BUILTIN is tileops.BUILTIN
    assert issubclass(backend.OpNotAvailableError, ValueError)
    tileops.set_default_target("tilewright")
    assert tileops.default_target() == "tilewright"
    with pytest.raises(backend.UnknownTargetError):
        tileops.set_default_target("other")


def test_one_call_of_what_the_functions_take_otherwise() -> None:
    q, kv = torch.randn(1, 6, 4, 16), torch.randn(1, 6, 2, 16)
    dense = tileops.attention.GQADenseFwdOp(is_causal=True)
    mask = {"is_causal": True, "enable_gqa": True}
    want = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, kv, kv)), **mask)
    close(dense(q, kv, kv), want.transpose(1, 2).contiguous())
    a, b, ends = X[0], torch.randn(2, 7, 24), torch.tensor([2, 3], dtype=torch.int32)
    starts = torch.tensor([0, 2], dtype=torch.int32)
    grouped = tileops.ops.GroupedGemmFwdOp()(a, b, ends, starts)
    close(grouped, torch.cat([a[:2] @ b[0].T, a[2:] @ b[1].T]))
    left, right = (torch.randn(2, 4, 4).to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.tensor(1.0)
    want = (left.float() @ right.float().mT).half()
    product = tileops.ops.BMMFP8FwdOp(torch.float16, trans_b=True)
    close(product(left, right, a_scale=one, b_scale=one), want)
    layout = ContiguousLayoutSpec.tight_physical_psum()
    ids = torch.tensor([[1], [0], [1], [1], [0]], dtype=torch.int32)
    rows, ends, places = MoEPrePermuteFwdOp(layout, num_local_experts=2)(X[0], ids)
    assert torch.equal(rows[places.long()], X[0])
    assert ends.tolist() == [2, 5]
    table = tileops.ops.AlibiFwdOp(seq_len=3, num_heads=2, out_dtype=torch.float16)()
    assert (table.shape, table.dtype) == ((2, 3, 3), torch.float16)
    scores = torch.randn(4, 9)
    weights, picked = tileops.moe.FusedTopKFwdOp(2)(scores)
    close(weights, scores.softmax(-1).topk(2).values)
    assert torch.equal(picked.long(), scores.topk(2).indices)


def test_recurrences_of_sequences_in_one_batch() -> None:
    q, k, v = torch.randn(1, 7, 2, 8), torch.randn(1, 7, 2, 8) / 3, torch.randn(1, 7, 2, 6)
    gate, beta, state = -torch.rand(1, 7, 2, 8), torch.rand(1, 7, 2), torch.randn(2, 2, 8, 6)
    cuts = torch.tensor([0, 3, 7])
    for make, given in (
        (tileops.ops.GLAFwdOp, (q, k, v, gate)),
        (tileops.ops.GLAInferenceFwdOp, (q, k, v, gate)),
        (tileops.ops.DeltaNetInferenceFwdOp, (q, k, v, beta)),
    ):
        out, last = make()(*given, state, cuts)
        for i, (first, end) in enumerate(((0, 3), (3, 7))):
            own = make()(*(x[:, first:end] for x in given), state[i : i + 1])
            close(out[:, first:end].contiguous(), own[0])
            close(last[i : i + 1], own[1])


def test_4_bit_weights_as_they_are_packed() -> None:
    packed = torch.randint(0, 256, (6, 128), dtype=torch.uint8)
    order = GEMMW4A16FwdOp.repack(packed)
    # Word 4 lane + w of 64 bytes: the low halves of bytes 16 w + 4 p + lane, then the high ones.
    words = order.view(torch.int32).view(6, 2, 4, 4)
    for lane, w, p in ((0, 0, 0), (3, 1, 2), (2, 3, 3)):
        source = packed.view(6, 2, 64)[..., 16 * w + 4 * p + lane]
        word = words[:, :, lane, w]
        assert torch.equal((word >> (4 * p)) & 15, (source & 15).int())
        assert torch.equal((word >> (4 * p + 16)) & 15, (source >> 4).int())
    weight = torch.randn(6, 256).half()
    packed_weight, params = tileops.ops.INT4QuantPerGroupFwdOp()(weight)
    assert (packed_weight.shape, params.shape) == ((6, 128), (12, 2))
    x = torch.randn(3, 256).half() / 16
    codes, step, zero = tileops.int4_quant_per_group_with_zeros(weight)
    wide, steps, zeros = weight.double().view(6, 2, 128), step.double(), zero.double()
    spread = wide.amax(-1).clamp(min=0) - wide.amin(-1).clamp(max=0)
    assert torch.equal(step, (spread.float() / 15).half())
    assert torch.equal(zeros, (-wide.amin(-1).clamp(max=0) / steps).round())
    numbers = ((wide / steps[..., None]).round() + zeros[..., None]).clamp(0, 15)
    restored = ((numbers - zeros[..., None]) * steps[..., None]).flatten(1)
    close(GEMMW4A16FwdOp()(x, codes, step, zero), (x.double() @ restored.T).half(), 5e-3)
    low, high = packed & 15, packed >> 4
    whole = torch.stack([low, high], -1).view(6, 256).float()
    whole = torch.where(whole > 7, whole - 16, whole)
    scales, rows, left = torch.rand(6, 2).to(torch.float8_e4m3fn), torch.rand(6), torch.rand(3)
    narrow = x.to(torch.float8_e4m3fn)
    got = GEMMW4A8FwdOp()(narrow, GEMMW4A8FwdOp.repack(packed), scales, rows, left)
    wide = (whole * scales.float().repeat_interleave(128, 1)).to(torch.float8_e4m3fn).double()
    scaled = narrow.double() @ wide.T * left[:, None].double() * rows.double()
    close(got, scaled.bfloat16())


def test_tilewright_is_a_backend_of_tileops(monkeypatch) -> None:
    class Spec(NamedTuple):
        device: torch.device
        dtype: torch.dtype
        shape: tuple[int, ...]

    builders, detectors = {}, {}
    backend = types.ModuleType("tileops.backend")
    backend.register_detector = lambda target, detect: detectors.update({target: detect})
    backend.register_kernel_builder = lambda op, target, build_kernel: builders.update(
        {(op, target): build_kernel}
    )
    package, manifest = types.ModuleType("tileops"), types.ModuleType("tileops.manifest")
    package.backend = backend
    manifest.load_manifest = lambda: {"RMSNormFwdOp": {}, "GEMMFwdOp": {}, "SomeNewFwdOp": {}}
    monkeypatch.setitem(sys.modules, "tileops.manifest", manifest)
    monkeypatch.setitem(sys.modules, "tileops", package)
    monkeypatch.setitem(sys.modules, "tileops.backend", backend)
    monkeypatch.delitem(sys.modules, "tilewright.compat.tileops_backend", raising=False)
    importlib.import_module("tilewright.compat.tileops_backend")
    assert detectors["tilewright"](torch.device("cpu"))
    assert not detectors["tilewright"](torch.device("cuda"))
    assert {name for name, _ in builders} == {"RMSNormFwdOp", "GEMMFwdOp"}
    spec = Spec(X.device, X.dtype, tuple(X.shape))
    kernel = builders["RMSNormFwdOp", "tilewright"](spec, None, normalized_shape=[24], eps=None)
    close(kernel(X, None), F.rms_norm(X, (24,)))
    assert isinstance(kernel, Op)
    monkeypatch.delitem(sys.modules, "tilewright.compat.tileops_backend")
