"""The unsloth suite of TileGym."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch

from tilewright import ops
from tilewright.compat._coverage import by_name, refuse, uses

MISSING = by_name(
    {
        "quantization by blocks to 8-bit floats": "act_quant w8a8_block_fp8_matmul weight_dequant",
        "mapping of this loss's arguments yet": "cross_entropy_loss",
        "grouped matrix multiplication by expert": "grouped_gemm",
    }
)


def __getattr__(name: str) -> Callable[..., Any]:
    return refuse(__name__, MISSING, name)


@uses("gelu", "mul")
def geglu_exact_forward(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """gelu(gate) * up, by erf."""
    out: torch.Tensor = ops.mul(ops.gelu(gate), up)
    return out


@uses("gelu", "mul")
def geglu_approx_forward(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """gelu(gate) * up, by tanh."""
    out: torch.Tensor = ops.mul(ops.gelu(gate, "tanh"), up)
    return out


@uses("swiglu")
def swiglu_fg(e: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """silu(e) * g."""
    out: torch.Tensor = ops.swiglu(e, g)
    return out


@uses("rms_norm")
def rms_layernorm(
    X: torch.Tensor, W: torch.Tensor, eps: float = 1e-6, gemma: bool = False
) -> torch.Tensor:
    """RMS normalization over the last dimension; times W + 1 for Gemma."""
    out: torch.Tensor = ops.rms_norm(X, W + 1 if gemma else W, eps)
    return out


@uses("rope")
def rope_embedding(Q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Q [B, S, H, D] rotated by tables [S, D / 2]."""
    out: torch.Tensor = ops.rope(Q, cos.float(), sin.float())
    return out


@uses("rope")
def rope_embedding_qk(
    Q: torch.Tensor,
    K: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    rope_indices: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Q and K [B, H, S, D] rotated by tables [P, D / 2]; rope_indices: each token's row."""
    positions = None
    if rope_indices is not None:
        positions = rope_indices.to(torch.int32).reshape(Q.shape[0], Q.shape[2])
    tables = (cos.float(), sin.float(), positions)
    q, k = (ops.rope(x.transpose(1, 2), *tables).transpose(1, 2) for x in (Q, K))
    return q.contiguous(), k.contiguous()


@uses("layer_norm")
def layernorm(X: torch.Tensor, W: torch.Tensor, b: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """Layer normalization over the last dimension."""
    out: torch.Tensor = ops.layer_norm(X, W, b, eps)
    return out


Overwritten = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _overwrite(
    into: Overwritten, output: torch.Tensor, up_grad: torch.Tensor, gate_grad: torch.Tensor
) -> Overwritten:
    for target, value in zip(into, (output, up_grad, gate_grad), strict=True):
        target.copy_(value)
    return into


@uses("swiglu", "swiglu_backward")
def swiglu_bwd(DW: torch.Tensor, e: torch.Tensor, g: torch.Tensor) -> Overwritten:
    """Writes silu(e) * g to DW, the gradient of g to e, and that of e to g."""
    gate_grad, up_grad = ops.swiglu_backward(DW, e, g)
    return _overwrite((DW, e, g), ops.swiglu(e, g), up_grad, gate_grad)


def _geglu_backward(
    DW: torch.Tensor, e: torch.Tensor, g: torch.Tensor, approximate: Literal["none", "tanh"]
) -> Overwritten:
    gate = ops.gelu(e, approximate)
    gate_grad = ops.gelu_backward(ops.mul(DW, g), e, approximate)
    return _overwrite((DW, e, g), ops.mul(gate, g), ops.mul(DW, gate), gate_grad)


@uses("gelu", "gelu_backward", "mul")
def geglu_exact_backward(DW: torch.Tensor, e: torch.Tensor, g: torch.Tensor) -> Overwritten:
    """Writes gelu(e) * g to DW, the gradient of g to e, and that of e to g; by erf."""
    return _geglu_backward(DW, e, g, "none")


@uses("gelu", "gelu_backward", "mul")
def geglu_approx_backward(DW: torch.Tensor, e: torch.Tensor, g: torch.Tensor) -> Overwritten:
    """Writes gelu(e) * g to DW, the gradient of g to e, and that of e to g; by tanh."""
    return _geglu_backward(DW, e, g, "tanh")
