"""TileGym's gated delta rule: tensors are [B, T, H, D], states float32."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.compat._coverage import uses
from tilewright.compat._linear_attention import attend, gates, normalized
from tilewright.compat.tilegym._backends import backend_of


@uses("linear_attention", "rms_norm")
def recurrent_gated_delta_rule(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    **tuning: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The gated delta rule, queries divided by sqrt(D); the last state, if wanted."""
    if use_qk_l2norm_in_kernel:
        query, key = normalized(query), normalized(key)
    gate = gates(g, query, value.shape[2])
    backend = backend_of(tuning)
    out, last = attend(query, key, value, gate, beta, initial_state, backend=backend)
    return out, last if output_final_state else None


@uses("linear_attention", "rms_norm")
def chunk_gated_delta_rule(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    chunk_size: int = 64,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    **tuning: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """As recurrent_gated_delta_rule: the chunks change nothing."""
    return recurrent_gated_delta_rule(
        query,
        key,
        value,
        g,
        beta,
        initial_state,
        output_final_state,
        use_qk_l2norm_in_kernel,
        **tuning,
    )
