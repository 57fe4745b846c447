"""TileOPs' normalizations."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._tensors import affine, tensor, unflatten


def _check_shape(name: str, x: torch.Tensor, shape: Sequence[int]) -> int:
    """The first of the dimensions that are normalized over.

    Raises:
        ValueError: x does not end with them.
    """
    if not shape or tuple(x.shape[-len(shape) :]) != tuple(shape):
        raise ValueError(f"{name}: x {tuple(x.shape)} does not end with {list(shape)}")
    return x.dim() - len(shape)


@uses("layer_norm")
def layer_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    *,
    normalized_shape: Sequence[int],
    eps: float = 1e-5,
) -> torch.Tensor:
    """Layer normalization over the last dimensions."""
    kept = _check_shape("layer_norm", x, normalized_shape)
    scale, shift = (None if t is None else t.flatten() for t in (weight, bias))
    return tensor(ops.layer_norm(x.flatten(kept), scale, shift, eps)).reshape(x.shape)


@uses("rms_norm")
def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    *,
    normalized_shape: Sequence[int],
    eps: float | None = 1e-6,
) -> torch.Tensor:
    """RMS normalization over the last dimensions."""
    kept = _check_shape("rms_norm", x, normalized_shape)
    flat = x.flatten(kept)
    scale = x.new_ones(flat.shape[-1]) if weight is None else weight.flatten()
    if eps is None:  # PyTorch's: of the dtype that it computes in
        eps = torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps
    return tensor(ops.rms_norm(flat, scale, eps)).reshape(x.shape)


@uses("fused_add_rms_norm")
def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """X + residual normalized, and x + residual."""
    output, residual_out = ops.fused_add_rms_norm(x, residual, weight, eps)
    return output, residual_out


@uses("add", "layer_norm")
def fused_add_layer_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    *,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor]:
    """X + residual normalized, and x + residual."""
    residual_out = tensor(ops.add(x, residual))
    return tensor(ops.layer_norm(residual_out, weight, bias, eps)), residual_out


@uses("layer_norm", "mul", "add")
def ada_layer_norm(
    x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, *, eps: float = 1e-5
) -> torch.Tensor:
    """Scale * layer_norm(x) + shift."""
    wide = tensor(ops.layer_norm(x.float(), None, None, eps))  # rounded once, at the end
    return tensor(ops.add(ops.mul(wide, scale.float()), shift.float())).to(x.dtype)


@uses("layer_norm", "mul", "add")
def ada_layer_norm_zero(
    x: torch.Tensor,
    scale: torch.Tensor,
    shift: torch.Tensor,
    gate: torch.Tensor,
    *,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Gate * (scale * layer_norm(x) + shift)."""
    inner = ada_layer_norm(x.float(), scale.float(), shift.float(), eps=eps)
    return tensor(ops.mul(gate.float(), inner)).to(x.dtype)


@uses("layer_norm", "mul", "add")
def group_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    *,
    num_groups: int,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Normalization of each group of channels of x [N, C, ...]."""
    if x.dim() < 2 or num_groups <= 0 or x.shape[1] % num_groups:
        raise ValueError(f"group_norm: {num_groups} groups do not divide x {tuple(x.shape)}")
    grouped = unflatten(x, 1, num_groups, -1).flatten(2).flatten(0, 1).float()
    normal = tensor(ops.layer_norm(grouped, None, None, eps)).view(x.shape)
    return affine(normal, weight, bias).to(x.dtype)


def _update(running: torch.Tensor, value: torch.Tensor, momentum: float) -> None:
    running.mul_(1 - momentum).add_(value.to(running.dtype), alpha=momentum)


def _update_each(
    kind: torch.dtype, running: torch.Tensor, values: torch.Tensor, momentum: float
) -> None:
    """As _update for each sample of values [N, C], in this dtype; then the samples' mean."""
    moved = running.to(kind).float() * (1 - momentum) + values * momentum
    running.copy_(tensor(ops.mean(moved.to(kind), 0)))


def _by_channel(
    x: torch.Tensor,
    mean: torch.Tensor,
    var: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> torch.Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias, each a number per channel of [N, C, ...]."""
    centered = affine(x.float(), None, tensor(ops.unary(mean.float(), "neg")))
    rstd = tensor(ops.unary(var.float() + eps, "rsqrt"))
    return affine(affine(centered, rstd, None), weight, bias).to(x.dtype)


@uses("var_mean", "unary", "mul", "add")
def batch_norm(
    x: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    *,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Normalization of each channel of x [N, C, ...]; in training the running ones are updated."""
    given = (x, running_mean, running_var, weight, bias)
    return batch_norm_with_moments(*given, training=training, momentum=momentum, eps=eps)[0]


def batch_norm_with_moments(
    x: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    *,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """batch_norm, and in training the means and variances of x."""
    if not training:
        if running_mean is None or running_var is None:
            raise ValueError("batch_norm: without training, running_mean and _var must be given")
        return _by_channel(x, running_mean, running_var, weight, bias, eps), None, None
    channels = x.transpose(0, 1).reshape(x.shape[1], -1).float()
    count = channels.shape[1]
    if count == 1:
        raise ValueError(f"batch_norm: x {tuple(x.shape)} has one value per channel to train with")
    var, mean = (tensor(t) for t in ops.var_mean(channels, -1, 0.0))
    if running_mean is not None and running_var is not None:
        _update(running_mean, mean, momentum)
        _update(running_var, var * (count / (count - 1)), momentum)
    return _by_channel(x, mean, var, weight, bias, eps), mean, var


@uses("sum", "unary", "mul", "add")
def batch_norm_bwd(
    grad_out: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of x, weight and bias of a batch_norm in training."""
    grad = grad_out.float()
    hat = affine(affine(x.float(), None, tensor(ops.unary(mean, "neg"))), rstd, None)

    def total(values: torch.Tensor) -> torch.Tensor:
        return tensor(ops.sum(values.transpose(0, 1).reshape(x.shape[1], -1)))

    grad_weight, grad_bias = total(tensor(ops.mul(grad, hat))), total(grad)
    count = x.numel() // x.shape[1]
    explained = affine(hat, grad_weight / -count, grad_bias / -count)
    grad_x = affine(tensor(ops.add(grad, explained)), tensor(ops.mul(weight.float(), rstd)), None)
    return grad_x.to(grad_out.dtype), grad_weight, grad_bias


@uses("layer_norm", "var_mean", "mul", "add")
def instance_norm(
    x: torch.Tensor,
    running_mean: torch.Tensor | None = None,
    running_var: torch.Tensor | None = None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    *,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Normalization of each channel of each sample of x [N, C, ...]."""
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise ValueError("instance_norm: running_mean and _var must be given to be used")
        return _by_channel(x, running_mean, running_var, weight, bias, eps)
    flat = x.flatten(2).float()
    if flat.shape[-1] == 1:
        raise ValueError(f"instance_norm: x {tuple(x.shape)} has one value per channel")
    if running_mean is not None and running_var is not None:
        var, mean = (tensor(t) for t in ops.var_mean(flat))
        _update_each(x.dtype, running_mean, mean, momentum)  # as PyTorch has it
        _update_each(x.dtype, running_var, var, momentum)
    return group_norm(x, weight, bias, num_groups=x.shape[1], eps=eps)


__all__ = list(provided(vars()))
