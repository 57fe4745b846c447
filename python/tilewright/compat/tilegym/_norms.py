"""TileGym's normalizations, and their modules."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import ops
from tilewright.compat._tensors import tensor
from tilewright.compat.tilegym._backends import also_called, uses


def shifted_rms_norm(
    x: torch.Tensor, weight: torch.Tensor, eps: float, offset: float
) -> torch.Tensor:
    """RMS normalization times weight + offset, a sum that 16 bits would round away."""
    if not offset:
        return tensor(ops.rms_norm(x, weight, eps))
    return tensor(ops.rms_norm(x.float(), weight.float() + offset, eps)).to(x.dtype)


@uses("layer_norm")
@also_called(input="x")
def layer_norm_legacy(
    x: torch.Tensor,
    normalized_shape: Any,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    weight_shift: float = 0.0,
    **tuning: Any,
) -> torch.Tensor:
    """Layer normalization over the last dimension, times weight + weight_shift; x or input."""
    shifted = weight if weight is None or not weight_shift else weight + weight_shift
    return tensor(ops.layer_norm(x, shifted, bias, eps))


@uses("layer_norm")
@also_called(input="x")
def layer_norm(
    x: torch.Tensor,
    start_dim: int,
    end_dim: int,
    weight: torch.Tensor,
    bias: torch.Tensor,
    eps: float,
    weight_shift: float = 0.0,
    **tuning: Any,
) -> torch.Tensor:
    """Layer normalization over the dimensions from start_dim to before end_dim."""
    rank = x.dim()
    start, end = (d + rank if d < 0 else d for d in (start_dim, end_dim))
    if not 0 <= start < end <= rank or weight.shape != x.shape[start:end]:
        raise ValueError(
            f"layer_norm: weight {tuple(weight.shape)} must be x {tuple(x.shape)} from dimension "
            f"{start_dim} to before {end_dim}"
        )
    own, last = range(start, end), range(start - end, 0)
    moved = x.movedim(tuple(own), tuple(last))
    rows = moved.reshape(-1, weight.numel())
    out = layer_norm_legacy(rows, None, weight.flatten(), bias.flatten(), eps, weight_shift)
    return out.view(moved.shape).movedim(tuple(last), tuple(own)).contiguous()


@uses("layer_norm", "var_mean", "unary")
def persistent_layer_norm(
    input: torch.Tensor,
    normalized_shape: Any,
    weight: torch.Tensor,
    bias: torch.Tensor,
    eps: float,
    mean: torch.Tensor | None = None,
    rstd: torch.Tensor | None = None,
    **tuning: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, int]:
    """Layer normalization, its means and 1 / deviations, and the block and warps of a kernel."""
    flat = input.reshape(-1, input.shape[-1])
    var, center = ops.var_mean(flat.float(), -1, 0.0)
    scale = ops.unary(var + eps, "rsqrt")
    found_mean = center if mean is None else mean.copy_(center.view(mean.shape))
    found_rstd = scale if rstd is None else rstd.copy_(scale.view(rstd.shape))
    out = ops.layer_norm(input, weight, bias, eps)
    block = 1 << (input.shape[-1] - 1).bit_length()
    return out, found_mean, found_rstd, block, min(max(block // 256, 1), 8)


@uses("rms_norm", "add")
def rms_norm(
    input: torch.Tensor,
    normalized_shape: Any,
    weight: torch.Tensor,
    eps: float,
    bias: torch.Tensor | None = None,
    mode: str | None = None,
    offset: float = 0.0,
    **tuning: Any,
) -> torch.Tensor:
    """RMS normalization over the last dimension, times weight + offset."""
    out = shifted_rms_norm(input, weight, eps, offset)
    return out if bias is None else tensor(ops.add(out, bias))


class _RMSNorm(torch.nn.Module):
    def __init__(self, hidden_size: int, eps: float = 1e-6, offset: float = 0.0) -> None:
        """Weights of 1, to which an offset is added."""
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps
        self.hidden_size = hidden_size
        self.offset = offset

    def forward(self, hidden_states: torch.Tensor, mode: str | None = None) -> torch.Tensor:
        """RMS normalization over the last dimension."""
        return rms_norm(hidden_states, None, self.weight, self.variance_epsilon, offset=self.offset)

    @staticmethod
    def rms_norm_backward(
        x: torch.Tensor, dy: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The gradients of x and weight; rstd are 1 / the root mean squares of the rows of x."""
        rows, grad = (t.reshape(-1, t.shape[-1]).float() for t in (x, dy))
        scale = rstd.float().reshape(-1, 1)
        normal = ops.mul(rows, scale)
        weighted = ops.mul(grad, weight.float())
        along = ops.mean(ops.mul(weighted, normal))[:, None]
        dx = ops.mul(ops.add(weighted, ops.mul(normal, along), -1.0), scale)
        dw = ops.sum(ops.mul(grad, normal).T)
        return dx.view(x.shape).to(x.dtype), dw.to(weight.dtype)

    def extra_repr(self) -> str:
        """Sizes, for print()."""
        shape = tuple(self.weight.shape)
        return f"{shape}, eps={self.variance_epsilon}, offset={self.offset}"


class _Gemma3RMSNorm(_RMSNorm):
    def __init__(
        self,
        dim: int,
        eps: float = 1e-6,
        offset: float = 1.0,
        casting_mode: str = "gemma",
        init_fn: str = "zeros",
        in_place: bool = False,
    ) -> None:
        """Weights of 0, to which an offset is added; the last three change nothing."""
        super().__init__(dim, eps, offset)
        torch.nn.init.zeros_(self.weight)


@uses("rms_norm", "mul", "add", "mean", "sum")
def get_rms_norm_module(model: str = "llama") -> type[torch.nn.Module]:
    """The module class of a model's normalization: llama or gemma3."""
    modules = {"llama": _RMSNorm, "gemma3": _Gemma3RMSNorm}
    if model not in modules:
        raise ValueError(f"get_rms_norm_module: model must be one of {', '.join(modules)}")
    return modules[model]
