"""Composites of operators over the rows of a tensor."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tilewright.composites._registry import composite, wide

Tensor = torch.Tensor


@composite
def sum_(x: Tensor, dim: int) -> Tensor:
    return wide(x).sum(dim).to(x.dtype)


@composite
def mean(x: Tensor, dim: int) -> Tensor:
    return wide(x).mean(dim).to(x.dtype)


@composite
def amax(x: Tensor, dim: int) -> Tensor:
    return x.amax(dim)


@composite
def argmax(x: Tensor, dim: int) -> Tensor:
    return x.argmax(dim)


@composite
def count_nonzero(x: Tensor, dim: int) -> Tensor:
    return torch.count_nonzero(x, dim)


@composite
def reduce(x: Tensor, function: str, dim: int) -> Tensor:
    v = wide(x)
    if function == "norm_inf" and x.shape[dim] == 0:
        out = v.sum(dim)
    elif function.startswith("norm"):
        order = float(function.removeprefix("norm").replace("_", ""))
        out = torch.linalg.vector_norm(v, order, dim)
    else:
        out = getattr(torch, function)(v, dim)
    return out.to(x.dtype)


@composite
def scan(x: Tensor, function: str, dim: int) -> Tensor:
    out: Tensor = getattr(torch, f"cum{function}")(wide(x), dim)
    return out.to(x.dtype)


@composite
def var_mean(x: Tensor, dim: int, correction: float, root: bool) -> tuple[Tensor, Tensor]:
    function = torch.std_mean if root else torch.var_mean
    var, mean_ = function(wide(x), dim, correction=correction)
    return var.to(x.dtype), mean_.to(x.dtype)


@composite
def softmax(x: Tensor, dim: int) -> Tensor:
    return torch.softmax(wide(x), dim).to(x.dtype)


@composite
def log_softmax(x: Tensor, dim: int) -> Tensor:
    return torch.log_softmax(wide(x), dim).to(x.dtype)


@composite
def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    v = wide(x)
    return (v * torch.rsqrt(v.square().mean(-1, keepdim=True) + eps) * wide(weight)).to(x.dtype)


@composite
def fused_add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    added = (wide(x) + wide(residual)).to(x.dtype)
    return rms_norm(added, weight, eps), added


@composite
def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    rest = [None if t is None else wide(t) for t in (weight, bias)]
    return F.layer_norm(wide(x), x.shape[-1:], rest[0], rest[1], eps).to(x.dtype)


@composite
def sinkhorn(x: Tensor, iterations: int, eps: float) -> Tensor:
    m = wide(x)
    m = torch.exp(m - m.amax(-1, keepdim=True)) if m.numel() else m
    for _ in range(iterations):
        m = m / (m.sum(-1, keepdim=True) + eps)
        m = m / (m.sum(-2, keepdim=True) + eps)
    return m.to(x.dtype)


@composite
def segment_mean(x: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    columns = torch.arange(x.shape[1], device=x.device)
    inside = (columns >= starts[:, None]) & (columns < ends[:, None])
    v = wide(x)
    counts = inside.sum(-1, keepdim=True).clamp(min=1)
    return ((inside.to(v.dtype) @ v) / counts).to(x.dtype)


@composite
def topk(x: Tensor, k: int, starts: Tensor | None, ends: Tensor | None) -> tuple[Tensor, Tensor]:
    columns = torch.arange(x.shape[-1], device=x.device)
    inside = torch.ones_like(x, dtype=torch.bool)
    if starts is not None:
        inside &= columns >= starts[..., None]
    if ends is not None:
        inside &= columns < ends[..., None]
    # Those outside follow all others, whatever they are: by place first, then by value.
    values, order = x.sort(dim=-1, descending=True, stable=True)
    there = inside.gather(-1, order)
    rank = torch.argsort((~there).to(torch.int8), dim=-1, stable=True)[..., :k]
    values, order, there = (t.gather(-1, rank) for t in (values, order, there))
    missing = k - values.shape[-1]
    if missing > 0:
        values, order, there = (F.pad(t, (0, missing)) for t in (values, order, there))
    lowest = torch.full_like(values, -torch.inf)
    return torch.where(there, values, lowest), torch.where(there, order, -1).to(torch.int32)


@composite
def fft(x: Tensor, inverse: bool) -> Tensor:
    if x.numel() == 0:
        return x.clone()
    z = torch.view_as_complex(x.contiguous())
    out = torch.fft.ifft(z, norm="forward") if inverse else torch.fft.fft(z)
    return torch.view_as_real(out)


@composite
def cross_entropy(
    x: Tensor,
    target: Tensor,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
    z_loss: float,
) -> Tensor:
    v = wide(x)
    options = {"ignore_index": ignore_index, "label_smoothing": label_smoothing}
    losses = F.cross_entropy(v, target.long(), reduction="none", **options)  # type: ignore[arg-type]
    counted = target != ignore_index
    if z_loss != 0:
        squares = torch.logsumexp(v, -1).square()
        losses = losses + z_loss * torch.where(counted, squares, torch.zeros_like(squares))
    if reduction == "mean":
        losses = losses.sum() / counted.sum()
    elif reduction == "sum":
        losses = losses.sum()
    return losses.to(x.dtype)
