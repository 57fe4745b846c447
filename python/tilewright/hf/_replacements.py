"""What stands in for the code of transformers' models."""

from __future__ import annotations

from typing import Any

import torch
from transformers.activations import ACT2CLS

from tilewright import _layouts, ops

# transformers' names of activations, and those of `_layouts.gated`.
ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
}


def _class_of(name: str) -> type:
    made: Any = ACT2CLS[name]
    found: type = made[0] if isinstance(made, tuple) else made
    return found


_NAMES = {_class_of(name): name for name in reversed(ACT2CLS)}  # the first name of a class
_ACTIVATIONS = {_class_of(name): own for name, own in ACTIVATIONS.items() if name in ACT2CLS}


def activation_of(layer: Any) -> str:
    """Transformers' name of a gated layer's activation."""
    kind = type(getattr(layer, "act_fn", getattr(layer, "activation_fn", None)))
    return str(_NAMES.get(kind, kind.__name__))


def has_operator(layer: Any) -> bool:
    """Whether a gated layer's activation is one of the operators."""
    return activation_of(layer) in ACTIVATIONS


def _operator_of(layer: Any, activation: Any) -> str:
    own = _ACTIVATIONS.get(type(activation))
    if own is None:
        raise NotImplementedError(
            f"{type(layer).__name__}: there is no operator for {activation_of(layer)!r}; "
            "patch with swiglu=False"
        )
    return own


def rms_norm(self: Any, x: torch.Tensor) -> torch.Tensor:
    """A norm's forward: weight * x / rms(x), in the wider type of both."""
    eps = self.variance_epsilon
    wide = torch.promote_types(x.dtype, self.weight.dtype)
    out: torch.Tensor = ops.rms_norm(x.to(wide), self.weight.to(wide), eps)
    return out


def rms_norm_in_float(self: Any, x: torch.Tensor) -> torch.Tensor:
    """As `rms_norm`, rounded once to the input's type."""
    out: torch.Tensor = ops.rms_norm(x.float(), self.weight.float(), self.variance_epsilon)
    return out.to(x.dtype)


def rms_norm_plus_one(self: Any, x: torch.Tensor) -> torch.Tensor:
    """Gemma's: (1 + weight) * x / rms(x) in float32, rounded once."""
    out: torch.Tensor = ops.rms_norm(x.float(), 1.0 + self.weight.float(), self.eps)
    return out.type_as(x)


def gated_layer(self: Any, x: torch.Tensor) -> torch.Tensor:
    """A gated layer's forward, with a matrix each for gate and up."""
    activation = _operator_of(self, self.act_fn)
    out: torch.Tensor = self.down_proj(
        _layouts.gated(self.gate_proj(x), self.up_proj(x), activation)
    )
    return out


def joint_gated_layer(self: Any, hidden_states: torch.Tensor) -> torch.Tensor:
    """A gated layer's forward, with one matrix for both."""
    both = self.gate_up_proj(hidden_states)
    activation = _operator_of(self, self.activation_fn)
    if activation == "silu":
        inner = ops.silu_and_mul(both)
    else:
        gate, up = both.chunk(2, -1)
        inner = _layouts.gated(gate, up, activation)
    out: torch.Tensor = self.down_proj(inner)
    return out


def _rotate_both(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    unsqueeze_dim: int = 1,
    *,
    pairs: int,
    interleaved: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries and keys whose heads are dimension `unsqueeze_dim`, by the same tables."""
    options: dict[str, Any] = {
        "pairs": pairs, "heads_first": unsqueeze_dim == 1, "interleaved": interleaved
    }  # fmt: skip
    return _layouts.rotate(q, cos, sin, **options), _layouts.rotate(k, cos, sin, **options)


def apply_rotary_pos_emb(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    unsqueeze_dim: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotates halves of heads, or of as many dimensions as the tables have."""
    return _rotate_both(q, k, cos, sin, unsqueeze_dim, pairs=cos.shape[-1] // 2)


def apply_half_tables(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    unsqueeze_dim: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `apply_rotary_pos_emb`, with tables of each pair once."""
    return _rotate_both(q, k, cos, sin, unsqueeze_dim, pairs=cos.shape[-1])


def apply_to_neighbours(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    unsqueeze_dim: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotates neighbours, by tables that repeat each half."""
    pairs = cos.shape[-1] // 2
    return _rotate_both(q, k, cos, sin, unsqueeze_dim, pairs=pairs, interleaved=True)


def apply_to_neighbours_apart(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    position_ids: Any = None,
    unsqueeze_dim: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `apply_to_neighbours`, with the first of each pair in front of all the second ones."""
    q, k = apply_to_neighbours(q, k, cos, sin, unsqueeze_dim)
    return torch.cat((q[..., ::2], q[..., 1::2]), -1), torch.cat((k[..., ::2], k[..., 1::2]), -1)


def apply_repeated_tables(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    unsqueeze_dim: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotates neighbours, by tables that repeat each number."""
    halves = [torch.cat([table[..., ::2]] * 2, -1) for table in (cos, sin)]
    return apply_to_neighbours(q, k, halves[0], halves[1], unsqueeze_dim)


def apply_rotary_emb(
    xq: torch.Tensor, xk: torch.Tensor, freqs_cis: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotates neighbours, by complex factors."""
    cos, sin = freqs_cis.real, freqs_cis.imag
    return _rotate_both(xq, xk, cos, sin, pairs=freqs_cis.shape[-1], interleaved=True)
