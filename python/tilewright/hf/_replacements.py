"""What stands in for the code of transformers' models, and in which of them."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from tilewright import _layouts, ops

# transformers' names of activations, and those of `_layouts.gated`.
ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "relu": "relu",
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
}


def rms_norm(self: Any, x: torch.Tensor) -> torch.Tensor:
    """A norm's forward: weight * x / rms(x), in the wider type of both."""
    eps = self.variance_epsilon
    wide = torch.promote_types(x.dtype, self.weight.dtype)
    out: torch.Tensor = ops.rms_norm(x.to(wide), self.weight.to(wide), eps)
    return out


def rms_norm_plus_one(self: Any, x: torch.Tensor) -> torch.Tensor:
    """Gemma's: (1 + weight) * x / rms(x) in float32, rounded once."""
    out: torch.Tensor = ops.rms_norm(x.float(), 1.0 + self.weight.float(), self.eps)
    return out.type_as(x)


def activation_of(layer: Any) -> str:
    """The activation of a gated layer, as its configuration names it."""
    config = layer.config
    return getattr(config, "hidden_activation", None) or str(getattr(config, "hidden_act", ""))


def _activation(layer: Any) -> str:
    name = activation_of(layer)
    if name not in ACTIVATIONS:
        raise NotImplementedError(
            f"{type(layer).__name__}: there is no operator for {name!r}; patch with swiglu=False"
        )
    return ACTIVATIONS[name]


def gated_layer(self: Any, x: torch.Tensor) -> torch.Tensor:
    """A gated layer's forward, with a matrix each for gate and up."""
    out: torch.Tensor = self.down_proj(
        _layouts.gated(self.gate_proj(x), self.up_proj(x), _activation(self))
    )
    return out


def joint_gated_layer(self: Any, hidden_states: torch.Tensor) -> torch.Tensor:
    """A gated layer's forward, with one matrix for both."""
    both = self.gate_up_proj(hidden_states)
    activation = _activation(self)
    if activation == "silu":
        inner = ops.silu_and_mul(both)
    else:
        gate, up = both.chunk(2, -1)
        inner = _layouts.gated(gate, up, activation)
    out: torch.Tensor = self.down_proj(inner)
    return out


def apply_rotary_pos_emb(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    unsqueeze_dim: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotates halves of heads, or of as many dimensions as the tables have."""
    options: dict[str, Any] = {"pairs": cos.shape[-1] // 2, "heads_first": unsqueeze_dim == 1}
    return _layouts.rotate(q, cos, sin, **options), _layouts.rotate(k, cos, sin, **options)


def apply_rotary_emb(
    xq: torch.Tensor, xk: torch.Tensor, freqs_cis: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotates neighbours, by complex factors."""
    options: dict[str, Any] = {"pairs": freqs_cis.shape[-1], "interleaved": True}
    cos, sin = freqs_cis.real, freqs_cis.imag
    return _layouts.rotate(xq, cos, sin, **options), _layouts.rotate(xk, cos, sin, **options)


@dataclasses.dataclass(frozen=True)
class Family:
    """The code of one family of models."""

    name: str
    prefix: str  # of its classes
    rms_norm: Callable[..., torch.Tensor] = rms_norm
    swiglu: Callable[..., torch.Tensor] = gated_layer
    rope: Callable[..., Any] = apply_rotary_pos_emb

    @property
    def module_name(self) -> str:
        """Where its code is."""
        return f"transformers.models.{self.name}.modeling_{self.name}"

    def module(self) -> ModuleType:
        """Its code."""
        return importlib.import_module(self.module_name)


FAMILIES = {
    family.name: family
    for family in (
        Family("llama", "Llama"),
        Family("qwen2", "Qwen2"),
        Family("qwen3", "Qwen3"),
        Family("mistral", "Mistral"),
        Family("gemma3", "Gemma3", rms_norm=rms_norm_plus_one),
        Family("phi3", "Phi3", swiglu=joint_gated_layer),
        Family("deepseek_v2", "DeepseekV2", rope=apply_rotary_emb),
    )
}
