"""TileGym's mixtures of experts and hyper-connections."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import ops
from tilewright.compat._experts import align, block_experts, rows
from tilewright.compat._quantization import scaled_product
from tilewright.compat._tensors import tensor
from tilewright.compat.tilegym._backends import uses

_GATED = {"swiglu": "silu", "geglu": "gelu", "reglu": "relu"}
_PLAIN = ("silu", "gelu", "relu")

Alignment = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


@uses("moe_align")
def moe_align_block_size(
    topk_ids: torch.Tensor, block_size: int, num_experts: int, **_tuning: Any
) -> Alignment:
    """Entries by expert in blocks, blocks' experts, how many, where parts begin, the most."""
    counts, offsets, order, _ = align(topk_ids, num_experts, block_size)
    begins = torch.nn.functional.pad(offsets, (1, 0))
    blocks = block_experts(offsets, len(order), block_size)
    return order, blocks, begins[-1:].clone(), begins, counts.amax(0, keepdim=True)


@uses("moe_align", "embedding", "grouped_matmul", "scaled_grouped_matmul", "mul")
def invoke_fused_moe_kernel(
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    A_scale: torch.Tensor | None,
    B_scale: torch.Tensor | None,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    sorted_token_ids: torch.Tensor,
    expert_ids: torch.Tensor,
    num_tokens_post_padded: torch.Tensor,
    mul_routed_weight: bool,
    top_k: int,
    config: dict[str, Any] | None,
    compute_type: Any,
    use_fp8_w8a8: bool,
    use_int8_w8a16: bool = False,
    block_shape: list[int] | None = None,
    **_tuning: Any,
) -> None:
    """Writes to C [M, top-k, N] each token's row of A times its experts' matrices B [E, N, K]."""
    _, offsets, order, positions = align(topk_ids, len(B))
    tokens = order // top_k
    x = rows(A, tokens)
    if use_fp8_w8a8 and A_scale is not None and B_scale is not None:
        block = None if block_shape is None else (block_shape[0], block_shape[1])
        made = scaled_product(x, B, rows(A_scale.float(), tokens), B_scale, offsets, block)
    else:
        kind = torch.bfloat16 if C.dtype == torch.bfloat16 else C.dtype
        weights = B.to(kind)
        if use_int8_w8a16 and B_scale is not None:
            weights = ops.mul(weights, B_scale.to(kind).reshape(len(B), -1, 1))
        made = ops.grouped_matmul(x.to(kind), weights.mT, offsets)
    back = ops.embedding(made, positions.flatten())
    if mul_routed_weight:
        back = ops.mul(back, topk_weights.to(back.dtype).reshape(-1, 1))
    C.view(-1, C.shape[-1]).copy_(back)


def _activated(h: torch.Tensor, kind: str) -> torch.Tensor:
    """What an expert makes of its first product, gates first where there are any."""
    if kind == "relu_sq":
        return tensor(ops.mul(ops.relu(h), ops.relu(h)))
    if kind in _PLAIN:
        return tensor(getattr(ops, kind)(h))
    if kind not in _GATED:
        known = ", ".join((*_GATED, *_PLAIN, "relu_sq"))
        raise ValueError(f"moe_actgrad_bwd: activation_type {kind!r} is none of {known}")
    gate, up = h.chunk(2, -1)
    return tensor(ops.mul(getattr(ops, _GATED[kind])(gate), up))


@uses("grouped_matmul", "mul", "sum", "silu", "gelu", "relu")
def moe_actgrad_bwd(
    dout: torch.Tensor,
    h: torch.Tensor,
    w2: torch.Tensor,
    dh: torch.Tensor,
    ds: torch.Tensor,
    b2: torch.Tensor | None,
    db2: torch.Tensor | None,
    a_prime: torch.Tensor,
    topk_scores: torch.Tensor,
    expert_frequency_offset: torch.Tensor,
    x_gather_idx: torch.Tensor,
    s_scatter_idx: torch.Tensor,
    activation_type: str,
    max_tokens_per_expert: int | None = None,
    *,
    kernel_configs: dict[str, Any] | None = None,
) -> None:
    """The gradients of experts' activations, by expert: of h into dh, and of the scores into ds.

    The activations times their scores go into a_prime; w2 is [E, I, H], and dout [T, H].
    """
    scores = topk_scores.float()[s_scatter_idx.long()][:, None]
    offsets = expert_frequency_offset[1:].int().contiguous()
    grad = ops.grouped_matmul(rows(dout.float(), x_gather_idx), w2.float().mT, offsets)
    with torch.enable_grad():
        leaf = h.detach().float().requires_grad_()
        made = _activated(leaf, activation_type)
        dh.copy_(torch.autograd.grad(made, leaf, ops.mul(grad, scores))[0])
    a_prime.copy_(ops.mul(made.detach(), scores))
    ds.copy_(ops.sum(ops.mul(grad, made.detach())))


@uses("fused_experts")
def fused_moe(
    hidden_states: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    **_tuning: Any,
) -> torch.Tensor:
    """Each token's experts, w1 [E, 2 F, H] with the gate first and w2 [E, H, F], added up."""
    kind = hidden_states.dtype
    result = torch.bfloat16 if kind == torch.bfloat16 else torch.float16
    if kind.itemsize == 1:
        hidden_states, w1, w2 = (t.to(result) for t in (hidden_states, w1, w2))
    weights, ids = topk_weights.float(), topk_ids.to(torch.int32)
    return tensor(ops.fused_experts(hidden_states, w1, w2, weights, ids)).to(result)


@uses("matmul", "reduce", "mul", "add", "sigmoid")
def mhc_gemm_rms_scale(
    x: torch.Tensor,
    w: torch.Tensor,
    n: int,
    alpha_pre: float,
    alpha_post: float,
    alpha_res: float,
    bias: torch.Tensor,
    **_tuning: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What mixes n residual streams, by x [M, K] and w [K, n n + 2 n]; and the size of x's rows."""
    wide = x.float()
    size = ops.reduce(wide, "norm2")[:, None] * x.shape[1] ** -0.5
    mixing = ops.matmul(wide[None], w.float()[None])[0]
    sizes = [n, n, mixing.shape[1] - 2 * n]
    alphas = (alpha_pre, alpha_post, alpha_res)
    factors = [mixing.new_full((c,), a) for c, a in zip(sizes, alphas, strict=True)]
    scaled = ops.mul(mixing, torch.cat(factors) / size)
    pre, post, res = torch.split(ops.add(scaled, bias.float().expand_as(scaled)), sizes, 1)
    post = ops.scale(ops.sigmoid(post), 2.0)
    return torch.cat([ops.sigmoid(pre), post, res], 1).to(bias.dtype), size


@uses("sinkhorn")
def mhc_sinkhorn(y: torch.Tensor, n: int, **_tuning: Any) -> torch.Tensor:
    """Overwrites the last n n columns of y by matrices whose rows and columns sum to one."""
    y = y.contiguous()
    part = y[:, 2 * n : 2 * n + n * n]
    part.copy_(ops.sinkhorn(part.reshape(len(y), n, n)).flatten(1))
    return y


@uses("matmul", "mul", "add")
def mhc_apply_residual(
    x: torch.Tensor, f_out: torch.Tensor, y: torch.Tensor, n: int, **_tuning: Any
) -> torch.Tensor:
    """The streams x [B, n C], mixed by y, plus the layer's output times each one's weight."""
    post, res = y[:, n : 2 * n].float(), y[:, 2 * n : 2 * n + n * n].float()
    mixed = ops.matmul(res.reshape(-1, n, n), x.float().view(len(x), n, -1))
    spread = ops.mul(post[:, :, None], f_out.float()[:, None])
    return tensor(ops.add(mixed, spread)).flatten(1).to(x.dtype)
