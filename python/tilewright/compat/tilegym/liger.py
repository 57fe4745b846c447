"""The liger suite of TileGym."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from tilewright import _layouts
from tilewright import ops as catalog
from tilewright._values import score_scale
from tilewright.compat import tileops
from tilewright.compat._coverage import refuse
from tilewright.compat._tensors import tensor
from tilewright.compat.tilegym._backends import uses
from tilewright.compat.tilegym._liger_losses import *  # noqa: F403
from tilewright.compat.tilegym._liger_policy import *  # noqa: F403
from tilewright.compat.tilegym._liger_preferences import *  # noqa: F403
from tilewright.compat.tilegym._norms import shifted_rms_norm

MISSING: dict[str, str] = {}


def __getattr__(name: str) -> Callable[..., Any]:
    return refuse(__name__, MISSING, name)


def _check_casting(name: str, casting_mode: str) -> None:
    """All compute in float32 and round once, at the end.

    Raises:
        ValueError: there is no such mode.
    """
    if casting_mode not in ("llama", "gemma", "none"):
        raise ValueError(f"{name}: casting_mode {casting_mode!r} is none of llama, gemma and none")


@uses("fused_add_rms_norm")
def fused_add_rms_norm(
    X: torch.Tensor,
    R: torch.Tensor,
    W: torch.Tensor,
    eps: float = 1e-6,
    offset: float = 0.0,
    casting_mode: str = "llama",
) -> tuple[torch.Tensor, torch.Tensor]:
    """X + R normalized, and X + R."""
    _check_casting("fused_add_rms_norm", casting_mode)
    if not offset:
        y, s = catalog.fused_add_rms_norm(X, R, W, eps)
        return y, s
    s = tensor(catalog.add(X, R))
    return shifted_rms_norm(s, W, eps, offset), s


@uses("rms_norm")
def rms_norm(
    X: torch.Tensor,
    W: torch.Tensor | None,
    eps: float,
    offset: float = 0.0,
    casting_mode: str = "llama",
    in_place: bool = True,
    row_mode: bool | None = None,
) -> torch.Tensor:
    """RMS normalization over the last dimension, times W + offset."""
    _check_casting("rms_norm", casting_mode)
    if W is None:
        return tensor(catalog.rms_norm(X, X.new_ones(X.shape[-1]), eps))
    return shifted_rms_norm(X, W, eps, offset)


@uses("rms_norm", "mul", "add")
def modulated_rms_norm(
    X: torch.Tensor,
    W: torch.Tensor | None,
    scale: torch.Tensor,
    shift: torch.Tensor | None = None,
    eps: float = 1e-6,
    offset: float = 0.0,
    casting_mode: str = "llama",
    in_place: bool = True,
) -> torch.Tensor:
    """RMS normalization times W + offset, times 1 + scale, plus shift.

    Each row of scale and shift is for as many rows of X, one after the other.
    """
    _check_casting("modulated_rms_norm", casting_mode)
    width = X.shape[-1]
    count = scale.numel() // width
    weight = None if W is None else W.float()
    normal = rms_norm(X.float(), weight, eps, offset).reshape(count, -1, width)
    out = catalog.mul(normal, 1 + scale.float().reshape(count, 1, width))
    if shift is not None:
        out = catalog.add(out, shift.float().reshape(count, 1, width))
    return tensor(out).view(X.shape).to(X.dtype)


@uses("rope")
def rope(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Q and k [B, H, S, D] rotated by tables [B or 1, S, R] or [S, R]; R < D rotates the first."""
    width = min(cos.shape[-1], q.shape[-1])
    cos, sin = (t[None] if t.dim() == 2 else t for t in (cos, sin))
    q, k = (_rotated_first(x, cos, sin, width) for x in (q, k))
    return q, k


def _rotated_first(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, width: int
) -> torch.Tensor:
    turned = _layouts.rotate(x[..., :width], cos, sin, pairs=width // 2)
    rest = x[..., width:]
    return torch.cat([turned, rest], -1) if rest.shape[-1] else turned.contiguous()


def _overwritten(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    """X with other values; another tensor where the gradient of x may need those that it has."""
    return by.contiguous() if torch.is_grad_enabled() and x.requires_grad else x.copy_(by)


@uses("rope")
def llama4_rope(
    q: torch.Tensor, k: torch.Tensor, freqs_cis: torch.Tensor, BLOCK_SIZE: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Q and k [B, S, H, D], pairs of neighbours rotated in place, unless there are gradients to be.

    freqs_cis is [S, D / 2] complex, [S, D / 2, 2] real, or [S, D]: cosines, then sines; there may
    be such a table for each sequence, [B or 1, S, ...].
    """
    pairs = q.shape[-1] // 2
    if freqs_cis.is_complex():
        freqs_cis = torch.view_as_real(freqs_cis)
    if freqs_cis.shape[-2:] == (pairs, 2) and freqs_cis.dim() > 2:
        cos, sin = freqs_cis.unbind(-1)
    else:
        cos, sin = freqs_cis[..., :pairs], freqs_cis[..., pairs:]
    cos, sin = (t[None] if t.dim() == 2 else t for t in (cos, sin))
    made = []
    for x in (q, k):
        options: dict[str, Any] = {"pairs": pairs, "heads_first": False, "interleaved": True}
        made.append(_overwritten(x, _layouts.rotate(x, cos, sin, **options)))
    return made[0], made[1]


@uses("softmax")
def softmax(input: torch.Tensor) -> torch.Tensor:
    """The softmax along the last dimension."""
    return tensor(catalog.softmax(input))


@uses("gelu", "mul")
def geglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """gelu(a) * b, by tanh."""
    return tensor(catalog.mul(catalog.gelu(a, "tanh"), b))


@uses("swiglu")
def swiglu(
    a: torch.Tensor,
    b: torch.Tensor,
    gate_multiplier: float = 1.0,
    down_multiplier: float = 1.0,
) -> torch.Tensor:
    """silu(a * gate_multiplier) * b * down_multiplier."""
    gate = a if gate_multiplier == 1 else a * gate_multiplier
    out = tensor(catalog.swiglu(gate, b))
    return out if down_multiplier == 1 else out * down_multiplier


@uses("relu", "mul")
def relu_squared(input: torch.Tensor) -> torch.Tensor:
    """max(x, 0) squared."""
    positive = catalog.relu(input)
    return tensor(catalog.mul(positive, positive))


@uses("mul", "tanh", "add")
def dyt(
    x: torch.Tensor, alpha: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor | None = None
) -> torch.Tensor:
    """tanh(alpha * x) * gamma + beta."""
    out = catalog.mul(catalog.tanh(catalog.mul(x, alpha)), gamma)
    return tensor(out if beta is None else catalog.add(out, beta))


@uses("layer_norm")
def layer_norm(
    X: torch.Tensor, W: torch.Tensor, B: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Layer normalization over the last dimension."""
    return tensor(catalog.layer_norm(X, W, B, eps))


@uses("layer_norm", "mul", "add")
def group_norm(
    X: torch.Tensor,
    num_channels: int,
    num_groups: int,
    W: torch.Tensor,
    B: torch.Tensor,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Normalization of each group of channels of X [N, C, ...]."""
    if X.dim() < 2 or X.shape[1] != num_channels:
        raise ValueError(f"group_norm: X {tuple(X.shape)} has not {num_channels} channels")
    return tensor(tileops.group_norm(X, W, B, num_groups=num_groups, eps=eps))


@uses("rms_norm", "mul", "add")
def poly_norm(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """W0 norm(x^3) + w1 norm(x^2) + w2 norm(x) + b, each norm by the root of the mean square."""
    x = input.float()
    ones = x.new_ones(x.shape[-1])
    square = catalog.mul(x, x)
    shape = (1,) * x.dim()
    out = bias.float().reshape(shape)
    powers = (catalog.mul(square, x), square, x)
    for power, w in zip(powers, weight.float().unbind(), strict=True):
        out = catalog.add(catalog.mul(catalog.rms_norm(power, ones, eps), w.reshape(shape)), out)
    return tensor(out).to(input.dtype)


@uses("rope")
def qwen2vl_mrope(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    mrope_section: list[int],
    unsqueeze_dim: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Q and k [B, H, S, D] rotated in place, unless there are gradients to be.

    Sections of the pairs turn by time, by height and by width: tables [3, B, S, D].
    """
    pairs = q.shape[-1] // 2
    sections = [*mrope_section[:2], pairs - sum(mrope_section[:2])]
    tables = [
        torch.cat([torch.split(t[..., :pairs], sections, -1)[i][i] for i in range(3)], -1)
        for t in (cos, sin)
    ]
    q, k = (_overwritten(x, _layouts.rotate(x, *tables, pairs=pairs)) for x in (q, k))
    return q, k


@uses("linear")
def tiled_mlp(
    fn: Callable[[torch.nn.Module, torch.Tensor], torch.Tensor],
    mlp_module: torch.nn.Module,
    x: torch.Tensor,
    num_shards: int | None = None,
    compute_params: list[torch.nn.Parameter] | None = None,
) -> torch.Tensor:
    """Fn of shards of the positions, which the gradient computes again."""
    length, width = x.shape[-2:]
    shards = x.chunk(num_shards or -(-length // width), -2)
    parts = [checkpoint(fn, mlp_module, shard, use_reentrant=False) for shard in shards]
    return torch.cat(parts, -2)


@uses("topk", "scan", "where", "sum", "relu")
def sparsemax(input: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """The nearest point of the simplex along a dimension. Martins & Astudillo, arXiv:1602.02068.

    The elements above a threshold less it, which is such that their sum is 1.
    """
    x = input.movedim(dim, -1).float()
    with torch.no_grad():
        ordered = tensor(catalog.topk(x.contiguous(), x.shape[-1])[0])
        sums = tensor(catalog.scan(ordered, "sum"))
        rank = torch.arange(1, x.shape[-1] + 1, device=x.device)
        count = (rank * ordered > sums - 1).sum(-1, keepdim=True)
        least = ordered.gather(-1, (count - 1).clamp(min=0))
        is_above = x >= least  # all of equals, or none
    above = tensor(catalog.where(is_above, x, x.new_zeros(1)))
    threshold = (tensor(catalog.sum(above))[..., None] - 1) / is_above.sum(-1, keepdim=True)
    out = tensor(catalog.relu(x - threshold)).to(input.dtype)
    return out.movedim(-1, dim).contiguous()


@uses("attention")
def fused_neighborhood_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    kernel_size: int = 7,
    dilation: int = 1,
    scale: float | None = None,
) -> torch.Tensor:
    """Attention [B, H, S, D] to keys up to kernel_size // 2 steps of `dilation` to either side."""
    reach = kernel_size // 2
    options: dict[str, Any] = {
        "window_left": reach,
        "window_right": reach,
        "scale": score_scale(scale),
    }
    if dilation == 1:
        return _layouts.attention(query, key, value, **options).contiguous()
    length = query.shape[2]
    classes = [slice(first, None, dilation) for first in range(min(dilation, length))]
    parts = [  # of positions that see each other
        _layouts.attention(query[:, :, own], key[:, :, own], value[:, :, own], **options)
        for own in classes
    ]
    order = torch.cat([torch.arange(length)[own] for own in classes]).argsort()
    return torch.cat(parts, 2)[:, :, order.to(query.device)].contiguous()


@uses("softmax", "linear", "mul")
def multi_token_attention(
    scores: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    sparse: bool = False,
) -> torch.Tensor:
    """The convolution of causal weights [N, C, L, L]; again 0 above the diagonal."""
    length = scores.shape[-1]
    seen = torch.ones(length, length, dtype=torch.bool, device=scores.device).tril()
    masked = scores.masked_fill(~seen, -1e9 if sparse else -torch.inf)
    weights = sparsemax(masked) if sparse else catalog.softmax(masked)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    mixed = tileops.conv2d(weights, weight, bias, **options)
    return tensor(catalog.mul(mixed, seen.to(mixed.dtype)))
