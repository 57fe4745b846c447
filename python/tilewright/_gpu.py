"""What a GPU says of itself."""

from __future__ import annotations

from ctypes import byref
from typing import NamedTuple

from tilewright import _library


class GpuState(NamedTuple):
    """Clocks, power and temperature of a GPU; 0 where it does not tell."""

    sm_mhz: float
    memory_mhz: float
    power_w: float
    power_limit_w: float
    temperature_c: float


def gpu_state(device: int = 0) -> GpuState | None:
    """Clocks, power and temperature of a GPU now, or None where NVML or the GPU is missing.

    It does not wait for the GPU: called while work is queued, it tells the clock under that load.

    Args:
        device: as CUDA numbers GPUs, `torch.device("cuda", device)`.

    Example:
        >>> import tilewright
        >>> state = tilewright.gpu_state()
        >>> state is None or state.power_limit_w >= 0
        True
    """
    told = _library.GpuState()
    if _library.load().tw_cuda_state(device, byref(told)):
        return None
    return GpuState(*(getattr(told, name) for name in GpuState._fields))
