"""TileOPs' pooling, convolutions, normalizations and products of parts against PyTorch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from oracles import attention, close
from tilewright.compat import tileops

INPUTS = {
    1: torch.randn(2, 3, 23),
    2: torch.randn(2, 3, 13, 11),
    3: torch.randn(2, 3, 7, 8, 9),
}
POOLS = [
    {"kernel_size": 3},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 4, "stride": 3, "padding": 2, "ceil_mode": True},
    {"kernel_size": (2,), "stride": (3,), "ceil_mode": True},
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("options", POOLS, ids=str)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_pools(axes, options, dtype) -> None:
    def each(value):
        return value * axes if isinstance(value, tuple) else value

    x = INPUTS[axes].to(dtype)
    options = {name: each(value) for name, value in options.items()}
    average, largest = (getattr(tileops, f"{kind}_pool{axes}d") for kind in ("avg", "max"))
    theirs = getattr(F, f"avg_pool{axes}d")
    for more in ({}, {"count_include_pad": False}):
        close(average(x, **options, **more), theirs(x.float(), **options, **more).to(dtype))
    if axes > 1:
        got = average(x, **options, divisor_override=7)
        close(got, theirs(x.float(), **options, divisor_override=7).to(dtype))
    theirs = getattr(F, f"max_pool{axes}d")
    for dilation in (1, 2):
        want, where = theirs(x.float(), **options, dilation=dilation, return_indices=True)
        got = getattr(tileops, f"max_pool{axes}d_indices")(x, **options, dilation=dilation)
        assert torch.equal(got[0], want.to(dtype))
        assert torch.equal(got[1], where)
        assert torch.equal(largest(x, **options, dilation=dilation), want.to(dtype))


@pytest.mark.parametrize("size", [1, (1, 1), (3, 4), (None, 5), (13, 11), (7, 7)], ids=str)
def test_adaptive_pools(size) -> None:
    x = INPUTS[2]
    close(tileops.adaptive_avg_pool2d(x, output_size=size), F.adaptive_avg_pool2d(x, size))
    want, where = F.adaptive_max_pool2d(x, size, return_indices=True)
    got, at = tileops.adaptive_max_pool2d_indices(x, output_size=size)
    assert torch.equal(got, want)
    assert torch.equal(at, where)
    assert torch.equal(tileops.adaptive_max_pool2d(x, output_size=size), want)


def test_pools_refuse() -> None:
    with pytest.raises(ValueError, match="must have 4 dimensions"):
        tileops.max_pool2d(INPUTS[1], kernel_size=2)
    with pytest.raises(ValueError, match="smaller than a window"):
        tileops.avg_pool1d(INPUTS[1], kernel_size=99)


CONVOLUTIONS = [
    {},
    {"stride": 2, "padding": 1},
    {"dilation": 2, "padding": 2},
    {"groups": 2},
    {"padding": "same"},
    {"padding": "valid"},
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_convolutions(axes, options, dtype) -> None:
    groups = options.get("groups", 1)
    x = torch.randn(2, 4, *INPUTS[axes].shape[2:]).to(dtype)
    weight = (torch.randn(6, 4 // groups, *(3, 2, 3)[:axes]) / 6).to(dtype)
    bias = torch.randn(6).to(dtype)
    function = getattr(tileops, f"conv{axes}d")
    theirs = getattr(F, f"conv{axes}d")
    for shift in (None, bias):
        wide = None if shift is None else shift.double()
        close(function(x, weight, shift, **options),
              theirs(x.double(), weight.double(), wide, **options).to(dtype))  # fmt: skip
    with pytest.raises(ValueError, match="does not fit input"):
        function(x[:, :1], weight)


def test_the_longer_side_of_the_same_padding_is_the_last_one() -> None:
    for size, axes in ((2, 1), (4, 1), ((1, 2), 2), ((4, 2), 2)):
        sides = (size,) * axes if isinstance(size, int) else size
        x, weight = torch.randn(2, 3, *(9, 7)[:axes]), torch.randn(5, 3, *sides)
        want = getattr(F, f"conv{axes}d")(x.double(), weight.double(), padding="same")
        close(getattr(tileops, f"conv{axes}d")(x, weight, padding="same"), want.float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_normalizations(dtype) -> None:
    x = (torch.randn(4, 6, 5, 7) * 2 + 1).to(dtype)
    w, b = torch.randn(6).to(dtype), torch.randn(6).to(dtype)
    wide = [t.double() for t in (x, w, b)]
    for scale, shift in ((None, None), (w, b)):
        big = [None if t is None else t.double() for t in (scale, shift)]
        close(tileops.group_norm(x, scale, shift, num_groups=3),
              F.group_norm(wide[0], 3, *big).to(dtype))  # fmt: skip
        close(tileops.instance_norm(x, None, None, scale, shift),
              F.instance_norm(wide[0], None, None, *big).to(dtype))  # fmt: skip
    for training in (False, True):
        mean, var = torch.randn(6), torch.rand(6) + 0.5
        means, vars_ = mean.double(), var.double()
        got = tileops.batch_norm(x, mean, var, w.float(), b.float(), training=training)
        want = F.batch_norm(wide[0], means, vars_, *wide[1:], training=training)
        close(got, want.to(dtype))
        close(mean, means.float())
        close(var, vars_.float())
    running = [torch.zeros(6), torch.ones(6)]
    theirs = [t.clone() for t in running]
    tileops.instance_norm(x, *running)
    F.instance_norm(x, *theirs)  # which rounds them to x's dtype
    close(running[0], theirs[0], max(1e-5, torch.finfo(dtype).eps))
    close(running[1], theirs[1], max(1e-5, torch.finfo(dtype).eps))
    rows = torch.randn(4, 5, 24).to(dtype)
    scale, shift, gate = (torch.randn(4, 5, 24).to(dtype) for _ in range(3))
    want = scale.double() * F.layer_norm(rows.double(), (24,)) + shift.double()
    close(tileops.ada_layer_norm(rows, scale, shift), want.to(dtype))
    close(tileops.ada_layer_norm_zero(rows, scale, shift, gate), (gate.double() * want).to(dtype))
    weight, bias = torch.randn(24).to(dtype), torch.randn(24).to(dtype)
    out, residual = tileops.fused_add_layer_norm(rows, scale, weight, bias)
    close(residual, rows + scale)
    want = F.layer_norm(residual.double(), (24,), weight.double(), bias.double())
    close(out, want.to(dtype))
    close(tileops.rms_norm(rows, None, normalized_shape=(24,)),
          F.rms_norm(rows.double(), (24,), None, 1e-6).to(dtype))  # fmt: skip
    close(tileops.layer_norm(rows, None, None, normalized_shape=(5, 24)),
          F.layer_norm(rows.double(), (5, 24)).to(dtype))  # fmt: skip


def test_a_batch_of_nothing_is_what_pytorch_makes_of_it() -> None:
    x, theirs, ours = torch.randn(0, 4, 8), *([torch.zeros(4), torch.ones(4)] for _ in range(2))
    close(tileops.instance_norm(x, *ours), F.instance_norm(x, *theirs))
    for got, want in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, want, equal_nan=True)
    close(tileops.group_norm(x, num_groups=2), x)


def test_gradient_of_batch_normalization() -> None:
    x = torch.randn(4, 6, 5, dtype=torch.float64, requires_grad=True)
    w, b = (torch.randn(6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    grad = torch.randn(4, 6, 5)
    F.batch_norm(x, None, None, w, b, training=True).backward(grad.double())
    mean, var = x.mean((0, 2)), x.var((0, 2), correction=0)
    given = [t.detach().float() for t in (x, w, mean, (var + 1e-5).rsqrt())]
    for got, want in zip(tileops.batch_norm_bwd(grad, *given), (x, w, b), strict=True):
        torch.testing.assert_close(got, want.grad.float(), rtol=1e-4, atol=1e-5)


def test_normalizations_refuse() -> None:
    x = torch.randn(2, 6, 1)
    with pytest.raises(ValueError, match="do not divide"):
        tileops.group_norm(x, num_groups=4)
    with pytest.raises(ValueError, match="does not end with"):
        tileops.layer_norm(x, None, None, normalized_shape=[6])
    with pytest.raises(ValueError, match="one value per channel"):
        tileops.instance_norm(x)
    with pytest.raises(ValueError, match="must be given"):
        tileops.batch_norm(x, None, None, None, None)


def test_groups_of_rows() -> None:
    a, b = torch.randn(10, 8), torch.randn(3, 5, 8)
    sizes, offsets = torch.tensor([4, 0, 6]), torch.tensor([0, 4, 4])
    want = torch.cat([a[:4] @ b[0].T, a[4:] @ b[2].T])
    close(tileops.grouped_gemm(a, b, sizes, offsets, offsets), want)
    got = tileops.grouped_gemm(a, b.mT.contiguous(), sizes, offsets, offsets, transpose_b=False)
    close(got, want)
    counts = {"numel": 10, "num_experts": 3, "k": 8}
    close(tileops.moe_grouped_gemm_nopad(a, b, sizes, offsets, n=5, **counts), want)
    both = torch.randn(3, 12, 8)
    rows = torch.cat([a[:4] @ both[0].T, a[4:] @ both[2].T])
    got = tileops.moe_gate_up(a, both, sizes, offsets, ffn=6, **counts)
    close(got, F.silu(rows[:, :6]) * rows[:, 6:])
    with pytest.raises(ValueError, match="activation must be one of"):
        tileops.moe_gate_up(a, both, sizes, offsets, ffn=6, **counts, activation="relu")


def test_eight_bit_products() -> None:
    a, b = (torch.randn(2, 16, 32).to(torch.float8_e4m3fn) for _ in range(2))
    sa, sb = torch.rand(2, 16, 1) + 0.5, torch.rand(2, 16, 1) + 0.5
    want = (a.double() * sa) @ (b.double() * sb).mT
    close(tileops.bmm_fp8_nk(a, b, sa, sb), want.bfloat16())
    got = tileops.gemm_fp8(
        a[0], b[0], sa[0, :1, 0], sb[0, :1, 0], torch.ones(16), out_dtype="float16"
    )
    scale = sa[0, 0, 0].double() * sb[0, 0, 0].double()
    close(got, (a[0].double() @ b[0].double().T * scale + 1).half())
    with pytest.raises(ValueError, match="out_dtype must be"):
        tileops.gemm_fp8(a[0], b[0], sa, sb, out_dtype="int8")


@pytest.mark.parametrize("rows", [1, 128])
def test_eight_bit_products_by_blocks(rows) -> None:
    """A scale for 128 columns, and for one row of b or 128: the last block is cut short."""
    a, b = (torch.randn(n, 320).to(torch.float8_e4m3fn) for n in (5, 300))
    sa, sb = torch.rand(5, 3) + 0.5, torch.rand(-(-300 // rows), 3) + 0.5
    wide_a = sa.double().repeat_interleave(128, 1)[:, :320]
    wide_b = sb.double().repeat_interleave(rows, 0)[:300].repeat_interleave(128, 1)[:, :320]
    want = (a.double() * wide_a) @ (b.double() * wide_b).T
    close(tileops.gemm_fp8(a, b, sa, sb), want.bfloat16())


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_attention(causal) -> None:
    q, k, v = (torch.randn(2, 9, h, 16, dtype=torch.float64, requires_grad=True) for h in (4, 2, 2))
    swapped = [t.transpose(1, 2) for t in (q, k, v)]
    out, lse = attention(*swapped, sees=(lambda i, j: j <= i) if causal else None, lse=True)
    out = out.transpose(1, 2)
    grad = torch.randn(2, 9, 4, 16)
    out.backward(grad.double())
    given = [t.detach().float() for t in (q, k, v, out)]
    base2 = (lse / torch.log(torch.tensor(2.0))).detach().float()
    got = tileops.grouped_query_attention_bwd(*given, grad, base2, is_causal=causal)
    for mine, want in zip(got, (q, k, v), strict=True):
        torch.testing.assert_close(mine, want.grad.float(), rtol=1e-4, atol=1e-5)


def test_eight_bit_prefill() -> None:
    q = torch.randn(7, 4, 16).to(torch.float8_e4m3fn)
    k, v = (torch.randn(7, 2, 16).to(torch.float8_e4m3fn) for _ in range(2))
    starts = torch.tensor([0, 3, 7], dtype=torch.int32)
    scales = [torch.rand(2, 2) + 0.5 for _ in range(3)]
    given, lengths = (q, k, v, starts, starts, *scales), {"max_seqlen_q": 4, "max_seqlen_kv": 4}
    got = tileops.grouped_query_attention_prefill(*given, **lengths)
    rounded = tileops.grouped_query_attention_prefill(*given, **lengths, dtype="bfloat16")
    bound = 0.06 if q.is_cuda else None  # tensor cores get weights of e4m3
    for r, (begin, end) in enumerate([(0, 3), (3, 7)]):
        wide = [
            x[begin:end].double() * s[r].repeat_interleave(x.shape[1] // 2)[:, None]
            for x, s in zip((q, k, v), scales, strict=True)
        ]
        want = attention(*(t.transpose(0, 1)[None] for t in wide), sees=lambda i, j: j <= i)
        close(got[begin:end], want[0].transpose(0, 1).half(), bound)
        close(rounded[begin:end], want[0].transpose(0, 1).bfloat16(), bound)
