"""A layer of experts against transformers' own, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from cases import DEVICES
from transformers.models.mixtral.modeling_mixtral import MixtralConfig, MixtralSparseMoeBlock
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeConfig, Qwen3MoeSparseMoeBlock

from tilewright import composites, ops

SIZES = {"hidden_size": 64, "num_experts_per_tok": 3, "hidden_act": "silu"}


def block_of(family: str) -> torch.nn.Module:
    torch.manual_seed(0)
    if family == "mixtral":
        config = MixtralConfig(**SIZES, intermediate_size=40, num_local_experts=7)
        block: torch.nn.Module = MixtralSparseMoeBlock(config)
    else:
        block = Qwen3MoeSparseMoeBlock(
            Qwen3MoeConfig(**SIZES, moe_intermediate_size=40, num_experts=7, norm_topk_prob=True)
        )
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return block.eval()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("tokens", [1, 5, 300])
@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe"])
def test_gives_what_transformers_does(family: str, tokens: int, device: str) -> None:
    block = block_of(family).to(device)
    x = torch.randn(1, tokens, 64, device=device)
    with torch.no_grad():
        want = block.double()(x.double())
    want = want[0] if isinstance(want, tuple) else want
    logits = x[0].double() @ block.gate.weight.T
    weights, ids = ops.moe_topk(logits.float(), 3, renormalize=True)
    experts = block.experts.float()
    with torch.no_grad():
        got = ops.fused_experts(x[0], experts.gate_up_proj, experts.down_proj, weights, ids)
    torch.testing.assert_close(got.double(), want[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("activation", ["silu", "gelu", "gelu_tanh"])
def test_gradients_are_those_of_its_definition(activation: str, device: str) -> None:
    torch.manual_seed(0)
    shapes = {"x": (11, 24), "gate_up": (5, 32, 24), "down": (5, 24, 16), "weights": (11, 3)}
    given = [torch.randn(s, device=device).requires_grad_() for s in shapes.values()]
    ids = torch.randint(-1, 5, (11, 3), dtype=torch.int32, device=device)
    grad = torch.randn(11, 24, device=device)
    out = ops.fused_experts(*given, ids, activation=activation, scale=0.5)
    wanted = [t.detach().double().requires_grad_() for t in given]
    want = composites.find("fused_experts")(*wanted, ids, activation, 0.5)
    torch.testing.assert_close(out.double(), want, rtol=1e-4, atol=1e-4)
    for name, got, expected in zip(
        shapes,
        torch.autograd.grad(out, given, grad),
        torch.autograd.grad(want, wanted, grad.double()),
        strict=True,
    ):
        torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4, msg=name)


def test_experts_elsewhere_add_nothing() -> None:
    torch.manual_seed(0)
    x, gate_up, down = torch.randn(6, 8), torch.randn(4, 10, 8), torch.randn(4, 8, 5)
    weights, ids = torch.rand(6, 3), torch.randint(0, 4, (6, 3), dtype=torch.int32)
    elsewhere = ids >= 2
    here = ops.fused_experts(
        x, gate_up[:2], down[:2], weights, torch.where(elsewhere, -1, ids).to(torch.int32)
    )
    want = ops.fused_experts(x, gate_up, down, torch.where(elsewhere, 0, weights), ids)
    torch.testing.assert_close(here, want)


def test_refuses_an_unknown_expert() -> None:
    x, gate_up, down = torch.zeros(1, 8), torch.zeros(4, 10, 8), torch.zeros(4, 8, 5)
    for bad in (-2, 4):
        with pytest.raises(Exception, match=rf"fused_experts: .*id {bad} is neither -1 nor one of"):
            ops.fused_experts(x, gate_up, down, torch.ones(1, 1), torch.tensor([[bad]]).int())
