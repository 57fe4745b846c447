"""Composites of mixtures of experts."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from tilewright.composites._registry import composite, wide
from tilewright.composites.products import grouped_matmul, scaled_grouped_matmul

Tensor = torch.Tensor


def scores_of(gating: Tensor, scoring: str) -> Tensor:
    """Of all experts, in float32."""
    g = wide(gating)
    return torch.sigmoid(g) if scoring == "sigmoid" else torch.softmax(g, -1)


def weights_of(scores: Tensor, ids: Tensor, renormalize: bool) -> Tensor:
    """Of the chosen experts."""
    chosen = scores.gather(-1, ids.long())
    return chosen / chosen.sum(-1, keepdim=True) if renormalize else chosen


@composite
def moe_topk(
    gating: Tensor, top_k: int, bias: Tensor | None, scoring: str, renormalize: bool
) -> tuple[Tensor, Tensor]:
    scores = scores_of(gating, scoring)
    # Scores of one may be equal where the numbers behind them are not.
    keys = wide(gating) if bias is None else scores + bias
    keys = torch.nan_to_num(keys, torch.finfo(torch.float32).min)
    ids = keys.sort(dim=-1, descending=True, stable=True).indices[..., :top_k]
    return weights_of(scores, ids, renormalize).float(), ids.to(torch.int32)


@composite
def moe_align(ids: Tensor, experts: int, block_size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    flat = ids.flatten().long()
    count = flat.numel()
    counts = torch.bincount(flat[flat >= 0], minlength=experts)
    padded = (counts + block_size - 1) // block_size * block_size
    offsets = padded.cumsum(0)
    there = torch.argsort(flat, stable=True)
    there = there[flat[there] >= 0]
    experts_of = flat[there]
    within = (
        torch.arange(there.numel(), device=ids.device) - (counts.cumsum(0) - counts)[experts_of]
    )
    places = (offsets - padded)[experts_of] + within
    most = count if block_size == 1 else count + experts * (block_size - 1)
    order = torch.full((most,), count, device=ids.device)
    order[places] = there
    positions = torch.full((count,), -1, device=ids.device)
    positions[there] = places
    results = (counts, offsets, order, positions.view(ids.shape))
    first, second, third, fourth = (t.to(torch.int32) for t in results)
    return first, second, third, fourth


@composite
def moe_combine(x: Tensor, positions: Tensor, weights: Tensor | None, scale: float) -> Tensor:
    there = (positions >= 0)[..., None]
    zero = wide(x).new_zeros(())
    rows = (
        wide(x)[positions.clamp(min=0).long()]
        if x.shape[0]
        else zero.expand(*positions.shape, x.shape[1])
    )
    rows = torch.where(there, rows, zero)
    if weights is not None:
        rows = rows * torch.where(there, weights[..., None], zero)
    return (scale * rows.sum(1)).to(x.dtype)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": functools.partial(torch.nn.functional.gelu, approximate="tanh"),
}


@composite
def gated_linear(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    both = torch.nn.functional.linear(wide(x), wide(weight), None if bias is None else wide(bias))
    gate, up = both.chunk(2, -1)
    return (ACTIVATIONS[activation](gate) * up).to(x.dtype)


@composite
def grouped_gated_matmul(
    a: Tensor,
    b: Tensor,
    offsets: Tensor,
    starts: Tensor | None,
    rows: Tensor | None,
    activation: str,
) -> Tensor:
    chosen = wide(a) if rows is None else wide(a)[rows.long()]
    gate, up = grouped_matmul(chosen, wide(b), offsets, starts).chunk(2, -1)
    return (ACTIVATIONS[activation](gate) * up).to(a.dtype)


@composite
def scaled_grouped_gated_matmul(
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    offsets: Tensor | None,
    starts: Tensor | None,
    rows: Tensor | None,
    activation: str,
    block_n: int,
    block_k: int,
) -> Tensor:
    both = scaled_grouped_matmul(a, b, a_scale, b_scale, offsets, block_n, block_k, starts, rows)
    gate, up = both.chunk(2, -1)
    return (ACTIVATIONS[activation](gate) * up).bfloat16()


def _unpermuted(
    made: Tensor, to_rows: Tensor | None, weights: Tensor | None, out_rows: int
) -> Tensor:
    """Rows where they go, times the weights that they have there."""
    if to_rows is not None:
        count = len(made) if out_rows < 0 else out_rows
        inside = (to_rows >= 0) & (to_rows < count)
        zeros = made.new_zeros(count, made.shape[1])
        made = zeros.index_copy(0, to_rows[inside].long(), made[inside])
    return made if weights is None else made * weights[:, None]


@composite
def grouped_matmul_unpermute(
    a: Tensor,
    b: Tensor,
    offsets: Tensor,
    starts: Tensor | None,
    to_rows: Tensor | None,
    weights: Tensor | None,
    out_rows: int,
) -> Tensor:
    made = grouped_matmul(wide(a), wide(b), offsets, starts)
    return _unpermuted(made, to_rows, weights, out_rows).to(a.dtype)


@composite
def scaled_grouped_matmul_unpermute(
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    offsets: Tensor | None,
    starts: Tensor | None,
    to_rows: Tensor | None,
    weights: Tensor | None,
    out_rows: int,
    block_n: int,
    block_k: int,
) -> Tensor:
    made = scaled_grouped_matmul(a, b, a_scale, b_scale, offsets, block_n, block_k, starts, None)
    return _unpermuted(made, to_rows, weights, out_rows).bfloat16()


@composite
def fused_experts(
    x: Tensor,
    gate_up_proj: Tensor,
    down_proj: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    activation: str,
    scale: float,
) -> Tensor:
    out = torch.zeros_like(wide(x))
    for expert in range(len(down_proj)):
        token, choice = (topk_ids == expert).nonzero(as_tuple=True)
        gate, up = (wide(x)[token] @ wide(gate_up_proj[expert]).T).chunk(2, -1)
        made = (ACTIVATIONS[activation](gate) * up) @ wide(down_proj[expert]).T
        out.index_add_(0, token, made * topk_weights[token, choice, None])
    return (scale * out).to(x.dtype)
