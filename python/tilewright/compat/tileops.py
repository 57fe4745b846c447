"""TileOPs' operators: tensors by position, parameters by name, results in its order.

They are classes, too, where TileOPs has them: `tileops.norm.RMSNormFwdOp(normalized_shape)(x, w)`,
`tileops.ops.RMSNormFwdOp`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.compat import _tileops_classes
from tilewright.compat._coverage import by_name, refuse
from tilewright.compat._tileops_activations import *  # noqa: F403
from tilewright.compat._tileops_attention import *  # noqa: F403
from tilewright.compat._tileops_attention_packed import *  # noqa: F403
from tilewright.compat._tileops_attention_states import *  # noqa: F403
from tilewright.compat._tileops_caches import *  # noqa: F403
from tilewright.compat._tileops_convolutions import *  # noqa: F403
from tilewright.compat._tileops_elementwise import *  # noqa: F403
from tilewright.compat._tileops_engram import *  # noqa: F403
from tilewright.compat._tileops_expert_stages import *  # noqa: F403
from tilewright.compat._tileops_experts import *  # noqa: F403
from tilewright.compat._tileops_fft import *  # noqa: F403
from tilewright.compat._tileops_hyper_connections import *  # noqa: F403
from tilewright.compat._tileops_linear_attention import *  # noqa: F403
from tilewright.compat._tileops_norms import *  # noqa: F403
from tilewright.compat._tileops_pools import *  # noqa: F403
from tilewright.compat._tileops_products import *  # noqa: F403
from tilewright.compat._tileops_quantization import *  # noqa: F403
from tilewright.compat._tileops_recurrences import *  # noqa: F403
from tilewright.compat._tileops_reductions import *  # noqa: F403
from tilewright.compat._tileops_rope import *  # noqa: F403
from tilewright.compat._tileops_sampling import *  # noqa: F403
from tilewright.compat._tileops_sparse import *  # noqa: F403
from tilewright.compat._tileops_state_space import *  # noqa: F403
from tilewright.compat._tileops_transforms import *  # noqa: F403

MISSING: dict[str, str] = by_name({})

_tileops_classes.install(__name__, globals())


def __getattr__(name: str) -> Callable[..., Any]:
    return refuse(__name__, MISSING, name)
