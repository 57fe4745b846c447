"""TileGym's modules, and rotations that overwrite, against PyTorch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from oracles import close, rotate
from tilewright.compat import tilegym
from tilewright.compat.tilegym import liger

A = torch.randn(2, 3, 40)
Q, K = torch.randn(2, 4, 11, 16), torch.randn(2, 2, 11, 16)


@pytest.mark.parametrize(
    ("name", "how"),
    [("gelu_pytorch_tanh", "tanh"), ("gelu_new", "tanh"), ("gelu", "none"), (None, "none")],
)
def test_gated_layer_with_gelu(name, how) -> None:
    class Config:
        hidden_size, intermediate_size = 40, 24
        hidden_activation = name

    layer = tilegym.PartiallyFusedGEGLUMLP(Config).requires_grad_(False)
    gate, up, down = (layer.state_dict()[f"{n}_proj.weight"] for n in ("gate", "up", "down"))
    close(layer(A), (F.gelu(A @ gate.T, approximate=how) * (A @ up.T)) @ down.T)


def test_rotation_by_sections_and_shards() -> None:
    angles = 6 * torch.rand(3, 2, 11, 8)
    cos, sin = (torch.cat([f, f], -1) for f in (angles.cos(), angles.sin()))
    mine, mine_k = Q.clone(), K.clone()
    q, k = liger.qwen2vl_mrope(mine, mine_k, cos, sin, [2, 3, 3])
    assert q is mine
    assert k is mine_k
    pick = [torch.cat([t[0][..., :2], t[1][..., 2:5], t[2][..., 5:8]], -1) for t in (cos, sin)]
    close(q, rotate(Q, *(t[:, None] for t in pick)))
    trained = Q.clone().requires_grad_()  # what it was is needed still
    with_gradient, _ = liger.qwen2vl_mrope(trained, K.clone(), cos, sin, [2, 3, 3])
    close(with_gradient.detach(), q)
    assert torch.equal(trained, Q)
    layer = torch.nn.Linear(40, 40)
    got = liger.tiled_mlp(lambda m, x: m(x), layer, A, num_shards=2)
    torch.testing.assert_close(got, layer(A))


@pytest.mark.parametrize("shape", [(11, 16), (1, 11, 16), (2, 11, 16), (2, 11, 8)])
def test_tables_of_rotation(shape) -> None:
    """Of all sequences, with or without a dimension for it, or of each; of the first dimensions."""
    angles = 6 * torch.rand(*shape[:-1], shape[-1] // 2)
    cos, sin = (torch.cat([f, f], -1) for f in (angles.cos(), angles.sin()))
    half = [t[..., : shape[-1] // 2].unsqueeze(-3) for t in (cos, sin)]
    for got, x in zip(liger.rope(Q, K, cos, sin), (Q, K), strict=True):
        close(got, rotate(x, *half))


@pytest.mark.parametrize("form", ["complex", "pairs", "halves"])
@pytest.mark.parametrize("lead", [(), (1,), (2,)])
def test_tables_of_rotation_in_pairs(form, lead) -> None:
    angles = 6 * torch.rand(*lead, 11, 8)
    cos, sin = angles.cos(), angles.sin()
    made = {
        "complex": torch.complex(cos, sin),
        "pairs": torch.stack([cos, sin], -1),
        "halves": torch.cat([cos, sin], -1),
    }
    q, k = (x.transpose(1, 2).contiguous() for x in (Q, K))
    got = liger.llama4_rope(q.clone(), k.clone(), made[form])
    for mine, x in zip(got, (q, k), strict=True):
        close(mine, rotate(x, cos.unsqueeze(-2), sin.unsqueeze(-2), interleaved=True))
