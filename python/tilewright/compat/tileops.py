"""TileOPs' operators: tensors by position, parameters by name, results in its order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.compat._coverage import by_name, refuse
from tilewright.compat._tileops_activations import *  # noqa: F403
from tilewright.compat._tileops_attention import *  # noqa: F403
from tilewright.compat._tileops_convolutions import *  # noqa: F403
from tilewright.compat._tileops_elementwise import *  # noqa: F403
from tilewright.compat._tileops_norms import *  # noqa: F403
from tilewright.compat._tileops_pools import *  # noqa: F403
from tilewright.compat._tileops_products import *  # noqa: F403
from tilewright.compat._tileops_reductions import *  # noqa: F403
from tilewright.compat._tileops_rope import *  # noqa: F403
from tilewright.compat._tileops_sparse import *  # noqa: F403

MISSING = by_name(
    {
        "pooling by a list of sequences": "mean_pooling",
        "Fourier transform": "fft_c2c",
        "quantization to 8 bits": "fp8_quant",
        "multiplication by 4-bit weights in this layout": "gemm_w4a16",
        "routing to experts": "moe_fused_topk moe_permute_align moe_permute_nopad moe_unpermute",
        "linear attention": "delta_net delta_net_bwd delta_net_decode gated_delta_net_bhtd "
        "gated_delta_net_bthd gated_delta_net_bwd gated_delta_net_decode "
        "gated_delta_net_prefill_bhtd gated_delta_net_prefill_bthd gla gla_bwd gla_decode",
        "state-space model": "cb_producer da_cumsum mamba2 ssd_chunk_scan ssd_chunk_state "
        "ssd_decode ssd_state_passing",
        "gated convolution": "engram_decode engram_gate_conv engram_gate_conv_bwd",
        "hyper-connections": "mhc_post mhc_pre",
    }
)


def __getattr__(name: str) -> Callable[..., Any]:
    return refuse(__name__, MISSING, name)
