"""TileGym's operators against PyTorch."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from oracles import attention, close, rotate
from tilewright.compat import tilegym
from tilewright.compat.tilegym import flashinfer, liger, unsloth

import tilewright

A, B = torch.randn(2, 3, 40), torch.randn(2, 3, 40)
Q, K, V = torch.randn(2, 4, 11, 16), torch.randn(2, 2, 11, 16), torch.randn(2, 2, 11, 16)


def tables(batch: int, length: int, pairs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """As transformers makes them: each half of a head has the same angles."""
    angles = torch.rand(batch, length, pairs) * 6
    return (torch.cat([f, f], -1) for f in (angles.cos(), angles.sin()))


def causal(i, j):
    return j <= i


SIMPLE = {
    "softmax": (lambda: tilegym.softmax(A, use_chunked=True), lambda: A.softmax(-1)),
    "relu": (lambda: tilegym.relu(A), lambda: A.relu()),
    "gelu": (lambda: tilegym.gelu(A, approximate="tanh"), lambda: F.gelu(A, approximate="tanh")),
    "geglu": (lambda: tilegym.geglu(A, 2), lambda: A[..., :20] * F.gelu(A[..., 20:])),
    "silu_and_mul": (lambda: tilegym.silu_and_mul(A), lambda: F.silu(A[..., :20]) * A[..., 20:]),
    "get_swiglu": (lambda: tilegym.get_swiglu()(A, B), lambda: F.silu(A) * B),
    "rms_norm": (
        lambda: tilegym.rms_norm(A, (40,), B[0, 0], 1e-5, B[0, 1], mode="static_persistent"),
        lambda: F.rms_norm(A, (40,), B[0, 0], 1e-5) + B[0, 1],
    ),
    "get_rms_norm_module": (
        lambda: tilegym.get_rms_norm_module("gemma3")(40).requires_grad_(False)(A),
        lambda: F.rms_norm(A, (40,), None, 1e-6),
    ),
    "matmul": (lambda: tilegym.matmul(A[0], B[1], trans_b=True), lambda: A[0] @ B[1].T),
    "bmm": (lambda: tilegym.bmm(A, B, transpose_a=True), lambda: A.mT @ B),
    "group_gemm": (
        lambda: tilegym.group_gemm([A[0], B[1]], [B[0], A[1]], transpose_b=True)[1],
        lambda: B[1] @ A[1].T,
    ),
    "layer_norm_legacy": (
        lambda: tilegym.layer_norm_legacy(A, (40,), B[0, 0], B[0, 1], 1e-5, weight_shift=1.0),
        lambda: F.layer_norm(A, (40,), B[0, 0] + 1, B[0, 1]),
    ),
    "fused_linear_cross_entropy": (
        lambda: tilegym.fused_linear_cross_entropy(A, B[0], torch.tensor([[0, 2, -100]] * 2)),
        lambda: F.cross_entropy((A @ B[0].T).flatten(0, 1), torch.tensor([0, 2, -100] * 2)),
    ),
    "liger.layer_norm": (
        lambda: liger.layer_norm(A, B[0, 0], B[0, 1]),
        lambda: F.layer_norm(A, (40,), B[0, 0], B[0, 1]),
    ),
    "liger.cross_entropy": (
        lambda: liger.cross_entropy(A[0], torch.tensor([3, 0, 7]), 7, 0.1, "sum"),
        lambda: F.cross_entropy(
            A[0], torch.tensor([3, 0, 7]), ignore_index=7, label_smoothing=0.1, reduction="sum"
        ),
    ),
    "liger.fused_linear_cross_entropy": (
        lambda: liger.fused_linear_cross_entropy(A[0], B[0], torch.tensor([0, 2, 1])),
        lambda: F.cross_entropy(A[0] @ B[0].T, torch.tensor([0, 2, 1])),
    ),
    "liger.softmax": (lambda: liger.softmax(A), lambda: A.softmax(-1)),
    "liger.rms_norm": (
        lambda: liger.rms_norm(A, B[0, 0], 1e-5, offset=1.0),
        lambda: F.rms_norm(A, (40,), B[0, 0] + 1, 1e-5),
    ),
    "liger.rms_norm plain": (
        lambda: liger.rms_norm(A, None, 1e-5),
        lambda: F.rms_norm(A, (40,), None, 1e-5),
    ),
    "liger.fused_add_rms_norm": (
        lambda: liger.fused_add_rms_norm(A, B, B[0, 0])[0],
        lambda: F.rms_norm(A + B, (40,), B[0, 0], 1e-6),
    ),
    "liger.geglu": (lambda: liger.geglu(A, B), lambda: F.gelu(A, approximate="tanh") * B),
    "liger.swiglu": (lambda: liger.swiglu(A, B, 2.0, 3.0), lambda: F.silu(2 * A) * B * 3),
    "liger.relu_squared": (lambda: liger.relu_squared(A), lambda: A.relu() ** 2),
    "liger.dyt": (
        lambda: liger.dyt(A, torch.tensor([0.5]), B[0, 0], B[0, 1]),
        lambda: torch.tanh(0.5 * A) * B[0, 0] + B[0, 1],
    ),
    "unsloth.geglu_exact_forward": (
        lambda: unsloth.geglu_exact_forward(A, B),
        lambda: F.gelu(A) * B,
    ),
    "unsloth.geglu_approx_forward": (
        lambda: unsloth.geglu_approx_forward(A, B),
        lambda: F.gelu(A, approximate="tanh") * B,
    ),
    "unsloth.swiglu_fg": (lambda: unsloth.swiglu_fg(A, B), lambda: F.silu(A) * B),
    "unsloth.rms_layernorm": (
        lambda: unsloth.rms_layernorm(A, B[0, 0], gemma=True),
        lambda: F.rms_norm(A, (40,), B[0, 0] + 1, 1e-6),
    ),
}


@pytest.mark.parametrize("name", SIMPLE)
def test_simple_operators(name) -> None:
    ours, theirs = SIMPLE[name]
    close(ours(), theirs())


def test_output_arguments_and_names() -> None:
    out = torch.empty(2, 3, 20)
    assert tilegym.silu_and_mul(A, out=out) is out
    close(out, F.silu(A[..., :20]) * A[..., 20:])
    close(liger.fused_add_rms_norm(A, B, B[0, 0])[1], A + B)
    plain = {"normalized_shape": 40, "weight": None, "bias": None, "eps": 1e-5}
    close(tilegym.layer_norm_legacy(input=A, **plain), F.layer_norm(A, (40,)))
    assert tilegym.dropout(A, 1, training=False) is A
    assert tilegym.dropout(A, 1, p=0.0) is A
    dropped = tilegym.dropout(A, seed=5, p=0.4)
    assert torch.equal(dropped, tilegym.dropout(A.clone(), 5, 0.4, inplace=True))
    kept = dropped != 0
    close(dropped[kept], A[kept] / 0.6)
    norm = tilegym.get_rms_norm_module()(8, eps=1e-5)
    assert list(norm.state_dict()) == ["weight"]
    with pytest.raises(ValueError, match="llama, gemma3"):
        tilegym.get_rms_norm_module("bert")
    with pytest.raises(ValueError, match="there is no backend 'julia'"):
        tilegym.softmax(A, backend="julia")


def test_gated_modules() -> None:
    class Config:
        hidden_size, intermediate_size = 40, 24

    for module in (tilegym.get_swiglu_module(), tilegym.get_fused_swiglu_module()):
        layer = module(Config).requires_grad_(False)
        gate, up, down = (layer.state_dict()[f"{n}_proj.weight"] for n in ("gate", "up", "down"))
        close(layer(A), (F.silu(A @ gate.T) * (A @ up.T)) @ down.T)
    assert tilegym.PartiallyFusedSwiGLUMLP(Config, intermediate_size=8).up_proj.out_features == 8


@pytest.mark.parametrize("batch", [1, 2])
def test_rotary_embeddings(batch) -> None:
    cos, sin = tables(batch, 11, 8)
    half = [t[:, None, :, :8] for t in (cos, sin)]
    for function in (tilegym.apply_rope_base, tilegym.get_apply_rope_func("qwen2"), liger.rope):
        q, k = function(Q, K, cos, sin)
        close(q, rotate(Q, *half))
        close(k, rotate(K, *half))
    q, k = tilegym.apply_rope_base(Q, K, cos[..., :8], sin[..., :8], partial_rotary_factor=0.5)
    close(q, rotate(Q, *(t[..., :4] for t in half)))
    q, _ = tilegym.get_apply_rope_func("deepseek")(Q, K, cos, sin)
    turned = rotate(Q, *half, interleaved=True)
    close(q, torch.cat([turned[..., ::2], turned[..., 1::2]], -1))


def test_rotary_embeddings_of_the_suites() -> None:
    cos, sin = (t[0, :, :8].contiguous() for t in tables(1, 11, 8))
    q, k = Q.transpose(1, 2).contiguous(), K.transpose(1, 2).contiguous()
    want = rotate(q, cos[:, None], sin[:, None], interleaved=True)
    for freqs in (torch.complex(cos, sin), torch.stack([cos, sin], -1), torch.cat([cos, sin], -1)):
        mine = q.clone()
        rotated, _ = liger.llama4_rope(mine, k.clone(), freqs)
        assert rotated is mine
        close(rotated, want)
    close(unsloth.rope_embedding(q, cos, sin), rotate(q, cos[:, None], sin[:, None]))
    rows = torch.randint(0, 11, (2, 11))
    _, turned = unsloth.rope_embedding_qk(Q, K, cos, sin, rows)
    close(turned, rotate(K, cos[rows][:, None], sin[rows][:, None]))
    close(unsloth.rope_embedding_qk(Q, K, cos, sin)[0], rotate(Q, cos, sin))


def test_attention() -> None:
    want = attention(Q, K, V, sees=causal)
    for function in (tilegym.fmha, tilegym.tile_fmha_functional, tilegym.tile_fmha_with_backward):
        close(function(Q, K, V), want)
    close(tilegym.fmha_interface(Q, K, V, has_backward=True), want)
    close(tilegym.fmha(Q, K, V, 0.3, False), attention(Q, K, V, scale=0.3))
    close(tilegym.fmha(Q, K, V, 0.0, False), attention(Q, K, V, scale=0.0))
    out, lse = tilegym.fmha_forward_with_lse(Q, K, V, None)
    close(out, want)
    close(lse, attention(Q, K, V, sees=causal, lse=True)[1] / math.log(2))
    out, _ = tilegym.get_fmha_interface()(torch.nn.Module(), Q, K, V, None)
    close(out, want.transpose(1, 2))
    out, _ = tilegym.get_fmha_interface()(torch.nn.Module(), Q[:, :, :1], K, V, None)
    close(out, attention(Q[:, :, :1], K, V))  # not transposed, as upstream


def test_causal_attention_starts_at_the_first_key() -> None:
    close(tilegym.fmha(Q[:, :, :5], K, V), attention(Q[:, :, :5], K, V, sees=causal))
    close(
        tilegym.fmha(Q, K[:, :, :5], V[:, :, :5]),
        attention(Q, K[:, :, :5], V[:, :, :5], sees=causal),
    )
    one = Q[:, :, :1]
    close(tilegym.fmha_decode(one, K, V, None), attention(one, K, V))


def test_windows() -> None:
    def gemma(i, j):
        return (j <= i) & (i - j <= 3)

    options = {"window_size": 3, "soft_cap": 2.0}
    want = attention(Q, K, V, sees=gemma, softcap=2.0)
    close(tilegym.gemma_attention(Q, K, V, **options), want)
    both = attention(Q, K, V, sees=lambda i, j: (i - j).abs() <= 3)
    close(tilegym.gemma_attention(Q, K, V, window_size=3, is_causal=False), both)
    last = Q[:, :, -1:]
    close(
        tilegym.gemma_attention_decode(last, K, V, **options)[:, :, 0],
        attention(last, K, V, sees=lambda i, j: 10 - j <= 3, softcap=2.0)[:, :, 0],
    )
    interface = tilegym.get_fmha_gemma3_interface()
    module = torch.nn.Module()
    module.attn_logit_softcapping = 2.0
    close(interface(module, Q, K, V, None, sliding_window=3)[0], want.transpose(1, 2))
    swa = attention(Q, K, V, sees=lambda i, j: (j <= i) & (j > i - 3))
    close(tilegym.swa_attention(Q, K, V, 3), swa)
    close(
        tilegym.swa_attention(Q, K, V, 3, is_causal=False),
        attention(Q, K, V, sees=lambda i, j: j > i - 3),
    )
    with pytest.raises(NotImplementedError, match="as many keys as queries"):
        tilegym.gemma_attention(Q, K[:, :, :5], V[:, :, :5], window_size=3, is_causal=False)


@pytest.mark.parametrize("start", [0, 5, 13])
@pytest.mark.parametrize("window", [None, 4])
def test_sinks(start, window) -> None:
    q = torch.randn(2, 6, 2, 2, 16)
    k, v = torch.randn(2, 16, 2, 16), torch.randn(2, 16, 2, 16)
    sinks = torch.randn(4).bfloat16()
    flat = q.flatten(2, 3).transpose(1, 2)

    def sees(i, j):
        near = j > i + start - window if window else j > -1
        return (j <= i + start) & near

    options = {"sees": sees, "scale": 0.125, "sinks": sinks}
    want = attention(flat, k.transpose(1, 2), v.transpose(1, 2), **options).transpose(1, 2)
    mask = (sinks, 0.125, window, torch.tensor([start]))
    for function in (tilegym.attention_sink, tilegym.attention_sink_decode):
        close(function(q, k, v, *mask), want.flatten(2))
    heads = (flat, k.transpose(1, 2), v.transpose(1, 2))
    close(tilegym.attention_sink_interface(*heads, *mask), want.flatten(2))
    module = torch.nn.Module()
    module.sinks = sinks
    options = {"sliding_window": window, "start_q": start}
    got, _ = tilegym.get_attention_sink_interface()(module, *heads, None, 0.125, **options)
    close(got, want)


def test_windows_that_end_before_the_last_key() -> None:
    q, k = torch.randn(1, 6, 2, 2, 16), torch.randn(1, 8, 2, 16)
    with pytest.raises(NotImplementedError, match="window that ends before the last key"):
        tilegym.attention_sink(q, k, k, torch.zeros(4), 0.125, 4, 9)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_floats_of_8_bits(dtype) -> None:
    def near(got, want) -> None:
        assert got.dtype == dtype
        torch.testing.assert_close(got.float(), want, rtol=0.13, atol=0.02)

    a, b, c = (torch.randn(2, 24, 24).to(dtype) for _ in range(3))
    near(tilegym.matmul(a[0], b[0], trans_b=True), a[0].float() @ b[0].float().T)
    near(tilegym.bmm(a, b, transpose_a=True), a.float().mT @ b.float())
    near(tilegym.group_gemm([a[0]], [b[1]])[0], a[0].float() @ b[1].float())
    q, k, v = (x[None].float() for x in (a, b, c))
    near(tilegym.fmha(a[None], b[None], c[None]), attention(q, k, v, sees=causal).float())
    rows = torch.tensor([24, 7])
    seen = torch.arange(24)[:, None] < rows[:, None, None]
    near(flashinfer.masked_bmm(a, b, rows), (a.float() @ b.float()) * seen)


def test_strides_of_dimensions_of_size_1() -> None:
    one = Q[:, :, :1]
    cos, sin = tables(2, 1, 8)
    for x in (
        tilegym.fmha(one, K, V),
        tilegym.fmha_decode(one, K, V, 0.25),
        tilegym.gemma_attention_decode(one, K, V),
        tilegym.apply_rope_base(one, one, cos, sin)[0],
    ):
        assert x.stride() == (64, 16, 16, 1)


def test_names_of_the_implementations() -> None:
    close(tilegym.gelu(input=A, approximate="tanh"), F.gelu(A, approximate="tanh"))
    want = F.rms_norm(A, (40,), B[0, 0] + 1, 1e-5)
    close(tilegym.rms_norm(A, (40,), B[0, 0], 1e-5, offset=1.0), want)
    one = Q[:, :, :1]
    want = attention(one, K, V, scale=0.5)
    close(tilegym.gemma_attention_decode(one, K, V, sm_scale=0.5), want)
    with pytest.raises(TypeError, match="argument: 'x'"):
        tilegym.gelu()


def test_loss_of_logits_with_a_bias() -> None:
    x, weight, bias = A.clone().requires_grad_(), torch.randn(9, 40), torch.randn(9)
    target = torch.randint(0, 9, A.shape[:-1])
    want = F.cross_entropy(F.linear(x, weight, bias).flatten(0, 1), target.flatten())
    got = tilegym.fused_linear_cross_entropy(x, weight, target, bias)
    close(got, want)
    torch.testing.assert_close(torch.autograd.grad(got, x), torch.autograd.grad(want, x))


def test_upstream_paths() -> None:
    from tilewright.compat.tilegym.backend import assert_backend_available, is_backend_available
    from tilewright.compat.tilegym.ops.cutile.attention import fmha_backward
    from tilewright.compat.tilegym.ops.cutile.experimental import fused_linear_cross_entropy as loss
    from tilewright.compat.tilegym.ops.moe_interface import fused_moe
    from tilewright.compat.tilegym.suites.liger.ops import jsd

    assert (fused_moe, jsd) == (tilegym.fused_moe, tilegym.suites.liger.jsd)
    assert (fmha_backward, loss) == (tilegym.fmha_backward, tilegym.fused_linear_cross_entropy)
    assert tilegym.ops.activation.geglu is tilegym.geglu
    assert tilegym.suites.flashinfer.ops.masked_bmm is flashinfer.masked_bmm
    for name in ("reference", "cutile"):
        tilegym.set_backend(backend=name)
        assert tilegym.get_current_backend() == name
        assert name in tilegym.get_available_backends()
    assert tilewright.get_current_backend() == "cpu"
    assert is_backend_available(backend="cutile")
    assert not is_backend_available("julia")
    close(tilegym.softmax(A, backend="cutile"), A.softmax(-1))
    with pytest.raises(ValueError, match="'julia' is not available"):
        assert_backend_available("julia")


def test_latent_attention() -> None:
    qpe, kpe = torch.randn(2, 4, 11, 8), torch.randn(2, 1, 11, 8)
    k, v = torch.randn(2, 4, 11, 16), torch.randn(2, 4, 11, 16)
    q_all, k_all = torch.cat([Q, qpe], -1), torch.cat([k, kpe.expand(-1, 4, -1, -1)], -1)
    want = attention(q_all, k_all, v, sees=causal)
    close(tilegym.mla(Q, k, v, qpe, kpe, True), want)
    close(tilegym.mla_interface(Q, k, v, qpe, kpe, True), want)
    one, pe = Q[:, :, 0].contiguous(), qpe[:, :, 0].contiguous()
    kv, shared = k[:, 0].contiguous(), kpe[:, 0].contiguous()
    want, lse = attention(
        q_all[:, :, :1], torch.cat([kv, shared], -1)[:, None], kv[:, None], lse=True
    )
    out, lse2 = tilegym.mla_decoding(one, pe, kv, shared)
    close(out, want[:, :, 0])
    close(lse2, lse[:, :, 0] / torch.tensor(2.0).log())
    close(tilegym.mla_decoding_split_kv(one, pe, kv, shared, kv_len_per_split=4), want[:, :, 0])
    close(tilegym.mla_decoding_interface(one, pe, kv, shared, None, None), want[:, :, 0])
    narrow = [t.to(torch.float8_e5m2) for t in (one, pe, kv, shared)]
    out, lse2 = tilegym.mla_decoding(*narrow)
    exact, lse = tilegym.mla_decoding(*(t.half() for t in narrow))
    assert out.dtype == torch.float8_e5m2
    assert torch.equal(out.half(), exact.to(torch.float8_e5m2).half())
    close(lse2, lse)


def test_layer_norm_and_its_statistics() -> None:
    out, mean, rstd, block, warps = tilegym.persistent_layer_norm(A, (40,), B[0, 0], B[0, 1], 1e-5)
    close(out, F.layer_norm(A, (40,), B[0, 0], B[0, 1]))
    close(mean, A.flatten(0, 1).mean(-1))
    close(rstd, (A.flatten(0, 1).var(-1, correction=0) + 1e-5).rsqrt())
    assert (block, warps) == (64, 1)


def test_parts_of_attention_merge() -> None:
    parts = [(K[:, :, i : i + 4], V[:, :, i : i + 4]) for i in (0, 4, 8)]
    both = [attention(Q[:, :, :1], k, v, lse=True) for k, v in parts]
    outs = torch.stack([o[:, :, 0] for o, _ in both], 2).float()
    lse = torch.stack([x[:, :, 0] for _, x in both], 2).float() / math.log(2)
    out = torch.empty(2, 4, 16)
    assert tilegym.splitk_reduce(outs, lse, out, 11) is out
    close(out, attention(Q[:, :, :1], K, V)[:, :, 0].float())
