"""TileOPs' layers of experts, whole and stage by stage, token by token."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from oracles import close
from tilewright.compat import tileops
from tilewright.compat._tileops_expert_layouts import (
    ContiguousLayoutSpec,
    MaskedLayoutSpec,
    RoutingEpilogueSpec,
)

T, H, WIDTH, E, TOP = 7, 16, 12, 5, 2
X = torch.randn(T, H)
GATE_UP, DOWN = torch.randn(E, 2 * WIDTH, H) / 4, torch.randn(E, H, WIDTH) / 4
WEIGHTS = torch.rand(T, TOP)
IDS = torch.tensor([[0, 3], [3, 1], [4, 0], [3, 4], [1, 3], [0, 1], [4, 3]], dtype=torch.int32)
GATED = {"silu_and_mul": F.silu, "gelu_and_mul": F.gelu}

LAYOUTS = [
    ContiguousLayoutSpec.tight_physical_psum(),
    ContiguousLayoutSpec.tight_per_row(),
    ContiguousLayoutSpec.aligned_physical_psum(4),
    ContiguousLayoutSpec.aligned_per_row(4),
]


def expert(x, gate_up, down, activation="silu_and_mul") -> torch.Tensor:
    gate, up = (x.double() @ gate_up.double().T).chunk(2, -1)
    return (GATED[activation](gate) * up) @ down.double().T


def layer(weights, ids, factor=1.0, activation="silu_and_mul") -> torch.Tensor:
    out = torch.zeros(T, H, dtype=torch.float64)
    for t in range(T):
        for weight, e in zip(weights[t].double(), ids[t].tolist(), strict=True):
            out[t] += factor * weight * expert(X[t], GATE_UP[e], DOWN[e], activation)
    return out


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("activation", GATED)
def test_stages_make_a_layer(layout, activation) -> None:
    given, told, places = tileops.moe_pre_permute(X, IDS, layout=layout, num_local_experts=E)
    assert len(given) == layout.capacity(T * TOP, E)
    assert len(told) == (E if "psum" in layout.selection_key else len(given))
    assert sorted(set(places.tolist())) == sorted(places.tolist())
    assert torch.equal(given[places.long()], X.repeat_interleave(TOP, 0))
    made = tileops.moe_expert_mlp(given, GATE_UP, DOWN, told, layout=layout, activation=activation)
    epilogue = RoutingEpilogueSpec(2.5)
    got = tileops.moe_post_permute(made, WEIGHTS, places, layout=layout, epilogue=epilogue)
    close(got, layer(WEIGHTS, IDS, 2.5, activation).float())


def test_where_experts_lie() -> None:
    for layout, told in (
        (LAYOUTS[0], [3, 6, 6, 11, 14]),
        (LAYOUTS[1], [0] * 3 + [1] * 3 + [3] * 5 + [4] * 3),
        (LAYOUTS[2], [3, 7, 8, 13, 19]),
        (LAYOUTS[3], [0] * 4 + [1] * 4 + [3] * 8 + [4] * 4 + [5] * 12),
    ):
        made = tileops.moe_pre_permute(X, IDS, layout=layout, num_local_experts=E)
        assert made[1].tolist() == told
    assert str(LAYOUTS[3]) == "ContiguousLayoutSpec.aligned_per_row(4)"


def test_slabs() -> None:
    layout, counts = MaskedLayoutSpec(3), torch.tensor([2, 0, 3, 1, 3], dtype=torch.int32)
    slabs = torch.randn(E, 3, H)
    out = torch.empty(E, 3, H)
    made = tileops.moe_expert_mlp(slabs, GATE_UP, DOWN, counts, out, layout=layout)
    assert made is out
    for e, count in enumerate(counts.tolist()):
        close(made[e, :count], expert(slabs[e, :count], GATE_UP[e], DOWN[e]).float())
    places = torch.tensor([0, 1, 12, 6, 13, 9], dtype=torch.int32)
    got = tileops.moe_post_permute(made, WEIGHTS[:3], places, layout=layout, out_dtype="float16")
    rows = made.view(-1, H)[places.long()].view(3, TOP, H)
    close(got, (rows * WEIGHTS[:3, :, None]).sum(1).half())


def test_sums_in_float32() -> None:
    layout, ends = LAYOUTS[0], torch.tensor([2, 2, 5, 6, 7], dtype=torch.int32)
    a, b = X.bfloat16(), DOWN.mT.bfloat16().contiguous()
    got = tileops.moe_grouped_gemm(a, b, ends, layout=layout, out_dtype=torch.float32)
    names = [0, 0, 2, 2, 2, 3, 4]
    close(got, torch.stack([a[i].double() @ b[e].double().T for i, e in enumerate(names)]).float())


def test_slabs_of_8_bits() -> None:
    a = torch.randn(2, 3, 256).to(torch.float8_e4m3fn)
    b = torch.randn(2, 128, 256).to(torch.float8_e4m3fn)
    a_scale, b_scale = torch.rand(2, 3, 2), torch.rand(2, 1, 2)
    given = (a, a_scale, b, b_scale, torch.tensor([3, 3], dtype=torch.int32))
    got = tileops.moe_grouped_gemm_fp8(*given, layout=MaskedLayoutSpec(3))
    wide = a.double() * a_scale.repeat_interleave(128, -1)
    weights = b.double() * b_scale.repeat_interleave(128, -1)
    close(got, (wide @ weights.mT).bfloat16())


@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
@pytest.mark.parametrize("activation", GATED)
def test_whole_layers(scoring, activation) -> None:
    scores = torch.randn(T, E)
    bias = torch.randn(E) / 4 if scoring == "sigmoid" else None
    route = {"top_k": TOP, "scoring_func": scoring, "renormalize": True}
    weights, ids = tileops.moe_fused_topk(scores, bias, **route)
    options = {"routed_scaling_factor": 1.5, "activation": activation}
    want = layer(weights, ids, 1.5, activation).float()
    out = torch.empty(T, H)
    assert tileops.fused_moe_experts(out, X, GATE_UP, DOWN, weights, ids, **options) is None
    close(out, want)
    close(tileops.fused_moe(X, scores, GATE_UP, DOWN, bias, **route, **options), want)


def test_a_shared_expert_in_parts() -> None:
    scores, shared = torch.randn(T, E), (GATE_UP[0].clone(), DOWN[0].clone())
    given = (X, scores, GATE_UP, DOWN, None)
    none, routed = tileops.fused_moe_shared_expert(*given, top_k=TOP)
    assert none is None
    parts = [
        tileops.fused_moe_shared_expert(*given, *shared, top_k=TOP, tp_size=3, tp_rank=rank)
        for rank in range(3)
    ]
    assert all(torch.equal(part[1], routed) for part in parts)
    close(sum(part[0] for part in parts), expert(X, *shared).float())
    with pytest.raises(ValueError, match="rank 1 of 5 has no whole part of 12"):
        tileops.fused_moe_shared_expert(*given, *shared, top_k=TOP, tp_size=5, tp_rank=1)


def test_what_stages_refuse() -> None:
    with pytest.raises(ValueError, match="num_local_experts must be positive"):
        tileops.moe_pre_permute(X, IDS, layout=LAYOUTS[0], num_local_experts=0)
    with pytest.raises(ValueError, match=r"MaskedLayoutSpec\(max_m=3\) may not hold"):
        tileops.moe_pre_permute(X, IDS, layout=MaskedLayoutSpec(3), num_local_experts=E)
    with pytest.raises(ValueError, match="alignment > 1"):
        ContiguousLayoutSpec.aligned_per_row(1)
    with pytest.raises(ValueError, match="non-negative"):
        MaskedLayoutSpec(-1)
    with pytest.raises(ValueError, match="finite and positive"):
        RoutingEpilogueSpec(0.0)
    with pytest.raises(ValueError, match="activation must be one of silu_and_mul, gelu_and_mul"):
        tileops.fused_moe(X, torch.randn(T, E), GATE_UP, DOWN, top_k=2, activation="relu")
