"""The function that each operator computes, in PyTorch's terms, which differentiates it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

Tensor = torch.Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def gated(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: f(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]


def gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return rms_norm(x + residual, weight, eps), x + residual


def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def rope(x: Tensor, cos: Any, sin: Any, positions: Any, interleaved: bool, inverse: bool) -> Tensor:
    rows = torch.arange(x.shape[1]).expand(x.shape[:2]) if positions is None else positions
    c, s = cos[rows][:, :, None], sin[rows][:, :, None] * (-1 if inverse else 1)
    pairs = cos.shape[1]
    head, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
    a, b = (head[..., ::2], head[..., 1::2]) if interleaved else head.chunk(2, -1)
    a, b = a * c - b * s, b * c + a * s
    turned = torch.stack((a, b), -1).flatten(-2) if interleaved else torch.cat((a, b), -1)
    return torch.cat((turned, rest), -1)


ACTIVATIONS = {"none": lambda x: x, "relu": F.relu, "gelu": F.gelu, "silu": F.silu}


def linear(x: Tensor, weight: Tensor, bias: Any, residual: Any, activation: str) -> Tensor:
    out = ACTIVATIONS[activation](F.linear(x, weight, bias))
    return out if residual is None else out + residual


def cross_entropy(
    x: Tensor, target: Tensor, ignored: int, reduction: str, smoothing: float, z_loss: float
) -> Tensor:
    plain = F.cross_entropy(
        x, target, ignore_index=ignored, reduction=reduction, label_smoothing=smoothing
    )
    squares = torch.where(target != ignored, x.logsumexp(-1).square(), 0)
    counted = (target != ignored).sum()
    sums = {"mean": squares.sum() / counted, "sum": squares.sum(), "none": squares}
    return plain + z_loss * sums[reduction]


def linear_cross_entropy(x: Tensor, weight: Tensor, target: Tensor, *rest: Any) -> Tensor:
    return cross_entropy(x @ weight.T, target, *rest)


def attention(q: Tensor, k: Tensor, v: Tensor, lens: Any, *rest: Any) -> Tensor:
    scale, causal, left, right, softcap = rest[3:]
    group = q.shape[2] // max(k.shape[2], 1)
    keys, values = k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)
    scores = torch.einsum("bshd,blhd->bhsl", q, keys) * (scale or 1 / math.sqrt(q.shape[3]))
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    there = torch.full((q.shape[0],), k.shape[1]) if lens is None else lens.long()
    j = torch.arange(k.shape[1])
    at = torch.arange(q.shape[1])[None, :, None] + (there - q.shape[1])[:, None, None]
    seen = (j < there[:, None, None]).expand(-1, q.shape[1], -1)
    seen = seen & (j >= at - left if left >= 0 else seen)
    right = 0 if causal else right
    seen = (seen & (j <= at + right if right >= 0 else seen))[:, None]
    weights = torch.where(seen, scores, -torch.inf).softmax(-1)
    weights = torch.where(seen.any(-1, keepdim=True), weights, 0)
    return torch.einsum("bhsl,blhd->bshd", weights, values)


def group_masks(rows: int, offsets: Tensor, starts: Tensor | None) -> Tensor:
    """[groups, rows, 1]: 1 where a group has the row."""
    row = torch.arange(rows)
    begins = torch.cat([offsets.new_zeros(1), offsets])[:-1] if starts is None else starts
    return ((row >= begins[:, None]) & (row < offsets[:, None]))[..., None]


def grouped_matmul(a: Tensor, b: Tensor, offsets: Tensor, starts: Tensor | None) -> Tensor:
    return ((a * group_masks(len(a), offsets, starts)) @ b).sum(0)


def k_grouped_matmul(a: Tensor, b: Tensor, offsets: Tensor, starts: Tensor | None) -> Tensor:
    return a @ (b * group_masks(len(b), offsets, starts))


def philox_words(seed: int, count: int) -> Tensor:
    """The words of tile/philox.h: Philox-4x32-10 of Salmon et al., SC 2011."""
    words = []
    for e in range(count):
        c = [e // 64 * 16 + e % 16, 0, 0, 0]
        key = [seed & 0xFFFFFFFF, seed >> 32]
        for _ in range(10):
            a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [b >> 32 ^ c[1] ^ key[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ key[1], a & 0xFFFFFFFF]
            key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
        words.append(c[e // 16 % 4])
    return torch.tensor(words, dtype=torch.float64)


def dropout(x: Tensor, p: float, seed: int) -> Tensor:
    kept = philox_words(seed, x.numel()).reshape(x.shape) >= p * 2**32
    return x * kept / (1 - p) if p < 1 else x * 0


def unary(x: Tensor, function: str) -> Tensor:
    return getattr(torch, function)(x)


def activation(x: Tensor, function: str, a: float, b: float, c: float) -> Tensor:
    return {
        "clamp": lambda: torch.clamp(x, a, b),
        "hardsigmoid": lambda: F.hardsigmoid(x),
        "hardswish": lambda: F.hardswish(x),
        "mish": lambda: F.mish(x),
        "leaky_relu": lambda: F.leaky_relu(x, a),
        "elu": lambda: F.elu(x, a) * b,
        "softplus": lambda: F.softplus(x, a, b),
        "nan_to_num": lambda: torch.nan_to_num(x, a, b, c),
        "round": lambda: torch.round(x, decimals=int(a)),
    }[function]()


def binary(x: Tensor, other: Tensor, function: str) -> Tensor:
    return {
        "div": torch.div,
        "trunc_divide": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        "floor_divide": lambda x, y: torch.div(x, y, rounding_mode="floor"),
        "remainder": torch.remainder,
        "pow": torch.pow,
        "prelu": lambda x, y: torch.where(x > 0, x, x * y),
    }[function](x, other)


def reduced(x: Tensor, function: str, dim: int) -> Tensor:
    orders = {"norm1": 1, "norm2": 2, "norm_inf": math.inf}
    if x.shape[dim] == 0 and function == "norm_inf":
        return x.sum(dim)  # which PyTorch refuses
    if function in orders:
        return torch.linalg.vector_norm(x, orders[function], dim)
    return getattr(torch, function)(x, dim)


def var_mean(x: Tensor, dim: int, correction: float, root: bool) -> tuple[Tensor, Tensor]:
    function = torch.std_mean if root else torch.var_mean
    return function(x, dim, correction=correction)


def lerp(x: Tensor, end: Tensor, weight: Tensor | None, amount: float) -> Tensor:
    return x + (amount if weight is None else weight) * (end - x)


# The function that each operator computes, in PyTorch's terms.
COMPOSITES: dict[str, Callable[..., Any]] = {
    "activation": activation,
    "add": lambda x, other, alpha: x + alpha * other,
    "amax": torch.amax,
    "attention": attention,
    "binary": binary,
    "cross_entropy": cross_entropy,
    "dropout": dropout,
    "embedding": lambda weight, indices: F.embedding(indices, weight),
    "erf": torch.erf,
    "exp": torch.exp,
    "extremum": lambda x, other, function: getattr(torch, function)(x, other),
    "fused_add_rms_norm": add_rms_norm,
    "fused_linear_cross_entropy": linear_cross_entropy,
    "gelu": lambda x, approximate: F.gelu(x, approximate=approximate),
    "gelu_and_mul": gated(F.gelu),
    "gelu_tanh_and_mul": gated(gelu_tanh),
    "grouped_matmul": grouped_matmul,
    "k_grouped_matmul": k_grouped_matmul,
    "layer_norm": layer_norm,
    "lerp": lerp,
    "linear": linear,
    "log": torch.log,
    "log_softmax": F.log_softmax,
    "matmul": lambda a, b, alpha: alpha * (a @ b),
    "mean": torch.mean,
    "mul": torch.mul,
    "reduce": reduced,
    "relu": F.relu,
    "rms_norm": rms_norm,
    "rope": rope,
    "scale": torch.mul,
    "scan": lambda x, function, dim: getattr(torch, f"cum{function}")(x, dim),
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "silu_and_mul": gated(F.silu),
    "softmax": F.softmax,
    "sum": torch.sum,
    "swiglu": lambda gate, up: F.silu(gate) * up,
    "tanh": torch.tanh,
    "unary": unary,
    "var_mean": var_mean,
    "where": torch.where,
}
