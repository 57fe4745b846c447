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
from tilewright.compat.tileops.gemm import BmmFP8FwdOp, GemmFwdOp, GemmW4A8FwdOp, GemmW4A16FwdOp
from tilewright.compat.tileops.norm import BatchNormFwdOp, RMSNormFwdOp
from tilewright.compat.tileops.ops.moe import ContiguousLayoutSpec, MoEPrePermuteFwdOp

LINES = (Path(__file__).parent / "classes.txt").read_text().splitlines()
RENAMED = {"input_layout": "layout", "out_dtype": "dtype"}
X, W = torch.randn(3, 5, 24), torch.randn(24)


def declared() -> list[tuple[str, str]]:
    """The family and the constructor of each class of the file."""
    found, family = [], ""
    for line in LINES:
        if line.startswith("["):
            family = line[1:-1]
        elif not line.startswith("#"):
            found.append((family, line))
    return found


def test_every_class_takes_what_upstream_takes() -> None:
    made = 0
    for family, line in declared():
        name = line.partition("(")[0]
        cls = getattr(importlib.import_module(f"tilewright.compat.tileops.{family}"), name)
        assert cls is getattr(tileops.ops, name)
        where: dict[str, Any] = {"inf": float("inf")}
        exec(f"def {line}: ...", where)
        ours = list(inspect.signature(cls).parameters.values())
        for mine, theirs in zip(
            ours, inspect.signature(where[name]).parameters.values(), strict=False
        ):
            assert mine.name in (theirs.name, RENAMED.get(theirs.name)), line
            assert theirs.default is theirs.empty or mine.default is not mine.empty, line
        assert [p.name for p in ours[-3:]] == ["target", "kernel_map", "tune"]
        made += 1
    assert coverage(["tileops.ops"])["tileops.ops"].provided.keys() == {
        line.partition("(")[0] for _, line in declared()
    }
    assert made == len(set(declared()))


def test_parameters_first_then_tensors() -> None:
    op = RMSNormFwdOp(normalized_shape=(24,))
    close(op(X, W), F.rms_norm(X, (24,), W, 1e-6))
    close(op(X), F.rms_norm(X, (24,), None, 1e-6))
    assert op.normalized_shape == (24,)
    assert op.eps == 1e-6
    close(GemmFwdOp(False, False)(X[0], X[1].T.contiguous()), X[0] @ X[1].T)
    close(tileops.reduction.SumFwdOp(dim=-1, keepdim=True)(X), X.sum(-1, keepdim=True))
    close(tileops.elementwise.AddFwdOp(alpha=2).forward(X, W), X + 2 * W)
    turn = tileops.rope.YaRNFwdOp(input_layout="1d", scale=2.0)
    close(turn(X[0]), tileops.rope_yarn(X[0], scale=2.0))
    rope = tileops.rope.RoPEFwdOp("interleaved")
    close(rope(X[0]), tileops.rope_non_neox(X[0]))
    assert callable(tileops.gemm)  # the function


def test_tensors_that_may_be_none_may_be_left_out() -> None:
    x, mean, var = torch.randn(4, 3, 5), torch.zeros(3), torch.ones(3)
    close(BatchNormFwdOp(training=True)(x), F.batch_norm(x, None, None, training=True))
    close(BatchNormFwdOp()(x, mean, var), F.batch_norm(x, mean, var))


def test_what_classes_refuse() -> None:
    with pytest.raises(TypeError, match="RMSNormFwdOp: missing a required argument"):
        RMSNormFwdOp()
    with pytest.raises(TypeError, match="an unexpected keyword argument 'out_dtype'"):
        GemmFwdOp(out_dtype=torch.float32)
    with pytest.raises(ValueError, match="GemmFwdOp: there is no target 'other'"):
        GemmFwdOp(target="other")
    with pytest.raises(AttributeError):
        _ = tileops.norm.NoSuchFwdOp


def test_one_call_of_what_the_functions_take_otherwise() -> None:
    q, kv = torch.randn(1, 6, 4, 16), torch.randn(1, 6, 2, 16)
    dense = tileops.attention.GQADenseFwdOp()
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
    close(BmmFP8FwdOp(torch.float16, trans_b=True)(left, right, one, one), want)
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
    order = GemmW4A16FwdOp.repack(packed)
    # Word 4 lane + w of 64 bytes: the low halves of bytes 16 w + 4 p + lane, then the high ones.
    words = order.view(torch.int32).view(6, 2, 4, 4)
    for lane, w, p in ((0, 0, 0), (3, 1, 2), (2, 3, 3)):
        source = packed.view(6, 2, 64)[..., 16 * w + 4 * p + lane]
        word = words[:, :, lane, w]
        assert torch.equal((word >> (4 * p)) & 15, (source & 15).int())
        assert torch.equal((word >> (4 * p + 16)) & 15, (source >> 4).int())
    weight = torch.randn(6, 256).half()
    codes, step, zero = tileops.ops.INT4QuantPerGroupFwdOp()(weight)
    assert (codes.shape, step.shape, zero.dtype) == ((6, 128), (6, 2), torch.uint8)
    x = torch.randn(3, 256).half() / 16
    wide, steps, zeros = weight.double().view(6, 2, 128), step.double(), zero.double()
    spread = wide.amax(-1).clamp(min=0) - wide.amin(-1).clamp(max=0)
    assert torch.equal(step, (spread.float() / 15).half())
    assert torch.equal(zeros, (-wide.amin(-1).clamp(max=0) / steps).round())
    numbers = ((wide / steps[..., None]).round() + zeros[..., None]).clamp(0, 15)
    restored = ((numbers - zeros[..., None]) * steps[..., None]).flatten(1)
    close(GemmW4A16FwdOp()(x, codes, step, zero), (x.double() @ restored.T).half(), 5e-3)
    low, high = packed & 15, packed >> 4
    whole = torch.stack([low, high], -1).view(6, 256).double()
    whole = torch.where(whole > 7, whole - 16, whole)
    scales, rows, left = torch.rand(6, 2).bfloat16(), torch.rand(6), torch.rand(3)
    narrow = x.to(torch.float8_e4m3fn)
    got = GemmW4A8FwdOp()(narrow, packed, scales, rows, left)
    wide = whole * scales.double().repeat_interleave(128, 1) * rows[:, None].double()
    close(got, (narrow.double() * left[:, None].double() @ wide.T).bfloat16())


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
    package = types.ModuleType("tileops")
    package.backend = backend
    monkeypatch.setitem(sys.modules, "tileops", package)
    monkeypatch.setitem(sys.modules, "tileops.backend", backend)
    monkeypatch.delitem(sys.modules, "tilewright.compat.tileops_backend", raising=False)
    importlib.import_module("tilewright.compat.tileops_backend")
    assert detectors["tilewright"](torch.device("cpu"))
    assert not detectors["tilewright"](torch.device("cuda"))
    assert len(builders) == len(declared())
    spec = Spec(X.device, X.dtype, tuple(X.shape))
    kernel = builders["RMSNormFwdOp", "tilewright"](spec, None, normalized_shape=[24], eps=None)
    close(kernel(X, None), F.rms_norm(X, (24,), None, 1e-6))
    assert isinstance(kernel, Op)
    monkeypatch.delitem(sys.modules, "tilewright.compat.tileops_backend")
