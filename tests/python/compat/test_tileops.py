"""TileOPs' operators against PyTorch."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from oracles import attention, close, rotate
from tilewright.compat import tileops

A, B = torch.randn(3, 5, 24), torch.randn(3, 5, 24)
W = torch.randn(24)

SIMPLE = {
    "add": (lambda: tileops.add(A, B, alpha=2), lambda: A + 2 * B),
    "sub": (lambda: tileops.sub(A, W), lambda: A - W),
    "mul": (lambda: tileops.mul(A, W), lambda: A * W),
    "neg": (lambda: tileops.neg(A), lambda: -A),
    "neg of integers": (lambda: tileops.neg(torch.arange(5)), lambda: -torch.arange(5)),
    "exp": (lambda: tileops.exp(A), lambda: A.exp()),
    "log": (lambda: tileops.log(A.abs() + 1), lambda: (A.abs() + 1).log()),
    "erf": (lambda: tileops.erf(A), lambda: A.erf()),
    "tanh": (lambda: tileops.tanh(A), lambda: A.tanh()),
    "sigmoid": (lambda: tileops.sigmoid(A), lambda: A.sigmoid()),
    "relu": (lambda: tileops.relu(A), lambda: A.relu()),
    "silu": (lambda: tileops.silu(A), lambda: F.silu(A)),
    "gelu": (lambda: tileops.gelu(A), lambda: F.gelu(A)),
    "silu_and_mul": (lambda: tileops.silu_and_mul(A), lambda: F.silu(A[..., :12]) * A[..., 12:]),
    "gelu_tanh_and_mul": (
        lambda: tileops.gelu_tanh_and_mul(x=A),
        lambda: F.gelu(A[..., :12], approximate="tanh") * A[..., 12:],
    ),
    "sum": (lambda: tileops.sum(A), lambda: A.sum()),
    "sum of two": (lambda: tileops.sum(A, dim=[0, -1], keepdim=True),
                   lambda: A.sum([0, -1], keepdim=True)),
    "mean": (lambda: tileops.mean(A, dim=[0, 1]), lambda: A.mean([0, 1])),
    "amax": (lambda: tileops.amax(A, dim=0, keepdim=True), lambda: A.amax(0, True)),
    "log_softmax": (lambda: tileops.log_softmax(A, dim=0), lambda: A.log_softmax(0)),
    "gelu_and_mul": (lambda: tileops.gelu_and_mul(A), lambda: F.gelu(A[..., :12]) * A[..., 12:]),
    "layer_norm": (
        lambda: tileops.layer_norm(A, W, W + 1, normalized_shape=[24]),
        lambda: F.layer_norm(A, (24,), W, W + 1),
    ),
    "dropout in evaluation": (lambda: tileops.dropout(A, training=False), lambda: A),
    "argmax": (lambda: tileops.argmax(A, dim=1, keepdim=True), lambda: A.argmax(1, True)),
    "argmax of all": (lambda: tileops.argmax(A), lambda: A.argmax()),
    "softmax": (lambda: tileops.softmax(A, dim=1), lambda: A.softmax(1)),
    "rms_norm": (
        lambda: tileops.rms_norm(A, W.repeat(5).view(5, 24), normalized_shape=(5, 24)),
        lambda: F.rms_norm(A, (5, 24), W.repeat(5).view(5, 24), 1e-6),
    ),
    "fused_add_rms_norm": (
        lambda: tileops.fused_add_rms_norm(A, B, W)[0],
        lambda: F.rms_norm(A + B, (24,), W, 1e-6),
    ),
    "gemm": (lambda: tileops.gemm(A[0], B[0]), lambda: A[0] @ B[0].T),
    "gemm of transposes": (
        lambda: tileops.gemm(A[0], B[0], trans_a=True, trans_b=False),
        lambda: A[0].T @ B[0],
    ),
    "bmm": (lambda: tileops.bmm(A, B.mT), lambda: A @ B.mT),
    "moe_shared_expert_mlp": (
        lambda: tileops.moe_shared_expert_mlp(A[0], B[0, :4], B[1, :, :2].mT.mT[:, :2]),
        lambda: (F.silu(A[0] @ B[0, :2].T) * (A[0] @ B[0, 2:4].T)) @ B[1, :, :2].T,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SIMPLE)
def test_simple_operators(name) -> None:
    ours, theirs = SIMPLE[name]
    close(ours(), theirs())


def test_in_place_and_implicit_dimensions() -> None:
    x = A.clone()
    assert tileops.silu(x, inplace=True) is x
    close(x, F.silu(A))
    with pytest.warns(UserWarning, match="Implicit dimension"):
        close(tileops.softmax(A), A.softmax(0))


def test_dropout() -> None:
    x = torch.ones(100, 100)
    out = tileops.dropout(x, p=0.25, seed=3)
    assert torch.equal(out, tileops.dropout(x, p=0.25, seed=3))
    assert not torch.equal(out, tileops.dropout(x, p=0.25, seed=4))
    assert abs((out == 0).float().mean() - 0.25) < 0.02
    close(out[out != 0], torch.full_like(out[out != 0], 1 / 0.75))


def angles(length, frequencies):
    return torch.outer(torch.arange(length, dtype=torch.float32), frequencies)


PLAIN = 1.0 / 10000.0 ** (torch.arange(16, dtype=torch.float32) / 16)


def llama31() -> torch.Tensor:
    out = []
    for f in PLAIN.tolist():
        wavelength = 2 * math.pi / f
        if wavelength < 64 / 4:
            out.append(f)
        elif wavelength > 64:
            out.append(f / 8)
        else:
            smooth = (64 / wavelength - 1) / 3
            out.append((1 - smooth) * f / 8 + smooth * f)
    return torch.tensor(out)


def yarn() -> torch.Tensor:
    low = math.floor(16 * math.log(64 / (32 * 2 * math.pi)) / (2 * math.log(10000)))
    high = math.ceil(16 * math.log(64 / (2 * math.pi)) / (2 * math.log(10000)))
    assert (low, high) == (-1, 3)
    ramp = torch.tensor([0, 1 / 3, 2 / 3] + [1.0] * 13)
    return ramp / 160000.0 ** (torch.arange(16) / 16) + (1 - ramp) * PLAIN


ROPES = {
    "rope_neox": ({}, PLAIN, False),
    "rope_non_neox": ({}, PLAIN, True),
    "rope_llama31": ({"original_max_position": 64}, llama31(), False),
    "rope_yarn": ({"original_max_position": 64, "attn_factor": 1.2}, yarn(), False),
    "rope_long_rope": ({"rescale_factors": torch.arange(1.0, 17), "max_position_embeddings": 8192},
                       PLAIN / torch.arange(1.0, 17), False),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ROPES)
def test_rotary_embeddings(name, dtype) -> None:
    options, frequencies, interleaved = ROPES[name]
    grown = math.sqrt(1 + math.log(2) / math.log(4096)) if name == "rope_long_rope" else 1.0
    factor = options.get("attn_factor", grown)
    turned = angles(40, frequencies)
    cos, sin = ((t * factor).to(dtype) for t in (turned.cos(), turned.sin()))
    flat, wide = torch.randn(40, 32).to(dtype), torch.randn(2, 40, 3, 32).to(dtype)
    function = getattr(tileops, name)
    close(function(flat, **options), rotate(flat, cos, sin, interleaved=interleaved).to(dtype))
    want = rotate(wide, cos[:, None], sin[:, None], interleaved=interleaved)
    close(function(wide, layout="2d", **options), want.to(dtype))
    with pytest.raises(ValueError, match="layout '2d' does not fit"):
        function(flat, layout="2d", **options)


def test_rescale_factors_may_be_a_list() -> None:
    x, factors = torch.randn(5, 8), [1.0, 2.0, 3.0, 4.0]
    want = tileops.rope_long_rope(x, rescale_factors=torch.tensor(factors))
    assert torch.equal(tileops.rope_long_rope(x, rescale_factors=factors), want)


def test_rotary_embedding_at_positions() -> None:
    x, positions = torch.randn(7, 3, 40), torch.randint(0, 50, (7,))
    turned = angles(50, PLAIN)[positions][:, None]
    got = tileops.rope_neox_position_ids(x, positions, max_position=50, rotary_dim=32)
    close(got, rotate(x, turned.cos(), turned.sin()))


Q, K, V = torch.randn(2, 6, 4, 16), torch.randn(2, 9, 2, 16), torch.randn(2, 9, 2, 16)


def want(q=Q, k=K, v=V, **options) -> torch.Tensor:
    heads_first = (x.transpose(1, 2) for x in (q, k, v))
    return attention(*heads_first, **options).transpose(1, 2)


def bottom_right(i, j):
    return j <= i + 3


def test_attention() -> None:
    got = tileops.grouped_query_attention(Q, K, V, sm_scale=0.2, softcap=3.0)
    close(got, want(sees=bottom_right, scale=0.2, softcap=3.0))
    k, v = K.repeat_interleave(2, 2), V.repeat_interleave(2, 2)
    close(tileops.multi_head_attention(Q, k, v), want(sees=bottom_right))
    close(tileops.multi_head_attention_decode_with_kv_cache(Q, k, v), want())
    got = tileops.grouped_query_attention_decode_with_kv_cache(
        Q[:, 0], K, V, sm_scale=None, softcap=None
    )
    close(got, want(Q[:, :1])[:, 0])
    options = {"window_size_left": 2, "window_size_right": 1}
    got = tileops.grouped_query_attention_sliding_window(Q, K, V, is_causal=False, **options)
    close(got, want(sees=lambda i, j: (i + 3 - j <= 2) & (j - i - 3 <= 1)))
    got = tileops.grouped_query_attention_sliding_window(Q, K, V, window_size_left=2)
    close(got, want(sees=lambda i, j: (i + 3 - j <= 2) & (j <= i + 3)))


def test_requests_one_after_the_other() -> None:
    q, k, v = Q.flatten(0, 1), K.flatten(0, 1), V.flatten(0, 1)
    starts = [torch.tensor([0, n, 2 * n], dtype=torch.int32) for n in (6, 9)]
    got = tileops.grouped_query_attention_prefill_varlen(
        q, k, v, *starts, max_seqlen_q=6, max_seqlen_kv=9, is_causal=True, sm_scale=None,
        softcap=None,
    )  # fmt: skip
    close(got, want(sees=bottom_right).flatten(0, 1))
    got = tileops.grouped_query_attention_sliding_window_varlen(
        q, k, v, *starts, window_size_left=2, max_seqlen_q=6
    )
    close(got, want(sees=lambda i, j: (i + 3 - j <= 2) & (j <= i + 3)).flatten(0, 1))


def paged(x: torch.Tensor, table: torch.Tensor, page: int) -> torch.Tensor:
    """The pages [tokens, H, D] that hold x [B, L, H, D], by the table."""
    pages = torch.randn(8, page, *x.shape[2:])
    for b in range(len(x)):
        for j in range(x.shape[1]):
            pages[table[b, j // page], j % page] = x[b, j]
    return pages.flatten(0, 1)


TABLE = torch.tensor([[5, 0, 3], [1, 7, 2]], dtype=torch.int32)


def test_pages() -> None:
    pages = [paged(x, TABLE, 4) for x in (K, V)]
    lengths = torch.tensor([9, 7], dtype=torch.int32)
    got = tileops.grouped_query_attention_decode_paged_with_kv_cache(
        Q[:, 0], *pages, lengths, TABLE, page_size=4
    )
    for b, n in enumerate([9, 7]):
        one = want(Q[b : b + 1, :1], K[b : b + 1, :n], V[b : b + 1, :n])
        close(got[b].contiguous(), one[0, 0])
    k, v = K.repeat_interleave(2, 2), V.repeat_interleave(2, 2)
    pages = [paged(x, TABLE, 4) for x in (k, v)]
    got = tileops.multi_head_attention_decode_paged_with_kv_cache(
        Q, *pages, torch.tensor([9, 9], dtype=torch.int32), TABLE, page_size=4
    )
    close(got, want())


def prefill(old, scales, starts=(5, 5), **options):
    """Four tokens each of two requests, after the five in their pages."""
    news = [x[:, 5:].flatten(0, 1) for x in (K, V)]
    lengths = (torch.tensor([0, 4, 8]).int(), torch.tensor(starts).int(), TABLE)
    sizes = {"max_pages_per_req": 3, "page_size": 4, "max_seqlen_q": 4}
    return tileops.grouped_query_attention_prefill_paged_with_kv_cache(
        Q[:, :4].flatten(0, 1), *news, *old, *scales, *lengths, **sizes, **options
    )


def after_five(i, j):
    return j <= i + 5


def test_prefill_writes_the_pages() -> None:
    old = [paged(x[:, :5], TABLE, 4) for x in (K, V)]
    close(prefill(old, (None, None)), want(Q[:, :4], sees=after_five).flatten(0, 1))
    with pytest.raises(ValueError, match="beyond the capacity of its pages, 12 tokens"):
        prefill(old, (None, None), starts=(5, 9))


@pytest.mark.parametrize("rotary_dim", [None, 8])
def test_prefill_rotates(rotary_dim) -> None:
    turn = {"max_position": 12, "base": 100.0, "rotary_dim": rotary_dim}

    def turned(x, start):
        positions = torch.arange(start, start + x.shape[1]).repeat(2)
        return tileops.rope_neox_position_ids(x.flatten(0, 1), positions, **turn).view(x.shape)

    keys = turned(K, 0)
    old = [paged(x[:, :5], TABLE, 4) for x in (keys, V)]
    turn["rope_base"] = turn.pop("base")
    got = prefill(old, (None, None), fuse_rope=True, **turn)
    turn["base"] = turn.pop("rope_base")
    close(got, want(turned(Q[:, :4], 5), keys, sees=after_five).flatten(0, 1))


def test_prefill_over_pages_of_8_bits() -> None:
    scales = [torch.tensor([s]) for s in (0.02, 0.03)]

    def rounded(x, scale):
        return (x / scale).to(torch.float8_e4m3fn)

    old = [rounded(paged(x[:, :5], TABLE, 4), s) for x, s in zip((K, V), scales, strict=True)]
    got = prefill(old, scales, cache_dtype=torch.float8_e4m3fn)
    keys, values = (rounded(x, s).float() * s for x, s in zip((K, V), scales, strict=True))
    close(got, want(Q[:, :4], keys, values, sees=after_five).flatten(0, 1))
    for name, bad in (("k_scale", 0), ("v_scale", 1)):
        wrong = [s if i != bad else -s for i, s in enumerate(scales)]
        with pytest.raises(ValueError, match=f"{name} must be finite positive"):
            prefill(old, wrong)


def test_latent_attention() -> None:
    q_pe, k_pe = torch.randn(2, 4, 8), torch.randn(2, 9, 1, 8)
    k = K[:, :, :1].contiguous()
    got = tileops.multi_head_latent_attention_decode_with_kv_cache(Q[:, 0], q_pe, k, k_pe, pe_dim=8)
    one = torch.cat([Q[:, 0], q_pe], -1)[:, None]
    close(got, want(one, torch.cat([k, k_pe], -1), k)[:, 0])


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "softmax", "log_softmax"])
def test_reductions_in_another_dtype(name) -> None:
    x = (torch.rand(3, 40) + 0.5).bfloat16()
    want = getattr(torch, name)(x, dim=-1, dtype=torch.float32)
    for dtype in (torch.float32, "float32"):
        close(getattr(tileops, name)(x, dim=-1, dtype=dtype), want)
