"""The function that each operator computes, in PyTorch's terms, which differentiates it.

Tests compare gradients with these, for all arguments; benchmarks take them as peers, but for the
few that a program in a hurry would write otherwise (benchmarks/peers.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

Tensor = torch.Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """As torch.nn.RMSNorm."""
    return F.rms_norm(x, weight.shape, weight, eps)


def gated(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """F of the first half of each row, times the second."""
    return lambda x: f(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]


def gelu_tanh(x: Tensor) -> Tensor:
    """By tanh."""
    return F.gelu(x, approximate="tanh")


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The sum normalized, and the sum."""
    total = x + residual
    return rms_norm(total, weight, eps), total


def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """Over the last dimension."""
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def rope(x: Tensor, cos: Any, sin: Any, positions: Any, interleaved: bool, inverse: bool) -> Tensor:
    """Pairs turned by the angles of their positions."""
    rows = torch.arange(x.shape[1]).expand(x.shape[:2]) if positions is None else positions
    c, s = cos[rows][:, :, None], sin[rows][:, :, None] * (-1 if inverse else 1)
    pairs = cos.shape[1]
    head, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
    a, b = (head[..., ::2], head[..., 1::2]) if interleaved else head.chunk(2, -1)
    a, b = a * c - b * s, b * c + a * s
    turned = torch.stack((a, b), -1).flatten(-2) if interleaved else torch.cat((a, b), -1)
    return torch.cat((turned, rest), -1)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
    "silu": F.silu,
}


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Any,
    residual: Any,
    activation: str,
    row_scale: Any,
    column_scale: Any,
) -> Tensor:
    """activation(x weightᵀ * scales + bias) + residual."""
    if row_scale is None and column_scale is None:
        out = ACTIVATIONS[activation](F.linear(x, weight, bias))
    else:
        out = F.linear(x, weight).float()
        out = out if row_scale is None else out * row_scale[..., None]
        out = out if column_scale is None else out * column_scale
        out = ACTIVATIONS[activation](out if bias is None else out + bias).to(x.dtype)
    return out if residual is None else out + residual


def cross_entropy(
    x: Tensor, target: Tensor, ignored: int, reduction: str, smoothing: float, z_loss: float
) -> Tensor:
    """Of logits [N, V]; with z_loss, and its multiple of the squares of their logsumexp."""
    plain = F.cross_entropy(
        x, target.long(), ignore_index=ignored, reduction=reduction, label_smoothing=smoothing
    )
    if not z_loss:
        return plain
    squares = torch.where(target != ignored, x.logsumexp(-1).square(), 0)
    counted = (target != ignored).sum()
    sums = {"mean": squares.sum() / counted, "sum": squares.sum(), "none": squares}
    return plain + z_loss * sums[reduction]


def linear_cross_entropy(x: Tensor, weight: Tensor, target: Tensor, *rest: Any) -> Tensor:
    """Of the logits x weightᵀ."""
    return cross_entropy(x @ weight.T, target, *rest)


def attention(q: Tensor, k: Tensor, v: Tensor, lens: Any, *rest: Any) -> Tensor:
    """Of [B, S, H, D], without sinks, scales of keys, biases and programs."""
    scale, causal, left, right, softcap = rest[5:10]
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


def attention_varlen(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
    """Sequence by sequence."""
    starts, kv_starts, options = rest[0].tolist(), rest[1].tolist(), (None, *rest[2:])
    parts = [q.new_zeros(starts[0], q.shape[1], v.shape[2])]
    for b in range(len(starts) - 1):
        rows, keys = slice(starts[b], starts[b + 1]), slice(kv_starts[b], kv_starts[b + 1])
        parts.append(attention(q[None, rows], k[None, keys], v[None, keys], None, *options)[0])
    parts.append(q.new_zeros(len(q) - starts[-1], q.shape[1], v.shape[2]))
    return torch.cat(parts) + 0 * (q.sum() + k.sum() + v.sum())  # of no sequence, too


def linear_attention(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Any, state: Any, scale: float, _: int
) -> tuple[Tensor, Tensor]:
    """The recurrence, step by step: the outputs, and the state at the end."""
    group, dims = v.shape[2] // max(q.shape[2], 1), q.shape[3]
    q, k = q.repeat_interleave(group, 2), k.repeat_interleave(group, 2)
    s = q.new_zeros(v.shape[0], v.shape[2], dims, v.shape[3]) if state is None else state
    scale, out = scale or 1 / math.sqrt(max(dims, 1)), []
    for t in range(q.shape[1]):
        s = s * g[:, t, :, :, None].exp()
        change = v[:, t]
        if beta is not None:
            change = beta[:, t, :, None] * (change - torch.einsum("bhdv,bhd->bhv", s, k[:, t]))
        s = s + k[:, t, :, :, None] * change[:, :, None]
        out.append(scale * torch.einsum("bhdv,bhd->bhv", s, q[:, t]))
    return torch.stack(out, 1) if out else v * 1, s + 0 * (q.sum() + g.sum())


def moe_topk(
    gating: Tensor, top_k: int, bias: Any, scoring: str, renormalize: bool
) -> tuple[Tensor, Tensor]:
    """The experts of each token, and their weights."""
    scores = gating.sigmoid() if scoring == "sigmoid" else gating.softmax(-1)
    ranked = gating if bias is None else scores + bias
    order = ranked.sort(stable=True, dim=-1, descending=True).indices  # of equals the first
    ids = order[:, :top_k]
    weights = scores.gather(1, ids)
    return (weights / weights.sum(-1, keepdim=True) if renormalize else weights), ids.int()


def moe_combine(x: Tensor, positions: Tensor, weights: Any, scale: float) -> Tensor:
    """Weighted sums of rows."""
    rows = F.pad(x, (0, 0, 1, 0))[positions.long() + 1]  # zeros come first, for -1
    return scale * (rows if weights is None else rows * weights[..., None]).sum(1)


def segment_mean(x: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    """Mean by mean."""
    means = [
        x[:, a:b].mean(1) if b > a else x[:, a:b].sum(1)
        for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return torch.stack(means, 1) if means else x[:, :0]


def topk(x: Tensor, k: int, starts: Any, ends: Any) -> tuple[Tensor, Tensor]:
    """The largest of each row, or of a window of it; of equals the first."""
    if starts is not None or ends is not None:
        column = torch.arange(x.shape[-1])
        first = 0 if starts is None else starts[..., None]
        seen = column >= first
        x = torch.where(seen if ends is None else seen & (column < ends[..., None]), x, -torch.inf)
    if k > x.shape[-1]:
        x = F.pad(x, (0, k - x.shape[-1]), value=-torch.inf)
    indices = x.argsort(dim=-1, descending=True, stable=True)[..., :k]
    return x.gather(-1, indices), indices.int()


def fft(x: Tensor, inverse: bool) -> Tensor:
    """Of complex numbers as pairs; the inverse is not divided."""
    function = torch.fft.ifft if inverse else torch.fft.fft
    if not x.numel():
        return x * 1
    return torch.view_as_real(
        function(torch.view_as_complex(x.contiguous()), norm="forward" if inverse else "backward")
    )


def group_masks(rows: int, offsets: Tensor, starts: Tensor | None) -> Tensor:
    """[groups, rows, 1]: 1 where a group has the row."""
    row = torch.arange(rows)
    begins = torch.cat([offsets.new_zeros(1), offsets])[:-1] if starts is None else starts
    return ((row >= begins[:, None]) & (row < offsets[:, None]))[..., None]


def grouped_matmul(a: Tensor, b: Tensor, offsets: Tensor, starts: Tensor | None) -> Tensor:
    """Each group of rows times its own matrix."""
    return ((a * group_masks(len(a), offsets, starts)) @ b).sum(0)


def k_grouped_matmul(a: Tensor, b: Tensor, offsets: Tensor, starts: Tensor | None) -> Tensor:
    """A product for each group of columns and rows."""
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
    """Zeros where the words say."""
    kept = philox_words(seed, x.numel()).reshape(x.shape) >= p * 2**32
    return x * kept / (1 - p) if p < 1 else x * 0


def unary(x: Tensor, function: str) -> Tensor:
    """By name."""
    return getattr(torch, function)(x)


def activation(x: Tensor, function: str, a: float, b: float, c: float) -> Tensor:
    """By name."""
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
    """By name."""
    return {
        "div": torch.div,
        "trunc_divide": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        "floor_divide": lambda x, y: torch.div(x, y, rounding_mode="floor"),
        "remainder": torch.remainder,
        "pow": torch.pow,
        "prelu": lambda x, y: torch.where(x > 0, x, x * y),
    }[function](x, other)


def reduced(x: Tensor, function: str, dim: int) -> Tensor:
    """By name."""
    orders = {"norm1": 1, "norm2": 2, "norm_inf": math.inf}
    if x.shape[dim] == 0 and function == "norm_inf":
        return x.sum(dim)  # which PyTorch refuses
    if function in orders:
        return torch.linalg.vector_norm(x, orders[function], dim)
    return getattr(torch, function)(x, dim)


def var_mean(x: Tensor, dim: int, correction: float, root: bool) -> tuple[Tensor, Tensor]:
    """torch.var_mean, or std_mean."""
    function = torch.std_mean if root else torch.var_mean
    return function(x, dim, correction=correction)


def lerp(x: Tensor, end: Tensor, weight: Tensor | None, amount: float) -> Tensor:
    """Between x and end."""
    return torch.lerp(x, end, amount if weight is None else weight)


def matmul(a: Tensor, b: Tensor, alpha: float, addend: Tensor | None, beta: float) -> Tensor:
    """Alpha * a b + beta * addend."""
    if addend is not None:
        return torch.baddbmm(addend, a, b, alpha=alpha, beta=beta)
    return torch.bmm(a, b) if alpha == 1 else torch.bmm(a, b) * alpha


# Each takes its operator's arguments by position.
COMPOSITES: dict[str, Callable[..., Any]] = {
    "activation": activation,
    "add": lambda x, other, alpha: torch.add(x, other, alpha=alpha),
    "amax": torch.amax,
    "argmax": torch.argmax,
    "attention": attention,
    "attention_varlen": attention_varlen,
    "binary": binary,
    "bitwise": lambda x, other, function: getattr(torch, f"bitwise_{function}")(x, other),
    "compare": lambda x, other, relation: getattr(torch, relation)(x, other),
    "copy": torch.clone,
    "count_nonzero": torch.count_nonzero,
    "cross_entropy": cross_entropy,
    "dropout": dropout,
    "embedding": lambda weight, indices: F.embedding(indices, weight),
    "erf": torch.erf,
    "exp": torch.exp,
    "extremum": lambda x, other, function: getattr(torch, function)(x, other),
    "fft": fft,
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
    "linear_attention": linear_attention,
    "log": torch.log,
    "log_softmax": F.log_softmax,
    "matmul": matmul,
    "mean": torch.mean,
    "moe_combine": moe_combine,
    "moe_topk": moe_topk,
    "mul": torch.mul,
    "permute": lambda x, dims: x.permute(dims).contiguous(),
    "reduce": reduced,
    "relu": F.relu,
    "rms_norm": rms_norm,
    "rope": rope,
    "scale": torch.mul,
    "scan": lambda x, function, dim: getattr(torch, f"cum{function}")(x, dim),
    "segment_mean": segment_mean,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "silu_and_mul": gated(F.silu),
    "softmax": F.softmax,
    "sum": torch.sum,
    "swiglu": lambda gate, up: F.silu(gate) * up,
    "tanh": torch.tanh,
    "topk": topk,
    "transpose": lambda x, dim0, dim1: x.transpose(dim0, dim1).contiguous(),
    "unary": unary,
    "var_mean": var_mean,
    "where": torch.where,
}
