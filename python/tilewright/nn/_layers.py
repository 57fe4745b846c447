"""Normalizations and linear layers."""

from __future__ import annotations

from typing import Any, Literal

import torch

from tilewright import _layouts, ops

__all__ = ["GatedMLP", "Linear", "RMSNorm", "SwiGLU"]


class RMSNorm(torch.nn.RMSNorm):
    """torch.nn.RMSNorm by the operator rms_norm."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """X / rms(x) * weight over the last dimensions."""
        shape = tuple(self.normalized_shape)
        if x.shape[x.dim() - len(shape) :] != shape:
            raise ValueError(f"RMSNorm: x is {tuple(x.shape)}, but must end in {shape}")
        eps = torch.finfo(x.dtype).eps if self.eps is None else self.eps
        weight = x.new_ones(shape) if self.weight is None else self.weight
        if len(shape) == 1:
            out: torch.Tensor = ops.rms_norm(x, weight, eps)
            return out
        flat: torch.Tensor = ops.rms_norm(x.flatten(-len(shape)), weight.flatten(), eps)
        return flat.view(x.shape)


class Linear(torch.nn.Linear):
    """torch.nn.Linear by the operator linear."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Input weightᵀ + bias."""
        out: torch.Tensor = ops.linear(input, self.weight, self.bias)
        return out


Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]


class GatedMLP(torch.nn.Module):
    """down_proj(activation(gate_proj(x)) * up_proj(x)): the feed-forward layer of Llama models."""

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        bias: bool = False,
        activation: Activation = "silu",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Three linear layers, initialized as torch.nn.Linear."""
        super().__init__()
        options: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.gate_proj = Linear(hidden_size, intermediate_size, **options)
        self.up_proj = Linear(hidden_size, intermediate_size, **options)
        self.down_proj = Linear(intermediate_size, hidden_size, **options)
        self.activation: Activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's output; has the shape of x."""
        out: torch.Tensor = self.down_proj(
            _layouts.gated(self.gate_proj(x), self.up_proj(x), self.activation)
        )
        return out

    def extra_repr(self) -> str:
        """The activation."""
        return f"activation={self.activation!r}"


class SwiGLU(GatedMLP):
    """GatedMLP with silu, by the arguments of xformers' module of this name."""

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        bias: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """As GatedMLP."""
        super().__init__(in_features, hidden_features, bias, "silu", device, dtype)
