"""TileGym's operators except attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from tilewright import _functions, _layouts, nn, ops
from tilewright.compat._tensors import computable, packed
from tilewright.compat.tilegym import unsloth
from tilewright.compat.tilegym._backends import also_called, uses

Rotated = tuple[torch.Tensor, torch.Tensor]

_ACTIVATIONS: dict[str, Literal["silu", "relu", "gelu", "gelu_tanh"]] = {
    "silu": "silu",
    "relu": "relu",
    "gelu": "gelu",
    "gelu-tanh": "gelu_tanh",
}


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
    q, k = (packed(_layouts.rotate(x, cos, sin, pairs=pairs)) for x in (q, k))
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


@uses("swiglu")
def get_swiglu() -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """The function silu(a) * b."""
    return lambda a, b: ops.swiglu(a, b)


class PartiallyFusedSwiGLUMLP(nn.GatedMLP):
    """The gated layer of a transformers configuration."""

    def __init__(
        self, config: Any, hidden_size: int | None = None, intermediate_size: int | None = None
    ) -> None:
        """Sizes that are given overrule the configuration's."""
        super().__init__(
            hidden_size or config.hidden_size, intermediate_size or config.intermediate_size
        )
        self.config = config


class PartiallyFusedGEGLUMLP(nn.GatedMLP):
    """The gated layer of a transformers configuration, with GELU.

    By tanh if the configuration's hidden_activation says so (gelu_pytorch_tanh or gelu_new).
    """

    def __init__(
        self, config: Any, hidden_size: int | None = None, intermediate_size: int | None = None
    ) -> None:
        """Sizes that are given overrule the configuration's."""
        activation = getattr(config, "hidden_activation", None) or ""
        by_tanh = "gelu_pytorch_tanh" in activation or "gelu_new" in activation
        super().__init__(
            hidden_size or config.hidden_size,
            intermediate_size or config.intermediate_size,
            activation="gelu_tanh" if by_tanh else "gelu",
        )
        self.config = config


@uses("linear", "swiglu")
def get_swiglu_module() -> type[torch.nn.Module]:
    """The module class of a gated layer."""
    return PartiallyFusedSwiGLUMLP


@uses("linear", "swiglu")
def get_fused_swiglu_module() -> type[torch.nn.Module]:
    """The module class of a gated layer."""
    return PartiallyFusedSwiGLUMLP


PartiallyFusedSwiGLUMLP.operators = ("linear", "swiglu")  # type: ignore[attr-defined]
PartiallyFusedGEGLUMLP.operators = ("linear", "gelu", "mul")  # type: ignore[attr-defined]


@uses("fused_linear_cross_entropy")
def fused_linear_cross_entropy(
    hidden_states: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None = None,
    ignore_index: int = -100,
    chunk_size: int = 4096,
    reduction: Literal["mean", "sum"] = "mean",
    **tuning: Any,
) -> torch.Tensor:
    """The cross-entropy of hidden_states weightᵀ, whose logits never exist as a whole."""
    rows = hidden_states.flatten(0, -2)
    if bias is not None:  # the weight of one feature more, which is 1
        rows = torch.cat([rows, rows.new_ones(rows.shape[0], 1)], -1)
        weight = torch.cat([weight, bias[:, None]], -1)
    out: torch.Tensor = ops.fused_linear_cross_entropy(
        rows, weight, target.flatten(), ignore_index, reduction
    )
    return out


@uses("silu_and_mul")
def silu_and_mul(
    input: torch.Tensor, out: torch.Tensor | None = None, **tuning: Any
) -> torch.Tensor:
    """silu(first half) * second half of the last dimension, into `out` if given."""
    if out is None:
        result: torch.Tensor = ops.silu_and_mul(input)
        return result
    filled: torch.Tensor = _functions.into("silu_and_mul", out, input)
    return filled


@uses("softmax")
def softmax(x: torch.Tensor, use_tma: bool = False, **tuning: Any) -> torch.Tensor:
    """The softmax along the last dimension."""
    out: torch.Tensor = ops.softmax(x, -1)
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
    if a.dim() != 2 or b.dim() != 2:
        raise ValueError(f"matmul: a {tuple(a.shape)} and b {tuple(b.shape)} must be matrices")
    inner, other = a.shape[0 if trans_a else 1], b.shape[1 if trans_b else 0]
    if inner != other:
        raise ValueError(
            f"matmul: the inner sizes of a {tuple(a.shape)} and b {tuple(b.shape)} differ: "
            f"{inner} and {other}, with trans_a={trans_a} and trans_b={trans_b}"
        )
    return bmm(a[None], b[None], trans_a, trans_b)[0]


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
    left = computable(a.mT if transpose_a else a)
    right = computable(b.mT if transpose_b else b)
    out: torch.Tensor = ops.matmul(left, right)
    return out.to(a.dtype)


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
    out: torch.Tensor = ops.relu(x)
    return out


@uses("gelu")
@also_called(input="x")
def gelu(
    x: torch.Tensor, approximate: Literal["none", "tanh"] = "none", **tuning: Any
) -> torch.Tensor:
    """GELU, exact or by tanh, of x or input."""
    out: torch.Tensor = ops.gelu(x, approximate)
    return out


@uses("gelu", "mul")
def geglu(
    input: torch.Tensor, dim: int = -1, approximate: Literal["none", "tanh"] = "none", **tuning: Any
) -> torch.Tensor:
    """gelu(second half) * first half along `dim`."""
    first, second = input.chunk(2, dim)
    out: torch.Tensor = ops.mul(gelu(second, approximate, **tuning), first)
    return out


@uses("transpose")
def transpose(
    inp: torch.Tensor,
    out: torch.Tensor | None = None,
    static_persistent: bool | None = None,
    **tuning: Any,
) -> torch.Tensor:
    """The transpose of a matrix, in memory."""
    made: torch.Tensor = ops.transpose(inp)
    return made if out is None else out.copy_(made)


@uses("linear", "mul")
def linear_gluact_linear(
    input: torch.Tensor,
    weight_act: torch.Tensor,
    weight_noact: torch.Tensor,
    weight2: torch.Tensor,
    act_type: str = "silu",
    kernel_configs: dict[str, Any] | None = None,
) -> torch.Tensor:
    """The gated layer by its three weights: silu, relu, gelu or gelu-tanh of the first, times."""
    if act_type not in _ACTIVATIONS:
        raise ValueError(f"linear_gluact_linear: there is no act_type {act_type!r}")
    gate = ops.linear(input, weight_act, activation=_ACTIVATIONS[act_type])
    out: torch.Tensor = ops.linear(ops.mul(gate, ops.linear(input, weight_noact)), weight2)
    return out


@uses("scaled_grouped_matmul")
def w8a8_block_fp8_matmul(
    A: torch.Tensor,
    B: torch.Tensor,
    As: torch.Tensor,
    Bs: torch.Tensor,
    block_size: list[int] | None = None,
    output_dtype: torch.dtype | None = None,
    use_tma: bool | None = True,
    **tuning: Any,
) -> torch.Tensor:
    """A [..., K] times B [N, K], 8-bit floats with a scale for each block, by default 128 x 128."""
    options = (block_size or [128, 128], output_dtype or torch.float16)
    return unsloth.w8a8_block_fp8_matmul(A, B, As, Bs, *options)
