"""TileOPs' manifold-constrained hyper-connections (arXiv:2512.24880)."""

from __future__ import annotations

import math

import torch

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._tensors import tensor


@uses("reduce", "matmul", "mul", "add", "sigmoid", "sinkhorn")
def mhc_pre(
    phi: torch.Tensor,
    x: torch.Tensor,
    b: torch.Tensor,
    *,
    alpha_pre: float,
    alpha_post: float,
    alpha_res: float,
    sinkhorn_repeat: int,
    sinkhorn_eps: float = 0.02,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The residual streams x [B, n C], mixed, and the layer's input, by phi [n C, n n + 2 n]."""
    factors = (alpha_pre, alpha_post, alpha_res)
    return mixed_streams(phi, x, b, factors, sinkhorn_repeat, sinkhorn_eps)[:2]


def mixed_streams(
    phi: torch.Tensor,
    x: torch.Tensor,
    b: torch.Tensor,
    alphas: tuple[float, float, float],
    sinkhorn_repeat: int,
    sinkhorn_eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """mhc_pre, and what the layer's output then weighs in each stream [B, n], in float32."""
    streams = math.isqrt(phi.shape[1] + 1) - 1
    wide = x.float()
    size = ops.reduce(wide, "norm2") / math.sqrt(x.shape[1]) + 1e-4
    mixing = ops.matmul(wide[None], phi.float()[None])[0]
    sizes = [streams, streams, streams * streams]
    factors = [mixing.new_full((n,), a)
               for n, a in zip(sizes, alphas, strict=True)]  # fmt: skip
    scaled = ops.mul(mixing, torch.cat(factors) / size[:, None])
    pre, post, res = torch.split(ops.add(scaled, b.float().expand_as(scaled)), sizes, 1)
    square = res.reshape(-1, streams, streams).contiguous()
    weights = ops.sinkhorn(square, sinkhorn_repeat, sinkhorn_eps)
    rows = wide.view(len(x), streams, -1)
    mixed = ops.matmul(weights, rows).flatten(1)
    layer = ops.matmul(ops.sigmoid(pre)[:, None], rows)[:, 0]
    return mixed.to(torch.bfloat16), layer.to(torch.bfloat16), 2 * ops.sigmoid(post)


@uses("mul", "add")
def mhc_post(x_layer_out: torch.Tensor, h_post: torch.Tensor, x_res: torch.Tensor) -> torch.Tensor:
    """The residual streams x_res [B, n C] plus the layer's output times each one's weight."""
    spread = ops.mul(h_post.float()[:, :, None], x_layer_out.float()[:, None]).flatten(1)
    return tensor(ops.add(spread, x_res.float())).to(torch.bfloat16)


__all__ = list(provided(vars()))
