"""Liger Kernel's functions of the operators that it has, by the names and operands of our rows.

They are called below autograd, as its own functions call them. Where these write over an operand,
the row holds one more for them: its numbers soon mean nothing, and times do not depend on them.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import sys
from typing import Any

import torch
from replay import Call

EPS, LLAMA = 1e-6, 0  # what a norm rounds, as Llama's code does


@functools.cache
def version() -> str:
    """Its version, or "absent"; says why it cannot be imported where it is there."""
    if not importlib.util.find_spec("liger_kernel"):
        return "absent"
    try:
        importlib.import_module("liger_kernel.ops")
        return importlib.metadata.version("liger-kernel")
    except ImportError as error:
        print(f"without Liger Kernel: {error}", file=sys.stderr)
        return "absent"


def _norms() -> dict[str, Call]:
    from liger_kernel.ops import fused_add_rms_norm, layer_norm, rms_norm
    from liger_kernel.ops.utils import calculate_settings

    def rms_norm_backward(_: Any, x: Any, w: Any, rstd: Any, over: Any) -> Any:
        settings = calculate_settings(x.shape[1])
        return rms_norm.rms_norm_backward(
            over, x, w, rstd.view(-1), 0.0, LLAMA, *settings, True, None
        )

    def add_backward(g: Any, x: Any, w: Any, rstd: Any, residual: Any) -> Any:
        settings = calculate_settings(x.shape[1])
        by_x, _, by_w = fused_add_rms_norm.fused_add_rms_norm_backward(
            g, residual, x, w, rstd.view(-1), 0.0, LLAMA, *settings, 2, False
        )
        return by_x, by_w

    def layer_norm_backward(g: Any, x: Any, w: Any, b: Any, mean: Any, rstd: Any) -> Any:
        return layer_norm.layer_norm_backward(g, x, w, b, mean.view(-1), rstd.view(-1))

    return {
        "rms_norm": lambda x, w: rms_norm.rms_norm_forward(x, w, EPS, 0.0, LLAMA, None)[0],
        "rms_norm_backward": rms_norm_backward,
        "fused_add_rms_norm": lambda x, r, w: fused_add_rms_norm.fused_add_rms_norm_forward(
            x, r, w, EPS, 0.0, LLAMA
        )[:2],
        "fused_add_rms_norm_backward": add_backward,
        "layer_norm": lambda x, w, b: layer_norm.layer_norm_forward(x, w, b, 1e-5)[0],
        "layer_norm_backward": layer_norm_backward,
    }


def _activations() -> dict[str, Call]:
    from liger_kernel.ops import softmax, swiglu
    from liger_kernel.ops.utils import calculate_settings

    def softmax_backward(g: Any, y: Any) -> Any:
        block, warps = calculate_settings(y.shape[1])
        return softmax._softmax_backward(g, y, block, warps, y.shape[1] > block)

    return {
        "softmax": lambda x: softmax._softmax_forward(x)[0],
        "softmax_backward": softmax_backward,
        "swiglu": lambda gate, up: swiglu.swiglu_forward(gate, up)[2],
        "swiglu_backward": lambda g, _, __, gate, up: swiglu.swiglu_backward(gate, up, g),
        "silu_and_mul": lambda x: swiglu.swiglu_fused_gate_up_forward(x)[1],
        "silu_and_mul_backward": lambda g, x: swiglu.swiglu_fused_gate_up_backward(x, g),
    }


def _losses() -> dict[str, Call]:
    import triton
    from liger_kernel.ops.cross_entropy import MAX_FUSED_SIZE, liger_cross_entropy_kernel

    def cross_entropy(x: torch.Tensor, target: torch.Tensor, gradient: bool) -> torch.Tensor:
        """Its kernel alone: its function waits for the host to count targets."""
        rows, classes = x.shape
        loss = torch.zeros(rows, dtype=x.dtype, device=x.device)
        liger_cross_entropy_kernel[(rows,)](
            X_ptr=x, X_stride=classes, Y_ptr=target, Y_stride=1, weight_ptr=None, loss_ptr=loss,
            z_loss_ptr=None, loss_stride=1, token_accuracy_ptr=None, token_accuracy_stride=0,
            predicted_tokens_ptr=None, predicted_tokens_stride=0, n_cols=classes,
            n_non_ignore=rows, sum_non_ignore_weight=rows, weight_sum=0.0, ignore_index=-100,
            lse_square_scale=0.0, label_smoothing=0.0, reduction="mean", softcap=None,
            RETURN_Z_LOSS=False, RETURN_TOKEN_ACCURACY=False, RETURN_PREDICTED_TOKENS=False,
            BLOCK_SIZE=min(MAX_FUSED_SIZE, triton.next_power_of_2(classes)), HAS_WEIGHT=False,
            HAS_SOFTCAPPING=False, HAS_GRADIENTS=gradient, num_warps=32,
        )  # fmt: skip
        return loss.sum()

    return {
        "cross_entropy": lambda x, target: cross_entropy(x, target, False),
        "cross_entropy and its gradient": lambda _, target, __, over: (
            cross_entropy(over, target, True),
            over,
        ),
    }


def calls() -> dict[str, Call]:
    """By the names of rows; none where it is absent."""
    if version() == "absent":
        return {}
    return _norms() | _activations() | _losses()
