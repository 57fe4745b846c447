"""tilewright.nn against the modules that it replaces."""

from __future__ import annotations

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


@pytest.mark.parametrize("bias", [True, False])
def test_gated_layers(bias) -> None:
    same(nn.GatedMLP(24, 40, bias), Gated(torch.nn.SiLU(), bias), X)
    same(nn.SwiGLU(24, 40, bias), Gated(torch.nn.SiLU(), bias), X)
    same(nn.GatedMLP(24, 40, bias, "relu"), Gated(torch.nn.ReLU(), bias), X)
    same(nn.GatedMLP(24, 40, bias, "gelu"), Gated(torch.nn.GELU(), bias), X)
    same(nn.GatedMLP(24, 40, bias, "gelu_tanh"), Gated(torch.nn.GELU("tanh"), bias), X)


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
    with pytest.raises(NotImplementedError, match="dropout"):
        nn.FlashAttention(attention_dropout=0.1)


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


def test_multihead_attention_refuses_what_it_has_not() -> None:
    attention = nn.MultiheadAttention(24, 4, add_zero_attn=True)
    with pytest.raises(NotImplementedError, match="no need_weights=True and no add_zero_attn"):
        attention(X, X, X, need_weights=True)


def test_gradients() -> None:
    torch.manual_seed(1)
    ours = torch.nn.Sequential(nn.LayerNorm(24), nn.SwiGLU(24, 40, True), nn.RMSNorm(24, 1e-5))
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
            self.norm, self.mlp = nn.RMSNorm(24, eps=1e-5), nn.SwiGLU(24, 40)
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
