"""tilewright.nn against the modules that it replaces."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from tilewright import nn


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def same(ours: torch.nn.Module, theirs: torch.nn.Module, *inputs: torch.Tensor, **options) -> None:
    """The other's weights load, and give the same."""
    for parameter in theirs.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
    ours.load_state_dict(theirs.state_dict(), strict=True)
    got, want = ours(*inputs, **options), theirs(*inputs, **options)
    got, want = (x[0] if isinstance(x, tuple) else x for x in (got, want))
    assert got.dtype == want.dtype
    tolerance = 1.6e-2 if want.dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


X = torch.randn(2, 7, 24)


@pytest.mark.parametrize(
    "options",
    [
        {"normalized_shape": 24},
        {"normalized_shape": 24, "eps": 1e-5},
        {"normalized_shape": (7, 24), "elementwise_affine": False},
        {"normalized_shape": 24, "dtype": torch.bfloat16},
    ],
)
def test_rms_norm(options) -> None:
    x = X.to(options.get("dtype", torch.float32))
    same(nn.RMSNorm(**options), torch.nn.RMSNorm(**options), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("affine", [True, False])
def test_default_eps_of_rms_norm_is_that_of_pytorch(dtype, affine) -> None:
    x = torch.full((1, 8), 1e-4, dtype=dtype)  # whose square is below any dtype's eps but float64's
    options = {"normalized_shape": 8, "elementwise_affine": affine, "dtype": dtype}
    ours, theirs = nn.RMSNorm(**options)(x), torch.nn.RMSNorm(**options)(x)
    torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=0)


def test_layer_norm() -> None:
    same(nn.LayerNorm(24), torch.nn.LayerNorm(24), X)
    same(nn.LayerNorm((7, 24), 1e-3), torch.nn.LayerNorm((7, 24), 1e-3), X)
    same(nn.LayerNorm(24, bias=False), torch.nn.LayerNorm(24, bias=False), X)
    same(nn.LayerNorm(24, elementwise_affine=False), torch.nn.LayerNorm(24, 1e-5, False), X)


@pytest.mark.parametrize("inplace", [False, True])
def test_dropout(inplace) -> None:
    layer, x = nn.Dropout(0.3, inplace), torch.ones(200, 100)
    assert layer.eval()(x) is x
    torch.manual_seed(2)
    out = layer.train()(x.clone())
    assert set(out.unique().tolist()) == {0.0, torch.tensor(1 / 0.7).item()}
    assert abs((out == 0).float().mean() - 0.3) < 0.01
    assert not torch.equal(layer(x.clone()), out)
    torch.manual_seed(2)
    assert torch.equal(layer(x.clone()), out)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_dropout_in_a_compiled_graph(backend) -> None:
    """One graph, a fresh mask in each run, the same one in forward and backward."""
    torch._dynamo.reset()
    model = torch.nn.Sequential(nn.RMSNorm(64), nn.Dropout(0.25)).train()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
    with torch.enable_grad():
        for rows in (30, 70):
            x = torch.randn(rows, 64, requires_grad=True)
            masks = []
            for _ in range(2):
                out = compiled(x)
                kept = (out != 0).to(x.dtype)
                assert abs(kept.mean() - 0.75) < 0.05
                (grad,) = torch.autograd.grad(out.square().sum(), x)
                want = (model[0](x) * kept / 0.75).square().sum()
                torch.testing.assert_close(grad, torch.autograd.grad(want, x)[0])
                masks.append(kept)
            assert not torch.equal(*masks)
    if backend == "aot_eager":  # which draws as eager mode does
        torch.manual_seed(6)
        want = model(x)
        torch.manual_seed(6)
        assert torch.equal(compiled(x), want)


def test_rms_norm_refuses_other_shapes() -> None:
    with pytest.raises(ValueError, match=r"must end in \(24,\)"):
        nn.RMSNorm(24)(X[..., :5])


@pytest.mark.parametrize("bias", [True, False])
def test_linear(bias) -> None:
    same(nn.Linear(24, 10, bias), torch.nn.Linear(24, 10, bias), X)


class Gated(torch.nn.Module):
    """As transformers writes it."""

    def __init__(self, act, bias) -> None:
        super().__init__()
        self.gate_proj = torch.nn.Linear(24, 40, bias)
        self.up_proj = torch.nn.Linear(24, 40, bias)
        self.down_proj = torch.nn.Linear(40, 24, bias)
        self.act = act

    def forward(self, x):
        return self.down_proj(self.act(self.gate_proj(x)) * self.up_proj(x))


def test_linear_layers_are_traced_symbolically() -> None:
    layers = torch.nn.Sequential(nn.Linear(8, 5), torch.nn.ReLU(), nn.Linear(5, 4))
    x = torch.randn(3, 8)
    traced = torch.fx.symbolic_trace(layers)
    assert [n.target for n in traced.graph.nodes if n.op == "call_function"]
    torch.testing.assert_close(traced(x), layers(x), rtol=0, atol=0)


@pytest.mark.parametrize("bias", [True, False])
def test_gated_layers(bias) -> None:
    same(nn.GatedMLP(24, 40, bias), Gated(torch.nn.SiLU(), bias), X)
    same(nn.GatedMLP(24, 40, bias, "relu"), Gated(torch.nn.ReLU(), bias), X)
    same(nn.GatedMLP(24, 40, bias, "gelu"), Gated(torch.nn.GELU(), bias), X)
    same(nn.GatedMLP(24, 40, bias, "gelu_tanh"), Gated(torch.nn.GELU("tanh"), bias), X)


class XformersSwiGLU(torch.nn.Module):
    """As xformers writes it."""

    def __init__(self, out_features, bias, packed) -> None:
        super().__init__()
        self.w12 = torch.nn.Linear(24, 80, bias) if packed else None
        if not packed:
            self.w1, self.w2 = (torch.nn.Linear(24, 40, bias) for _ in range(2))
        self.w3 = torch.nn.Linear(40, out_features, bias)

    def forward(self, x):
        w1, w2 = (self.w1(x), self.w2(x)) if self.w12 is None else self.w12(x).chunk(2, -1)
        return self.w3(torch.nn.functional.silu(w1) * w2)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("packed", [True, False])
def test_swiglu_is_that_of_xformers(bias, packed) -> None:
    same(nn.SwiGLU(24, 40, None, bias, _pack_weights=packed), XformersSwiGLU(24, bias, packed), X)
    narrow = nn.SwiGLU(24, hidden_features=40, out_features=7, bias=bias, _pack_weights=packed)
    same(narrow, XformersSwiGLU(7, bias, packed), X)
    assert list(nn.SwiGLU(24, 40).state_dict()) == [
        "w12.weight",
        "w12.bias",
        "w3.weight",
        "w3.bias",
    ]


def test_rotary_embedding_rotates_neighbours_by_default() -> None:
    x = torch.randn(2, 5, 3, 8)
    same = nn.RotaryEmbedding(8, 64, interleaved=True)(x)
    assert torch.equal(nn.RotaryEmbedding(8, 64)(x), same)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding(interleaved) -> None:
    rope = nn.RotaryEmbedding(8, 64, base=100.0, interleaved=interleaved)
    assert not rope.state_dict()
    x, positions = torch.randn(2, 5, 3, 10), torch.randint(0, 64, (2, 5))
    turns = positions[..., None, None] * 100.0 ** -(torch.arange(0, 8, 2) / 8)
    a, b = (x[..., :8:2], x[..., 1:8:2]) if interleaved else (x[..., :4], x[..., 4:8])
    pair = torch.complex(a, b) * torch.polar(torch.ones_like(turns), turns)
    want = x.clone()
    if interleaved:
        want[..., :8] = torch.view_as_real(pair).flatten(-2)
    else:
        want[..., :8] = torch.cat([pair.real, pair.imag], -1)
    torch.testing.assert_close(rope(x, positions), want, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(rope(x), rope(x, torch.arange(5)))


def test_flash_attention() -> None:
    qkv = torch.randn(2, 9, 3, 4, 16)
    q, k, v = (x.transpose(1, 2) for x in qkv.unbind(2))
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)
    got = nn.FlashAttention(causal=True, softmax_scale=0.3)(qkv)
    torch.testing.assert_close(got, want.transpose(1, 2), rtol=1e-5, atol=1e-5)
    i, j = torch.arange(9)[:, None], torch.arange(9)[None]
    mask = (i - j <= 2) & (j - i <= 1)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask)
    got = nn.FlashAttention(window_size=(2, 1))(*qkv.unbind(2))
    torch.testing.assert_close(got, want.transpose(1, 2), rtol=1e-5, atol=1e-5)
    got = nn.FlashAttention(softmax_scale=0.0)(qkv)  # not the default
    want = v.mean(2, keepdim=True).expand(v.shape)
    torch.testing.assert_close(got, want.transpose(1, 2), rtol=1e-5, atol=1e-5)


def test_dropout_of_attention() -> None:
    """Of weights: a value that is one everywhere shows how many are left."""
    torch.manual_seed(2)
    q, k = torch.randn(1, 64, 4, 8), torch.randn(1, 512, 2, 8)
    flash = nn.FlashAttention(attention_dropout=0.25, window_size=(300, 0))
    ones = torch.ones(1, 512, 2, 1)
    assert torch.equal(flash.eval()(q, k, k), nn.FlashAttention(window_size=(300, 0))(q, k, k))
    kept = flash.train()(q, k, ones)
    assert kept.shape == (1, 64, 4, 1)
    assert float(kept.std()) > 0.02
    assert abs(float(kept.mean()) - 1) < 0.01
    half = torch.cat([torch.zeros(1, 512 - 301 - 63, 2, 1), ones[:, 148:]], 1)
    torch.manual_seed(3)
    got = flash(q, k, half)
    torch.manual_seed(3)
    torch.testing.assert_close(got, flash(q, k, ones), rtol=0, atol=0)  # the window sees no zero


@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"bias": False}, {"kdim": 12}])
def test_multihead_attention(options) -> None:
    ours = nn.MultiheadAttention(24, 4, **options).eval()
    theirs = torch.nn.MultiheadAttention(24, 4, **options).eval()
    key = torch.randn(2, 7, 12) if "kdim" in options else X
    same(ours, theirs, X, key, X, need_weights=False)
    if key is X:
        same(ours, theirs, X[0], X[0], X[0], need_weights=False)
        length = 7 if "batch_first" in options else 2
        mask = torch.nn.Transformer.generate_square_subsequent_mask(length)
        same(ours, theirs, X, X, X, need_weights=False, attn_mask=mask, is_causal=True)


MASK = torch.tensor([[j > i + 2 or j == 1 for j in range(7)] for i in range(7)])
PADDING = torch.tensor([[False] * 7, [True, False, False, True, False, False, True]])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"average_attn_weights": False},
        {"attn_mask": MASK},
        {"attn_mask": torch.randn(2 * 4, 7, 7)},
        {"key_padding_mask": PADDING, "attn_mask": torch.where(MASK, -torch.inf, 0.5)},
        {"key_padding_mask": PADDING.float(), "need_weights": False},
    ],
)
@pytest.mark.parametrize("settings", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}])
def test_weights_and_masks_of_multihead_attention(settings, options) -> None:
    ours = nn.MultiheadAttention(24, 4, batch_first=True, **settings).eval()
    theirs = torch.nn.MultiheadAttention(24, 4, batch_first=True, **settings).eval()
    theirs.load_state_dict(ours.state_dict())
    got, want = ours(X, X, X, **options), theirs(X, X, X, **options)
    for g, w in zip(got, want, strict=True):
        assert (g is None) == (w is None)
        if w is not None:
            torch.testing.assert_close(g, w, rtol=1e-5, atol=1e-5)


def test_refusals() -> None:
    attention = nn.MultiheadAttention(24, 4, batch_first=True)
    with pytest.raises(ValueError, match="7 queries and 3 keys needs an attn_mask"):
        attention(X, X[:, :3], X[:, :3], is_causal=True)
    with pytest.raises(ValueError, match=r"q is \(2, 7, 24\), but without k and v \[B, S, 3, H, D"):
        nn.FlashAttention()(X)
    qkv = torch.randn(1, 3, 3, 2, 8)  # flash-attn's second argument is causal
    with pytest.raises(TypeError, match="k and v are bool, NoneType, but both must be tensors"):
        nn.FlashAttention()(qkv, True)
    with pytest.raises(TypeError, match="k and v are Tensor, NoneType, but both must be tensors"):
        nn.FlashAttention()(qkv[:, :, 0], qkv[:, :, 1])
    with pytest.raises(ValueError, match="activation = 'tanh' must be one of relu, gelu, gelu_tan"):
        nn.GatedMLP(24, 40, activation="tanh")
    with pytest.raises(ValueError, match="dim = 7 must be even"):
        nn.RotaryEmbedding(7)


@pytest.mark.parametrize("options", [{}, {"need_weights": True}])
def test_attention_of_nothing(options) -> None:
    attention = nn.MultiheadAttention(24, 4, batch_first=True)
    out, _ = attention(X[:0], X[:0], X[:0], **options)
    assert out.shape == (0, 7, 24)


class Mixed(torch.nn.Module):
    """Modules of both kinds in turn, as they stand in a model of which some are exchanged."""

    def __init__(self, of: Any) -> None:
        super().__init__()
        self.first, self.norm = torch.nn.Linear(24, 24), of.RMSNorm(24, 1e-5)
        self.attention = of.MultiheadAttention(24, 4, batch_first=True)
        self.last, self.layer_norm = of.Linear(24, 24), of.LayerNorm(24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.first(x))
        return self.last(self.layer_norm(x + self.attention(x, x, x, need_weights=False)[0]))


def test_autocast() -> None:
    """Products in bfloat16, as PyTorch's; each dtype that meets another is widened."""
    ours, theirs = Mixed(nn), Mixed(torch.nn)
    ours.load_state_dict(theirs.state_dict())
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    gradients = []
    for model in (ours, theirs, compiled):
        with torch.enable_grad(), torch.autocast("cpu", torch.bfloat16):
            out = model(X)
            assert out.dtype == torch.bfloat16
        with torch.enable_grad():
            gradients.append(torch.autograd.grad(out.float().square().sum(), model.parameters()))
    for got in gradients[::2]:
        for g, w in zip(got, gradients[1], strict=True):
            assert g.dtype == w.dtype == torch.float32
            assert float((g - w).norm()) <= 0.03 * float(w.norm()) + 1e-2
    ops = torch.ops.tilewright
    with torch.autocast("cpu", torch.bfloat16):
        assert ops.linear(X.double(), torch.ones(3, 24).double()).dtype == torch.float64
        assert ops.add(X, X.bfloat16()).dtype == torch.float32
        assert ops.softmax(X.bfloat16()).dtype == torch.bfloat16
        with torch.autocast("cpu", enabled=False):
            assert ops.linear(X, torch.ones(3, 24)).dtype == torch.float32


def test_a_transformer_layer_trains_alike() -> None:
    """Where its attention is exchanged; dropout's masks are ours, so there is none."""
    theirs = torch.nn.TransformerEncoderLayer(24, 4, 32, dropout=0.0, batch_first=True)
    ours = copy.deepcopy(theirs)
    ours.self_attn = nn.MultiheadAttention(24, 4, batch_first=True)
    ours.load_state_dict(theirs.state_dict())
    with torch.enable_grad():
        for layer in (ours, theirs):
            layer(X, src_mask=MASK, src_key_padding_mask=PADDING).square().sum().backward()
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5, msg=name)


def test_gradients() -> None:
    torch.manual_seed(1)
    ours = torch.nn.Sequential(nn.LayerNorm(24), nn.GatedMLP(24, 40, True), nn.RMSNorm(24, 1e-5))
    theirs = torch.nn.Sequential(
        torch.nn.LayerNorm(24), Gated(torch.nn.SiLU(), True), torch.nn.RMSNorm(24, 1e-5)
    )
    theirs.load_state_dict(ours.state_dict())
    with torch.enable_grad():
        for model in (ours, theirs):
            model(X).pow(3).sum().backward()
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-4, msg=name)


def test_a_block_compiles_as_one_graph() -> None:
    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.mlp = nn.RMSNorm(24, eps=1e-5), nn.SwiGLU(24, 40, bias=False)
            self.qkv, self.rope = nn.Linear(24, 72), nn.RotaryEmbedding(6)
            self.attention = nn.FlashAttention(causal=True)

        def forward(self, x):
            q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 4, 6)).unbind(2)
            x = x + self.attention(self.rope(q), self.rope(k), v).flatten(2)
            return x + self.mlp(self.norm(x))

    block = Block()
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager", dynamic=True)
    torch.testing.assert_close(compiled(X), block(X))
    torch.testing.assert_close(compiled(X[:, :3]), block(X[:, :3]))


@pytest.mark.parametrize("name", ["RMSNorm", "LayerNorm"])
def test_norms_take_narrower_inputs_than_weights(name: str) -> None:
    theirs, ours = getattr(torch.nn, name)(8), getattr(nn, name)(8)
    with torch.no_grad():
        theirs.weight.uniform_(0.5, 2)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(3, 8).bfloat16()
    with torch.enable_grad():
        out = ours(x)
        out.sum().backward()
    assert out.dtype == torch.bfloat16
    assert ours.weight.grad.dtype == torch.float32
    torch.testing.assert_close(out, theirs(x), rtol=1.6e-2, atol=1e-2)
