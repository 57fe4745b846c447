"""What torch.autocast does to operators, on whatever backend. Imports PyTorch.

Operators that multiply matrices run in autocast's dtype and losses in float32, as PyTorch's do. To
the others, tensors that must be of one dtype may come in several: they run in the widest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import _C

from tilewright import _schema
from tilewright._schema import Argument, Operator

PRODUCTS = {
    "attention",
    "attention_varlen",
    "fused_experts",
    "gated_linear",
    "grouped_gated_matmul",
    "grouped_matmul",
    "grouped_matmul_unpermute",
    "k_grouped_matmul",
    "linear",
    "matmul",
    "mla",
}
LOSSES = {"cross_entropy"}
_DEVICES = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}
_CAST = {torch.float32, torch.float16, torch.bfloat16}  # neither float64 nor integers


def _is_cast(arg: Argument, value: Any) -> bool:
    of_variable = arg.type[0].isupper() or arg.type == "f32"
    return of_variable and isinstance(value, torch.Tensor) and value.dtype in _CAST


def _casts(op: Operator, given: Sequence[Any], lower: torch.dtype) -> list[Any]:
    """Arguments as the operator takes them."""
    wanted: dict[str, torch.dtype] = {"f32": torch.float32}
    if op.name in LOSSES:
        lower = torch.float32
    for arg, value in zip(op.inputs, given, strict=False):
        if _is_cast(arg, value) and arg.type != "f32":
            widest = torch.promote_types(wanted.get(arg.type, value.dtype), value.dtype)
            wanted[arg.type] = lower if op.name in PRODUCTS | LOSSES else widest
    return [
        value.to(wanted[arg.type]) if _is_cast(arg, value) else value
        for arg, value in zip(op.inputs, given, strict=False)
    ]


def _active_on(given: Sequence[Any]) -> str:
    """The kind of device of a call if autocast is on there."""
    device: str = next(v for v in given if isinstance(v, torch.Tensor)).device.type
    return device if device in _DEVICES and torch.is_autocast_enabled(device) else ""


def cast(op: Operator, given: list[Any]) -> list[Any]:
    """Arguments as the operator takes them, of a call that something else than a kernel answers."""
    device = _active_on(given)
    return _casts(op, given, torch.get_autocast_dtype(device)) if device else given


def composite(function: Callable[..., Any], given: list[Any]) -> Any:
    """What PyTorch computes of arguments that have been cast, without casting more."""
    if not (device := _active_on(given)):
        return function(*given)
    with torch.autocast(device, enabled=False):
        return function(*given)


def _kernel(op: Operator, overload: Any, device: str, key: str) -> Callable[..., Any]:
    keys = _C.DispatchKeySet(getattr(_C.DispatchKey, key))

    def kernel(*given: Any) -> Any:
        lower = torch.get_autocast_dtype(device)
        with _C._ExcludeDispatchKeyGuard(keys):
            return overload(*_casts(op, given, lower))

    return kernel


def register(library: Any) -> None:
    """Tells autocast of the operators, through a torch.library.Library of theirs."""
    for op in _schema.operators().values():
        packet = getattr(torch.ops.tilewright, op.name)
        for name in packet.overloads():
            if name == "out":  # of which the dtype is given
                continue
            overload = getattr(packet, name)
            full_name = op.name if name == "default" else f"{op.name}.{name}"
            for device, key in _DEVICES.items():
                library.impl(full_name, _kernel(op, overload, device, key), key)
