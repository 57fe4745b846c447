"""What the card does while a row is measured: clocks drift with its power, and times with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

import tilewright

LOAD_SECONDS = 0.1  # several times as long as NVML's figures are old
MOST_CALLS = 2000  # of a few microseconds, which end as soon as they are issued


def machine() -> dict[str, str]:
    """What results say of the machine."""
    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
            "tilewright": tilewright.__version__}  # fmt: skip


class Timings(dict[str, float]):
    """Seconds by name; `card` is what a row's JSON says of the card: empty without NVML."""

    def __init__(self, seconds: Mapping[str, float] | None = None) -> None:
        """Of a card that has not been asked."""
        super().__init__(seconds or {})
        self.card: dict[str, float] = {}

    def shown(self) -> str:
        """What a printed row says of the card."""
        if not self.card:
            return ""
        return f"  {self.card['clock_mhz']:.0f} MHz {self.card['power_w']:.0f} W"


def measured(seconds: Mapping[str, float], call: Callable[[], Any], call_seconds: float) -> Timings:
    """The seconds, and the card's clock and power while `call` is queued again and again."""
    out = Timings(seconds)
    out.card = under_load(call, call_seconds)
    return out


def under_load(call: Callable[[], Any], seconds: float) -> dict[str, float]:
    """`clock_mhz` and `power_w` while calls of so many seconds run; empty without NVML."""
    count = max(1, min(MOST_CALLS, int(LOAD_SECONDS / max(seconds, 1e-7))))
    begin = time.perf_counter()
    for _ in range(count):
        call()
    issued = time.perf_counter() - begin
    time.sleep(max(0.0, 0.6 * count * seconds - issued))
    state = tilewright.gpu_state(torch.cuda.current_device())
    torch.cuda.synchronize()
    return {} if state is None else {"clock_mhz": state.sm_mhz, "power_w": state.power_w}
