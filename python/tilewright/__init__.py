"""tilewright: tile kernels for CPUs and GPUs, from Python with or without PyTorch.

`tilewright.ops` holds the operators as functions; `import tilewright.torch` makes them
`torch.ops.tilewright.*` as well. Importing this module loads neither PyTorch nor the library.
"""

from __future__ import annotations

from tilewright import ops
from tilewright._explain import Record, explain
from tilewright._gpu import GpuState, gpu_state
from tilewright._precision import get_float32_matmul_precision, set_float32_matmul_precision
from tilewright.backends import (
    get_available_backends,
    get_available_backends_for_op,
    get_current_backend,
    register_impl,
    registered_impls,
    set_backend,
    unregister_impl,
    use_backend,
)

__version__ = "0.1.0"

__all__ = [
    "GpuState",
    "Record",
    "__version__",
    "explain",
    "get_available_backends",
    "get_available_backends_for_op",
    "get_current_backend",
    "get_float32_matmul_precision",
    "gpu_state",
    "ops",
    "register_impl",
    "registered_impls",
    "set_backend",
    "set_float32_matmul_precision",
    "unregister_impl",
    "use_backend",
]
