"""Calls of every operator, dtype and edge case of the catalog, as PyTorch tensors."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
from typing import Any

import torch
from tilewright._torch import DTYPES

from tilewright import _library, _schema

TOLERANCES = {
    torch.float64: 1e-12,
    torch.float32: 1e-5,
    torch.float16: 1e-3,
    torch.bfloat16: 1.6e-2,
}

_GIVE = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.c_int32,
    ctypes.POINTER(_library.TensorView),
    ctypes.c_char_p,
    ctypes.c_double,
)


@dataclasses.dataclass(frozen=True, repr=False)
class Case:
    """One edge case, or one workload, for one combination of dtypes."""

    op: _schema.Operator
    combo: int
    label: str
    text: str

    def __str__(self) -> str:
        """A name for tests and reports."""
        return "-".join([self.op.name, *self.dtypes, self.label])

    def __repr__(self) -> str:
        """What it takes to build it again."""
        return f"<{self}: {self.text}>"

    @property
    def dtypes(self) -> list[str]:
        """The library's names of the dtypes."""
        return list(self.op.dtypes[self.combo].values())

    @property
    def is_on_cuda(self) -> bool:
        """Whether a GPU has a kernel for it: float64 is mostly that of definitions."""
        return self.op.on_cuda and "f64" not in self.dtypes

    @property
    def is_last(self) -> bool:
        """Whether it is the operator's last edge case: commonly the richest."""
        return self.label == self.op.edge_cases[-1][0]

    @property
    def wants_full(self) -> bool:
        """Whether it asks for optional outputs."""
        optional = [arg.name for arg in self.op.outputs if arg.optional]
        return any(f"+{name}" in self.text.split() for name in optional)

    def arguments(self, seed: int = 1, device: str = "cpu") -> list[Any]:
        """The inputs by position, as torch.ops takes them."""
        out = [arg.default_value for arg in self.op.inputs]

        def give(_user: Any, index: int, view: Any, text: bytes, number: float) -> None:
            arg = self.op.arguments[index]
            if not view:
                out[index] = text.decode() if arg.kind == "text" else _scalar(arg, number)
                return
            tensor = _copy(view.contents, DTYPES[text.decode()]).to(device)
            out[index] = tensor.tolist() if arg.is_int_list else tensor

        op, text = self.op.name.encode(), self.text.encode()
        _built("twt_make_case", op, self.combo, text, ctypes.c_uint64(seed), _GIVE(give), None)
        names = [arg.name for arg in self.op.inputs]
        if "out_features" in names:  # a GPU does not look into what is packed
            sizes = dict(word.split("=") for word in self.text.split() if "=" in word)
            out[names.index("out_features")] = int(sizes["N"])
        return out

    def cost(self) -> tuple[float, float]:
        """Floating-point operations, and bytes read and written."""
        return _cost(self.op.name, self.combo, self.text)

    def tolerance(self, dtype: torch.dtype, device: str = "cpu") -> float:
        """What the comparison with the definition allows."""
        op = self.op
        scale = op.tolerance_scale if device == "cpu" else op.gpu_tolerance_scale
        return TOLERANCES.get(dtype, 0.0) * scale


@functools.cache
def _cost(op: str, combo: int, text: str) -> tuple[float, float]:
    out = (ctypes.c_double * 2)()
    _built("twt_case_cost", op.encode(), combo, text.encode(), out)
    return out[0], out[1]


def _built(function: str, *arguments: Any) -> None:
    """Calls a function of cases.cc; ValueError says why there is no such case."""
    call = getattr(ctypes.CDLL(str(_library.directory() / "tilewright_cases.so")), function)
    call.restype = ctypes.c_char_p
    why_not: bytes | None = call(*arguments)
    if why_not is not None:
        raise ValueError(why_not.decode())


def _scalar(arg: _schema.Argument, number: float) -> Any:
    if arg.kind == "choice":
        return arg.choices[int(number)]
    return {"float": float, "int": int, "bool": bool}[arg.kind](number)


def _copy(view: _library.TensorView, dtype: torch.dtype) -> torch.Tensor:
    shape = view.shape[: view.rank]
    out = torch.empty(shape, dtype=dtype)
    if out.numel():
        ctypes.memmove(out.data_ptr(), view.data, out.numel() * out.element_size())
    return out


def every_workload() -> list[Case]:
    """The shapes real models run, of the whole catalog."""
    return [
        Case(op, combo, label, text)
        for op in _schema.operators().values()
        for combo in range(len(op.dtypes))
        for label, text in op.workloads
    ]


def workload(op: str, label: str) -> Case:
    """The workload of an operator with a label, in its first dtype."""
    return next(
        case
        for case in every_workload()
        if (case.op.name, case.label, case.combo) == (op, label, 0)
    )


def every_case() -> list[Case]:
    """The edge cases of the whole catalog."""
    return [
        Case(op, combo, label, text)
        for op in _schema.operators().values()
        for combo in range(len(op.dtypes))
        for label, text in op.edge_cases
    ]


def has_cpu_kernels() -> bool:
    """A build for GPUs alone has none."""
    try:
        torch.ops.tilewright.exp(torch.ones(1))
    except RuntimeError:
        return False
    return True


def results(value: Any) -> list[torch.Tensor]:
    """A result as a list of tensors."""
    return list(value) if isinstance(value, tuple) else [value]


def overload(case: Case) -> Any:
    """The PyTorch function that returns what it asks for."""
    packet = getattr(torch.ops.tilewright, case.op.name)
    return packet.full if case.wants_full else packet.default


def as_bits(x: torch.Tensor) -> torch.Tensor:
    """Integers that are equal where a tensor is, NaN and signs of zeros included."""
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return x.contiguous().view(kinds[x.dtype.itemsize])


def bits(case: Case, arguments: list[Any]) -> list[torch.Tensor]:
    """The results of a call of it."""
    return [as_bits(r) for r in results(overload(case)(*arguments))]


DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def on_devices(cases: list[Case]) -> list[tuple[Case, str]]:
    """Each on all devices that are here and that it has a kernel for."""
    return [(c, device) for device in DEVICES for c in cases if device == "cpu" or c.is_on_cuda]


_PIECE = 1 << 24  # numbers that are compared at once: the largest results fill the memory otherwise


def _in_pieces(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Rows, as many as a piece holds; of longer ones parts."""
    columns = x.shape[-1] if x.dim() else 1
    if columns > _PIECE:
        return x.reshape(1, -1).split(_PIECE, dim=1)
    return x.reshape(-1, columns).split(_PIECE // columns)


def _squares(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each row's finite elements: the sum of their squares, and how many they are."""
    finite = x.isfinite()
    return torch.where(finite, x, 0).double().square().sum(-1), finite.sum(-1)


def assert_close(got: torch.Tensor, want: torch.Tensor, tolerance: float) -> None:
    """|got - want| <= tolerance * (|want| + rms): what the C++ tests allow at least.

    The rms is that of `want`, or of the element's row where it is larger.
    """
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    if want.dtype.itemsize == 1:
        got, want = got.view(torch.uint8), want.view(torch.uint8)
    if not want.dtype.is_floating_point:
        assert torch.equal(got, want)
        return
    if want.numel() == 0:
        return
    rows = [_squares(exact) for exact in _in_pieces(want)]
    squares = sum(float(of_rows.sum()) for of_rows, _ in rows)
    rms = math.sqrt(squares / max(sum(int(finite.sum()) for _, finite in rows), 1))
    pieces = zip(_in_pieces(got), _in_pieces(want), rows, strict=True)
    for part, exact, (of_rows, finite) in pieces:
        wide, exact = part.double(), exact.double()
        scale = (of_rows / finite.clamp(min=1)).sqrt().clamp(min=rms).unsqueeze(-1)
        close = (wide - exact).abs() <= tolerance * (exact.abs() + scale)
        same = (wide == exact) | (wide.isnan() & exact.isnan())
        largest = (wide - exact).abs().max()
        assert bool((close | same).all()), f"largest difference {largest}"
