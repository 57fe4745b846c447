"""The unsloth suite of TileGym."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch

from tilewright import ops as catalog
from tilewright.compat._coverage import by_name, refuse
from tilewright.compat._quantization import block_of, scaled_product
from tilewright.compat._tensors import tensor
from tilewright.compat.tilegym._backends import uses
from tilewright.compat.tilegym._norms import shifted_rms_norm

MISSING: dict[str, str] = by_name({})


def __getattr__(name: str) -> Callable[..., Any]:
    return refuse(__name__, MISSING, name)


@uses("gelu", "mul")
def geglu_exact_forward(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """gelu(gate) * up, by erf."""
    out: torch.Tensor = catalog.mul(catalog.gelu(gate), up)
    return out


@uses("gelu", "mul")
def geglu_approx_forward(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """gelu(gate) * up, by tanh."""
    out: torch.Tensor = catalog.mul(catalog.gelu(gate, "tanh"), up)
    return out


@uses("swiglu")
def swiglu_fg(e: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """silu(e) * g."""
    out: torch.Tensor = catalog.swiglu(e, g)
    return out


@uses("rms_norm")
def rms_layernorm(
    X: torch.Tensor, W: torch.Tensor, eps: float = 1e-6, gemma: bool = False
) -> torch.Tensor:
    """RMS normalization over the last dimension; times W + 1 for Gemma."""
    return shifted_rms_norm(X, W, eps, 1.0 if gemma else 0.0)


@uses("rope")
def rope_embedding(Q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Q [B, S, H, D] rotated by tables [S, D / 2]."""
    out: torch.Tensor = catalog.rope(Q, cos.float(), sin.float())
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
    q, k = (catalog.rope(x.transpose(1, 2), *tables).transpose(1, 2) for x in (Q, K))
    return q.contiguous(), k.contiguous()


@uses("layer_norm")
def layernorm(X: torch.Tensor, W: torch.Tensor, b: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Layer normalization over the last dimension."""
    out: torch.Tensor = catalog.layer_norm(X, W, b, eps)
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
    gate_grad, up_grad = catalog.swiglu_backward(DW, e, g)
    return _overwrite((DW, e, g), catalog.swiglu(e, g), up_grad, gate_grad)


def _geglu_backward(
    DW: torch.Tensor, e: torch.Tensor, g: torch.Tensor, approximate: Literal["none", "tanh"]
) -> Overwritten:
    gate = catalog.gelu(e, approximate)
    gate_grad = catalog.gelu_backward(catalog.mul(DW, g), e, approximate)
    return _overwrite((DW, e, g), catalog.mul(gate, g), catalog.mul(DW, gate), gate_grad)


@uses("gelu", "gelu_backward", "mul")
def geglu_exact_backward(DW: torch.Tensor, e: torch.Tensor, g: torch.Tensor) -> Overwritten:
    """Writes gelu(e) * g to DW, the gradient of g to e, and that of e to g; by erf."""
    return _geglu_backward(DW, e, g, "none")


@uses("gelu", "gelu_backward", "mul")
def geglu_approx_backward(DW: torch.Tensor, e: torch.Tensor, g: torch.Tensor) -> Overwritten:
    """Writes gelu(e) * g to DW, the gradient of g to e, and that of e to g; by tanh."""
    return _geglu_backward(DW, e, g, "tanh")


@uses("quantize_fp8")
def act_quant(x: torch.Tensor, block_size: int = 128) -> tuple[torch.Tensor, torch.Tensor]:
    """X as 8-bit floats, and the scale of each block of columns."""
    codes, scale = catalog.quantize_fp8(x, block_size, 0.0)
    return codes, scale


@uses("dequantize")
def weight_dequant(
    x: torch.Tensor, s: torch.Tensor, block_size: int = 128, dtype: torch.dtype = torch.bfloat16
) -> torch.Tensor:
    """Blocks of x [M, N] times their scale."""
    block_m, block_n = (block_of(x.shape[d], s.shape[d], block_size) for d in (0, 1))
    return tensor(catalog.dequantize(x, s.float(), block_m, block_n)).to(dtype)


@uses("scaled_grouped_matmul")
def w8a8_block_fp8_matmul(
    A: torch.Tensor,
    B: torch.Tensor,
    As: torch.Tensor,
    Bs: torch.Tensor,
    block_size: list[int] | None = None,
    output_dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """A [..., K] times B [N, K], 8-bit floats with a scale for each block."""
    block = None if block_size is None else (block_size[0], block_size[1])
    rows, scales = A.reshape(-1, A.shape[-1]), As.reshape(-1, As.shape[-1])
    made = scaled_product(rows, B[None], scales, Bs[None], None, block)
    return made.view(*A.shape[:-1], len(B)).to(output_dtype)


@uses("grouped_matmul", "embedding", "mul")
def grouped_gemm(
    X: torch.Tensor,
    W: torch.Tensor,
    m_sizes: torch.Tensor,
    topk: int,
    gather_indices: torch.Tensor | None = None,
    permute_x: bool = False,
    permute_y: bool = False,
    topk_weights: torch.Tensor | None = None,
    fuse_mul_post: bool = False,
    is_first_gemm: bool = True,
) -> torch.Tensor:
    """Rows in groups of m_sizes, each times its expert's matrix of W [E, N, K].

    permute_x: rows are those of the tokens gather_indices / topk; permute_y: row i of the result
    is stored as row gather_indices[i].
    """
    rows = X.reshape(-1, X.shape[-1])
    matrices = W.reshape(len(m_sizes), -1, rows.shape[1])
    if (permute_x or permute_y) and gather_indices is None:
        raise ValueError("grouped_gemm: a permutation needs gather_indices")
    if permute_x and gather_indices is not None:
        rows = catalog.embedding(rows, gather_indices // topk)
    made = catalog.grouped_matmul(rows, matrices.mT, m_sizes.cumsum(0).to(torch.int32))
    if permute_y and gather_indices is not None:
        made = catalog.embedding(made, gather_indices.argsort())
    if fuse_mul_post and topk_weights is not None:
        made = catalog.mul(made, topk_weights.to(made.dtype).reshape(-1, 1))
    return tensor(made)


@uses("scale", "tanh", "cross_entropy")
def cross_entropy_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    logit_softcapping: float = 0,
    logit_scaling: float = 0,
    n_items: int | torch.Tensor | None = None,
) -> torch.Tensor:
    """The loss of logits [B, S, V], in float32, over n_items or the labels that are not -100."""
    rows, target = logits.reshape(-1, logits.shape[-1]).float(), labels.reshape(-1)
    if logit_scaling:
        rows = catalog.scale(rows, logit_scaling)
    if logit_softcapping:
        rows = catalog.scale(
            catalog.tanh(catalog.scale(rows, 1 / logit_softcapping)), logit_softcapping
        )
    total: torch.Tensor = catalog.cross_entropy(rows, target, -100, "sum")
    return total / ((target != -100).sum() if n_items is None else n_items)
