"""Normalizations and linear layers."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch

from tilewright import _layouts, ops
from tilewright._dropout import dropped

__all__ = ["Dropout", "GatedMLP", "LayerNorm", "Linear", "RMSNorm", "SwiGLU"]


def _row(layer: Any, x: torch.Tensor) -> torch.Tensor:
    """`x` with the dimensions that a layer normalizes as one."""
    shape = tuple(layer.normalized_shape)
    if x.shape[x.dim() - len(shape) :] != shape:
        raise ValueError(f"{type(layer).__name__}: x is {tuple(x.shape)}, but must end in {shape}")
    return x.flatten(-len(shape))


def _in_one_dtype(x: torch.Tensor, *parameters: torch.Tensor | None) -> list[Any]:
    """All as the parameters are, which are wider where training mixes dtypes."""
    wide = x.dtype
    for parameter in parameters:
        if parameter is not None and parameter.dtype != wide:
            wide = torch.promote_types(wide, parameter.dtype)
    return [None if t is None else t if t.dtype == wide else t.to(wide) for t in (x, *parameters)]


class RMSNorm(torch.nn.RMSNorm):
    """torch.nn.RMSNorm by the operator rms_norm."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """X / rms(x) * weight over the last dimensions."""
        row = _row(self, x)
        eps = self.eps
        if eps is None:  # of the dtype that PyTorch computes in, which is never a half one
            eps = torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps
        weight = x.new_ones(row.shape[-1]) if self.weight is None else self.weight.flatten()
        row, weight = _in_one_dtype(row, weight)
        out: torch.Tensor = ops.rms_norm(row, weight, eps)
        return out.to(x.dtype).view(x.shape)


class LayerNorm(torch.nn.LayerNorm):
    """torch.nn.LayerNorm by the operator layer_norm."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """(x - mean(x)) / std(x) * weight + bias over the last dimensions."""
        weight = None if self.weight is None else self.weight.flatten()
        bias = None if self.bias is None else self.bias.flatten()
        row, weight, bias = _in_one_dtype(_row(self, input), weight, bias)
        out: torch.Tensor = ops.layer_norm(row, weight, bias, self.eps)
        return out.to(input.dtype).view(input.shape)


class Dropout(torch.nn.Dropout):
    """torch.nn.Dropout by the operator dropout; masks follow from torch.manual_seed."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Zeros with probability p, the rest divided by 1 - p; in evaluation the input itself."""
        if not self.training or self.p == 0:
            return input
        out = dropped(input, self.p)
        return input.copy_(out) if self.inplace else out


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
        """Three linear layers, initialized as torch.nn.Linear.

        Raises:
            ValueError: there is no such activation.
        """
        super().__init__()
        if activation not in get_args(Activation):
            names = ", ".join(get_args(Activation))
            raise ValueError(f"GatedMLP: activation = {activation!r} must be one of {names}")
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


class SwiGLU(torch.nn.Module):
    """xformers' module of this name: w3(silu(w1(x)) * w2(x)), w1 and w2 packed as w12."""

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        out_features: int | None = None,
        bias: bool = True,
        *,
        _pack_weights: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Linear layers, initialized as torch.nn.Linear: w12 and w3, or w1, w2 and w3.

        Args:
            in_features: of the input.
            hidden_features: of the product.
            out_features: of the result; by default those of the input.
            bias: whether the layers add one.
            _pack_weights: whether w1 and w2 are one layer, w12.
            device: where the weights are.
            dtype: of the weights.
        """
        super().__init__()
        self.in_features, self.hidden_features = in_features, hidden_features
        self.out_features = out_features or in_features
        options: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.w12 = Linear(in_features, 2 * hidden_features, **options) if _pack_weights else None
        if self.w12 is None:
            self.w1 = Linear(in_features, hidden_features, **options)
            self.w2 = Linear(in_features, hidden_features, **options)
        self.w3 = Linear(hidden_features, self.out_features, **options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's output [..., out_features]."""
        if self.w12 is None:
            product = _layouts.gated(self.w1(x), self.w2(x), "silu")
        else:
            product = ops.silu_and_mul(self.w12(x))
        out: torch.Tensor = self.w3(product)
        return out
