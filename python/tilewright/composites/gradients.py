"""Composites of gradients: what autograd makes of the forward's composite, where it can."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import torch

from tilewright import _schema
from tilewright.composites import COMPOSITES
from tilewright.composites._registry import composite, split, wide
from tilewright.composites.experts import scores_of, weights_of
from tilewright.composites.sequences import Mask

Tensor = torch.Tensor


@composite
def sigmoid_backward(grad: Tensor, output: Tensor) -> Tensor:
    y = wide(output)
    return (wide(grad) * y * (1 - y)).to(grad.dtype)


@composite
def tanh_backward(grad: Tensor, output: Tensor) -> Tensor:
    return (wide(grad) * (1 - wide(output).square())).to(grad.dtype)


@composite
def relu_backward(grad: Tensor, output: Tensor) -> Tensor:
    return torch.where(output <= 0, torch.zeros_like(grad), grad)


@composite
def softmax_backward(grad: Tensor, output: Tensor, dim: int) -> Tensor:
    product = wide(grad) * wide(output)
    return (product - wide(output) * product.sum(dim, keepdim=True)).to(grad.dtype)


@composite
def log_softmax_backward(grad: Tensor, output: Tensor, dim: int) -> Tensor:
    g = wide(grad)
    return (g - torch.exp(wide(output)) * g.sum(dim, keepdim=True)).to(grad.dtype)


@composite
def amax_backward(grad: Tensor, x: Tensor, output: Tensor, dim: int) -> Tensor:
    v, top = wide(x), wide(output).unsqueeze(dim)
    share = ((v == top) | (v.isnan() & top.isnan())).to(v.dtype)
    return (wide(grad).unsqueeze(dim) * share / share.sum(dim, keepdim=True).clamp(min=1)).to(
        x.dtype
    )


@composite
def topk_backward(grad: Tensor, indices: Tensor, x: Tensor) -> Tensor:
    there = indices >= 0
    values = torch.where(there, wide(grad), wide(grad).new_zeros(()))
    if x.shape[-1] == 0:
        return torch.zeros_like(x)
    out = torch.zeros_like(wide(x))
    return out.scatter_add(-1, indices.clamp(min=0).long(), values).to(x.dtype)


@composite
def moe_topk_backward(
    grad: Tensor, gating: Tensor, ids: Tensor, scoring: str, renormalize: bool
) -> Tensor:
    def weights(gating: Tensor) -> Tensor:
        return weights_of(scores_of(gating, scoring), ids, renormalize)

    return _pull(weights, {"gating": gating}, ["gating"], [grad])[0]


def _broadcast(x: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    shape = torch.broadcast_shapes(x.shape, other.shape)  # type: ignore[no-untyped-call]
    return x.expand(shape).clone(), other.expand(shape).clone()


@composite
def binary_backward(grad: Tensor, x: Tensor, other: Tensor, function: str) -> Tensor:
    forward = "extremum" if function in ("maximum", "minimum") else "binary"
    x, other = _broadcast(x, other)
    arguments = {"x": x, "other": other, "function": function}
    return _pull(COMPOSITES[forward], arguments, ["x"], [grad])[0]


@composite
def swiglu_backward(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    gate, up = _broadcast(gate, up)
    first, second = _pull(COMPOSITES["swiglu"], {"gate": gate, "up": up}, ["gate", "up"], [grad])
    return first, second


@composite
def cross_entropy_backward(
    grad: Tensor,
    x: Tensor,
    target: Tensor,
    lse: Tensor,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
    z_loss: float,
) -> Tensor:
    v, logs = wide(x), lse[:, None]
    counted = (target != ignore_index)[:, None]
    wanted = torch.full_like(v, label_smoothing / max(x.shape[1], 1))
    places = torch.where(counted, target.long()[:, None], 0)
    if v.numel():
        wanted = wanted.scatter_add(
            1, places, torch.full_like(places, 1, dtype=v.dtype) * (1 - label_smoothing)
        )
    slopes = torch.exp(v - logs) * (1 + 2 * z_loss * logs) - wanted
    each = wide(grad) / counted.sum() if reduction == "mean" else wide(grad)
    each = each[:, None] if reduction == "none" else each
    return torch.where(counted, each * slopes, torch.zeros_like(v)).to(x.dtype)


@composite
def var_mean_backward(
    x: Tensor,
    var_grad: Tensor | None,
    mean_grad: Tensor | None,
    dim: int,
    correction: float,
    root: bool,
) -> Tensor:
    arguments = {"x": x, "dim": dim, "correction": correction, "root": root}
    return _pull(COMPOSITES["var_mean"], arguments, ["x"], [var_grad, mean_grad])[0]


@composite
def rms_norm_backward(
    grad: Tensor, x: Tensor, weight: Tensor, residual_grad: Tensor | None, eps: float
) -> Tensor:
    arguments = {"x": wide(x), "weight": weight, "eps": eps}
    (made,) = _pull(COMPOSITES["rms_norm"], arguments, ["x"], [grad])
    return (made if residual_grad is None else made + wide(residual_grad)).to(x.dtype)


def _attend_backward(
    mask: Mask, grad: Tensor, q: Tensor, k: Tensor, v: Tensor, output: Tensor, lse: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Of one sequence; lse: [Hq, S]."""
    group = q.shape[1] // max(k.shape[1], 1)
    keys, values = (wide(t).repeat_interleave(group, 1) for t in (k, v))
    grads, queries = wide(grad), wide(q)
    scores, seen = mask.scores(queries, keys)
    weights = torch.exp(scores - lse[..., None]).masked_fill(~seen | lse.isinf()[..., None], 0)
    products = torch.einsum("shd,lhd->hsl", grads, values)
    slopes = weights * (products - (grads * wide(output)).sum(-1).T[..., None])
    if mask.softcap > 0:
        slopes = slopes * (1 - (scores / mask.softcap).square())
    slopes = slopes.masked_fill(~seen, 0) * mask.factor(q)
    q_grad = torch.einsum("hsl,lhd->shd", slopes, keys)
    k_grad = torch.einsum("hsl,shd->lhd", slopes, queries)
    v_grad = torch.einsum("hsl,shd->lhd", weights, grads)
    k_grad, v_grad = (split(t, 1, (k.shape[1], group)).sum(2) for t in (k_grad, v_grad))
    return q_grad, k_grad, v_grad


def _attend_all_backward(
    mask: Mask,
    tensors: tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor],
    places: Iterable[tuple[Any, Any, Any]],
) -> tuple[Tensor, Tensor, Tensor]:
    """Of sequences: where each has its queries, its keys and its lse; 0 elsewhere."""
    grad, q, k, v, output, lse = tensors
    made = tuple(torch.zeros_like(wide(t)) for t in (q, k, v))
    for rows, keys, logs in places:
        parts = _attend_backward(
            mask, grad[rows], q[rows], k[keys], v[keys], output[rows], lse[logs]
        )
        for to, place, part in zip(made, (rows, keys, keys), parts, strict=True):
            to[place] = part
    first, second, third = (t.to(q.dtype) for t in made)
    return first, second, third


@composite
def attention_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    output: Tensor,
    lse: Tensor,
    kv_lens: Tensor | None,
    scale: float,
    causal: bool,
    window_left: int,
    window_right: int,
    softcap: float,
) -> tuple[Tensor, Tensor, Tensor]:
    mask = Mask(scale, causal, window_left, window_right, softcap)
    lens = [k.shape[1]] * q.shape[0] if kv_lens is None else kv_lens.tolist()
    places = ((b, (b, slice(count)), b) for b, count in enumerate(lens))
    return _attend_all_backward(mask, (grad, q, k, v, output, lse), places)


@composite
def attention_varlen_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    output: Tensor,
    lse: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_kv: Tensor,
    scale: float,
    causal: bool,
    window_left: int,
    window_right: int,
    softcap: float,
) -> tuple[Tensor, Tensor, Tensor]:
    mask = Mask(scale, causal, window_left, window_right, softcap)
    spans = (
        [slice(begin, end) for begin, end in pairwise(offsets.tolist())]
        for offsets in (cu_seqlens_q, cu_seqlens_kv)
    )
    places = ((rows, keys, (slice(None), rows)) for rows, keys in zip(*spans, strict=True))
    return _attend_all_backward(mask, (grad, q, k, v, output, lse), places)


def _pull(
    function: Callable[..., Any],
    arguments: dict[str, Any],
    wanted: list[str],
    grads: list[Tensor | None],
) -> list[Tensor]:
    """The gradients of the wanted arguments from those of the results."""
    if all(arguments[name].numel() == 0 for name in wanted):
        return [torch.zeros_like(arguments[name]) for name in wanted]
    with torch.enable_grad():
        leaves = {name: arguments[name].detach().requires_grad_() for name in wanted}
        results = function(**{**arguments, **leaves})
        results = results if isinstance(results, tuple) else (results,)
        pairs = [
            (result, grad.to(result.dtype))
            for result, grad in zip(results, grads, strict=False)
            if grad is not None and result.requires_grad
        ]
        if not pairs:
            return [torch.zeros_like(leaf) for leaf in leaves.values()]
        made = torch.autograd.grad(
            [result for result, _ in pairs],
            list(leaves.values()),
            [grad for _, grad in pairs],
            allow_unused=True,
        )
    return [
        torch.zeros_like(leaf) if grad is None else grad
        for leaf, grad in zip(leaves.values(), made, strict=True)
    ]


def _derived(backward: _schema.Operator) -> Callable[..., Any]:
    """Of an operator that takes `grad` and the forward's inputs by their names."""
    forward = _schema.find(backward.name.removesuffix("_backward"))
    inputs = [arg.name for arg in backward.inputs]
    required = [arg.name for arg in backward.outputs if not arg.optional]
    wanted = ["initial_state" if n == "initial_grad" else n.removesuffix("_grad") for n in required]

    def run(*values: Any) -> Any:
        given = dict(zip(inputs, values, strict=True))
        arguments = {arg.name: given.get(arg.name, arg.default_value) for arg in forward.inputs}
        grads = [given["grad"], given.get("final_grad")]
        made = _pull(COMPOSITES[forward.name], arguments, wanted, grads)
        return made[0] if len(made) == 1 else tuple(made)

    return run


COMPOSITES.update(
    {
        name: _derived(op)
        for name, op in _schema.operators().items()
        if name.endswith("_backward") and name not in COMPOSITES
    }
)
