"""The flashinfer suite of TileGym."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.compat._coverage import by_name, refuse
from tilewright.compat.tilegym._flashinfer_products import (
    gemm_alpha_beta,
    masked_bmm,
    per_token_group_quant_8bit,
    ragged_block_scaled_bmm,
    ragged_bmm,
    rope_quantize_fp8,
)

MISSING = by_name(
    {
        "mapping of this module's arguments yet": "decode_attention_kv_paged decode_mla_kv_paged "
        "prefill_attention_kv_paged prefill_attention_kv_ragged",
    }
)


__all__ = [
    "MISSING",
    "gemm_alpha_beta",
    "masked_bmm",
    "per_token_group_quant_8bit",
    "ragged_block_scaled_bmm",
    "ragged_bmm",
    "rope_quantize_fp8",
]


def __getattr__(name: str) -> Callable[..., Any]:
    return refuse(__name__, MISSING, name)
