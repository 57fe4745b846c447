"""TileGym's operators except attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from tilewright import _layouts, _torch, ops
from tilewright.compat._coverage import uses

Rotated = tuple[torch.Tensor, torch.Tensor]


def _backend(tuning: dict[str, Any]) -> str | None:
    """Where TileGym's caller wants it; the other named arguments tune TileGym's kernels."""
    backend: str | None = tuning.get("backend")
    return backend


@uses("rope")
def apply_rope_base(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    position_ids: torch.Tensor | None = None,
    unsqueeze_dim: int = 1,
    use_tma: bool = False,
    partial_rotary_factor: float = 1.0,
    **tuning: Any,
) -> Rotated:
    """Q and k [B, H, S, D] rotated by tables [B or 1, S, D]; position_ids are not used."""
    pairs = int(q.shape[-1] * partial_rotary_factor) // 2
    options: dict[str, Any] = {"pairs": pairs, "backend": _backend(tuning)}
    q, k = (_layouts.rotate(x, cos, sin, **options).contiguous() for x in (q, k))
    return q, k


def _deepseek(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    position_ids: torch.Tensor | None = None,
    unsqueeze_dim: int = 1,
) -> Rotated:
    """As apply_rope_base, for pairs of neighbours; they leave as halves."""
    q, k = (torch.cat([x[..., ::2], x[..., 1::2]], -1) for x in (q, k))
    return apply_rope_base(q, k, cos, sin, position_ids, unsqueeze_dim)


@uses("rope")
def get_apply_rope_func(model: str = "llama") -> Callable[..., Rotated]:
    """What rotates queries and keys of a model: llama, qwen2 or deepseek."""
    functions: dict[str, Callable[..., Rotated]] = {
        "llama": apply_rope_base,
        "qwen2": apply_rope_base,
        "deepseek": _deepseek,
    }
    if model not in functions:
        raise ValueError(f"get_apply_rope_func: model must be one of {', '.join(functions)}")
    return functions[model]


@uses("silu", "mul")
def get_swiglu() -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """The function silu(a) * b."""
    return lambda a, b: ops.mul(ops.silu(a), b)


@uses("rms_norm", "add")
def rms_norm(
    input: torch.Tensor,
    normalized_shape: Any,
    weight: torch.Tensor,
    eps: float,
    bias: torch.Tensor | None = None,
    mode: str | None = None,
    **tuning: Any,
) -> torch.Tensor:
    """RMS normalization over the last dimension."""
    out: torch.Tensor = ops.rms_norm(input, weight, eps, backend=_backend(tuning))
    return out if bias is None else ops.add(out, bias, backend=_backend(tuning))


class _RMSNorm(torch.nn.Module):
    offset = 0.0

    def __init__(self, hidden_size: int, eps: float = 1e-6, **_tuning: Any) -> None:
        """Weights at the identity."""
        super().__init__()
        start = torch.zeros if self.offset else torch.ones
        self.weight = torch.nn.Parameter(start(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """RMS normalization over the last dimension."""
        weight = self.weight + self.offset if self.offset else self.weight
        return rms_norm(hidden_states, None, weight, self.variance_epsilon)


class _Gemma3RMSNorm(_RMSNorm):
    offset = 1.0


@uses("rms_norm")
def get_rms_norm_module(model: str = "llama") -> type[torch.nn.Module]:
    """The module class of a model's normalization: llama or gemma3."""
    modules = {"llama": _RMSNorm, "gemma3": _Gemma3RMSNorm}
    if model not in modules:
        raise ValueError(f"get_rms_norm_module: model must be one of {', '.join(modules)}")
    return modules[model]


@uses("silu_and_mul")
def silu_and_mul(
    input: torch.Tensor, out: torch.Tensor | None = None, **tuning: Any
) -> torch.Tensor:
    """silu(first half) * second half of the last dimension, into `out` if given."""
    if out is None:
        result: torch.Tensor = ops.silu_and_mul(input, backend=_backend(tuning))
        return result
    _torch.load()
    torch.ops.tilewright.silu_and_mul.out(input, out=out)
    return out


@uses("softmax")
def softmax(x: torch.Tensor, use_tma: bool = False, **tuning: Any) -> torch.Tensor:
    """The softmax along the last dimension."""
    out: torch.Tensor = ops.softmax(x, -1, backend=_backend(tuning))
    return out


@uses("matmul")
def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    trans_a: bool | None = None,
    trans_b: bool | None = None,
    static_persistent: bool | None = True,
    use_tma: bool | None = None,
    **tuning: Any,
) -> torch.Tensor:
    """The product of two matrices."""
    return bmm(a[None], b[None], trans_a, trans_b, **tuning)[0]


@uses("matmul")
def bmm(
    a: torch.Tensor,
    b: torch.Tensor,
    transpose_a: bool | None = None,
    transpose_b: bool | None = None,
    static_persistent: bool | None = True,
    **tuning: Any,
) -> torch.Tensor:
    """The products of matrices [B, M, K] and [B, K, N]."""
    a = a.mT if transpose_a else a
    b = b.mT if transpose_b else b
    out: torch.Tensor = ops.matmul(a, b, backend=_backend(tuning))
    return out


@uses("matmul")
def group_gemm(
    group_A: Sequence[torch.Tensor],
    group_B: Sequence[torch.Tensor],
    static_persistent: bool | None = True,
    use_tma: bool | None = True,
    transpose_b: bool = False,
    **tuning: Any,
) -> list[torch.Tensor]:
    """The product of each pair of matrices."""
    pairs = zip(group_A, group_B, strict=True)
    return [matmul(a, b, None, transpose_b, **tuning) for a, b in pairs]


@uses("relu")
def relu(x: torch.Tensor, **tuning: Any) -> torch.Tensor:
    """max(x, 0)."""
    out: torch.Tensor = ops.relu(x, backend=_backend(tuning))
    return out


@uses("gelu")
def gelu(
    x: torch.Tensor, approximate: Literal["none", "tanh"] = "none", **tuning: Any
) -> torch.Tensor:
    """GELU, exact or by tanh."""
    out: torch.Tensor = ops.gelu(x, approximate, backend=_backend(tuning))
    return out


@uses("gelu", "mul")
def geglu(
    input: torch.Tensor, dim: int = -1, approximate: Literal["none", "tanh"] = "none", **tuning: Any
) -> torch.Tensor:
    """gelu(second half) * first half along `dim`."""
    first, second = input.chunk(2, dim)
    out: torch.Tensor = ops.mul(gelu(second, approximate, **tuning), first)
    return out
