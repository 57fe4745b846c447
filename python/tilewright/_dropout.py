"""Dropout whose masks follow from torch.manual_seed, also in graphs. Imports PyTorch."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import _torch, ops

_torch.load()  # so that what is compiled finds the operators


@torch.library.custom_op("tilewright_nn::dropout", mutates_args=())
def _drawn_dropout(x: torch.Tensor, p: float, seed: torch.Tensor) -> torch.Tensor:
    """The operator dropout for graphs, where a seed drawn by each run cannot be a number."""
    out: torch.Tensor = ops.dropout(x, p, int(seed))
    return out


@_drawn_dropout.register_fake
def _(x: torch.Tensor, p: float, seed: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape)


def _keep_seed(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    _, ctx.p, seed = inputs
    ctx.save_for_backward(seed)


def _drop_gradient(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
    return _drawn_dropout(grad, ctx.p, *ctx.saved_tensors), None, None


_drawn_dropout.register_autograd(_drop_gradient, setup_context=_keep_seed)


def dropped(x: torch.Tensor, p: float) -> torch.Tensor:
    """`x` with zeros in random places, with probability p, and the rest divided by 1 - p."""
    seed = torch.randint(1 << 53, (), device="cpu")
    is_traced = torch.compiler.is_compiling()
    out: torch.Tensor = _drawn_dropout(x, p, seed) if is_traced else ops.dropout(x, p, int(seed))
    return out
