"""What the machine needs for a call at least, by rates that were measured."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import torch
from cases import Case
from gpu_tables import ARITHMETIC
from gpu_tables import LIMITS as GPU_LIMITS
from operands import dtype_of, is_from_memory, last_cache

import tilewright

MOSTLY_READ = 0.1  # what writes less than this of its bytes may reach the rate of a read


@dataclasses.dataclass(frozen=True)
class Work:
    """What a call, or one with its gradients, has to do."""

    case: Case
    flops: float
    bytes: float  # read and written
    copies: int  # of the arguments, which are called in turn
    written: float  # bytes

    def from_memory(self, env: dict[str, Any], backend: str) -> bool:
        """Whether nothing can have stayed in the last cache: else memory is no limit."""
        return is_from_memory(self.bytes, self.copies, last_cache(env, backend))

    @property
    def is_read(self) -> bool:
        """Whether it writes next to nothing."""
        return self.written < MOSTLY_READ * self.bytes


@functools.cache
def environment(tool: Path, threads: int | None = None) -> dict[str, Any]:
    """What the tool knows of the machine, with the rates of so many threads; nothing without it."""
    count = {} if threads is None else {"TILEWRIGHT_NUM_THREADS": str(threads)}
    try:
        shown = subprocess.run(
            [tool, "env", "--json"], capture_output=True, text=True, check=True,
            env={**os.environ, **count},
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return {}
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def seconds(work: Work, env: dict[str, Any], threads: int, backend: str) -> float | None:
    """The least that it takes; None where no rates are known, or there is nothing to do."""
    if backend == "cuda":
        card = _card()
        return _on_gpu(work, env, card) if card else None
    return _on_cpu(work, env, threads) if env.get("rates") else None


def rates_of(
    work: Work, spent: float, env: dict[str, Any], threads: int, backend: str
) -> dict[str, float]:
    """How fast a call has been that took so many seconds, also as a part of what can be."""
    found = {"gflops": work.flops / spent * 1e-9, "gbs": work.bytes / spent * 1e-9}
    least = seconds(work, env, threads, backend)
    return found if least is None else {**found, "fraction_of_limit": least / spent}


def _on_cpu(work: Work, env: dict[str, Any], threads: int) -> float | None:
    rates = env["rates"]
    if "u8" in work.case.dtypes:
        rate = max(rates["int8_dot_gops"], rates["int8_tile_gops"])
    elif dtype_of(work.case) == "bf16":
        rate = max(rates[f"{kind}_gflops"] for kind in ("f32_fma", "bf16_dot", "bf16_tile"))
    else:
        rate = rates["f32_fma_gflops"]
    least = work.flops / (rate * 1e9 * threads) if rate else 0.0
    if work.from_memory(env, "cpu"):
        bandwidth = rates["dram_read_all_gbs" if work.is_read else "dram_copy_gbs"]
        least = max(least, work.bytes / (bandwidth * 1e9))
    return least or None


@functools.cache
def _card() -> dict[str, Any]:
    """Rates of the GPU, if it is the one that they were measured on."""
    gpu = json.loads(GPU_LIMITS.read_text())["gpu"]
    rates: dict[str, Any] = gpu["limits"]
    return rates if gpu["name"] == torch.cuda.get_device_name() else {}


def _on_gpu(work: Work, env: dict[str, Any], card: dict[str, Any]) -> float | None:
    dtype = dtype_of(work.case)
    if dtype == "f32" and tilewright.get_float32_matmul_precision() == "high":
        dtype = "tf32"
    least = 0.0
    if dtype in ARITHMETIC:
        least = work.flops / (card[ARITHMETIC[dtype]]["value"] * 1e12)
    if work.from_memory(env, "cuda"):
        memory = "read memory" if work.is_read else "copy memory (read + written)"
        least = max(least, work.bytes / (card[memory]["value"] * 1e9))
    return least or None
