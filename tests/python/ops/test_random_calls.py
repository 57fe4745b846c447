"""Every operator at random shapes, layouts, dtypes and values against its float64 definition.

Hypothesis draws an edge case of the catalog, other sizes for it, a layout for each tensor and now
and then a NaN or an infinity. The definition takes the same call, or the kernel refuses it as well.
Each call comes again with rows that are padded, which is what kernels that copy in bulk take.
"""

from __future__ import annotations

import math
import os
import re
from typing import Any

import pytest
import tilewright.torch
import torch
from cases import DEVICES, Case, assert_close, results
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st

import tilewright
from tilewright import _schema

OPERATORS = list(_schema.operators().values())
SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 45, 64, 65, 100, 257, 1031, 4099)
MOST = 60_000  # the product of all sizes: the definition is slow
EXAMPLES = int(os.environ.get("TILEWRIGHT_RANDOM_CALLS", "30"))  # for each operator and device
SEED = int(os.environ.get("TILEWRIGHT_RANDOM_SEED", "1"))  # of the calls that are drawn
LEAST = EXAMPLES // 3  # of these that give numbers to compare

# Sizes that others follow from: tables, heads that share a head, lengths that must add up.
KEPT = {
    "attention_paged": {"N", "P", "S", "B", "W", "C", "Hq", "H"},
    "attention_fp8": {"N", "M", "C", "R", "Hq", "H"},
    "attention_varlen": {"N", "M", "C", "Hq", "H"},
    "attention_varlen_backward": {"N", "M", "C", "Hq", "H"},
    "attention": {"Hq", "H"},
    "attention_backward": {"Hq", "H"},
    "linear_attention": {"H", "Hv"},
    "linear_attention_backward": {"H", "Hv"},
    "linear_quantized": {"K"},
    "mla": {"Hq", "H", "D", "G"},
    "mla_paged": {"N", "P", "S", "B", "W", "C", "Hq", "H", "D", "G"},
    "quantize_fp8": {"C"},
    "quantize_int8": {"C"},
    "grouped_matmul_unpermute": {"M", "R"},
    "dequantize": {"M", "N", "A", "B"},
    "dequantize_int4": {"P", "G"},
    "linear_int4": {"P", "G"},
    "linear_int8": {"K", "G"},
    "scaled_grouped_gated_matmul": {"G", "N", "K", "A", "B"},
    "scaled_grouped_matmul": {"G", "N", "K", "A", "B"},
    "scaled_grouped_matmul_unpermute": {"G", "M", "R", "N", "K", "A", "B"},
    "pack_quantized": {"B"},
    "permute": {"R"},
    "rope": {"S", "P", "R", "D"},
}
# Where an order among equals or a rounding decides, a NaN or an infinity decides nothing; and the
# gradient of an infinite loss or score may as well be NaN. The order of a transform's or a
# recurrence's sums decides where an infinity meets its opposite, and the gradients of attention
# multiply blocks: a NaN times the weight 0 of a key that is not seen.
FINITE = (
    "attention_backward",
    "attention_fp8",
    "attention_paged",
    "attention_varlen_backward",
    "cross_entropy_backward",
    "fft",
    "linear_attention_backward",
    "linear_quantized",
    "moe_topk_backward",
    "sample",
    "scaled_grouped_gated_matmul",
    "scaled_grouped_matmul",
    "scaled_grouped_matmul_unpermute",
)
# The sign of the NaN that inf / inf gives is the machine's.
FINITE_ON_GPU = ("quantize_fp8",)
# Of one or two columns these are a difference of nearly equal numbers, of few classes a loss may be
# one, and keys of few dimensions are nearly parallel; a sum of everything may be nearly 0, but not
# those of all columns.
LEAST_SIZES = {
    ("delta_rule_transform", "D"): 16,
    ("fused_linear_cross_entropy", "V"): 16,
    ("layer_norm_backward", "C"): 8,
    ("moe_combine_backward", "C"): 16,
    ("moe_topk_backward", "K"): 2,
    ("rms_norm_backward", "C"): 8,
    ("var_mean_backward", "C"): 8,
}
# In place of MOST: all may be added up in one row.
FEW = {"embedding_backward": 4_000, "moe_combine_backward": 4_000}


class Budget:
    """Draws sizes whose product stays small."""

    def __init__(self, draw: Any, op: str) -> None:
        self._draw, self._left = draw, FEW.get(op, MOST)

    def size(self, least: int = 1) -> int:
        if self._draw(st.integers(0, 29)) == 29:
            return 0
        fitting = [s for s in SIZES if least <= s <= self._left] or [least]
        size = self._draw(st.sampled_from(fitting))
        self._left = max(self._left // size, 1)
        return size

    def shape(self, most: int) -> list[int]:
        return [self.size() for _ in range(self._draw(st.integers(1, most)))]


def drawn_text(draw: Any, op: _schema.Operator) -> str:
    """An edge case with other sizes."""
    _, text = draw(st.sampled_from(op.edge_cases))
    budget, words, shapes = Budget(draw, op.name), [], {}
    for word in text.split():
        name, _, value = word.partition("=")
        if name == "*":
            word = "*=" + "x".join(map(str, budget.shape(3)))
        elif value.startswith("["):
            rank_is_free = op.name not in KEPT and "dim" not in text
            if value not in shapes:
                rank = value.count(",") + 1
                shape = budget.shape(4) if rank_is_free else [budget.size() for _ in range(rank)]
                shapes[value] = (
                    shape if not shapes else broadcast(draw, next(iter(shapes.values())))
                )
            word = f"{name}=[{','.join(map(str, shapes[value]))}]"
        elif re.fullmatch(r"[A-Z][a-z]?", name) and name not in KEPT.get(op.name, ()):
            word = f"{name}={budget.size(LEAST_SIZES.get((op.name, name), 1))}"
        words.append(word)
    return " ".join(words)


def broadcast(draw: Any, shape: list[int]) -> list[int]:
    """A shape that broadcasts to another one."""
    kept = shape[draw(st.integers(0, len(shape) - 1)) :]
    return [draw(st.sampled_from([1, size])) for size in kept]


def laid_out(value: Any, layout: str) -> Any:
    """The same numbers elsewhere in memory."""
    opaque = not isinstance(value, torch.Tensor) or value.dtype == torch.uint8 or value.dim() == 0
    if opaque or layout == "plain":
        return value
    if layout == "gaps":
        wide = value.new_empty([2 * size for size in value.shape])
        return wide[tuple(slice(None, None, 2) for _ in value.shape)].copy_(value)
    if layout == "padded":  # rows begin at multiples of 16 bytes, as bulk copies need
        columns, unit = value.shape[-1], max(16 // value.element_size(), 1)
        wide = value.new_empty([*value.shape[:-1], (columns // unit + 2) * unit])
        return wide[..., :columns].copy_(value)
    if layout == "turned":
        order = list(reversed(range(value.dim())))
        return value.permute(order).contiguous().permute(order)
    if layout == "shifted":
        buffer = value.new_empty(value.numel() + 1)
        return buffer[1:].view(value.shape).copy_(value)
    if not value.is_floating_point() or 0 in value.shape:
        return value
    return value.narrow(0, 0, 1).expand(value.shape)  # "expanded": rows that share memory


LAYOUTS = ("plain", "gaps", "turned", "shifted", "expanded")
DIFFERING = ("var_mean",)  # the variance of equal numbers is the square of a rounding, not 0


def spoil(draw: Any, values: list[Any]) -> None:
    """Puts a special number somewhere."""
    special = draw(st.sampled_from([math.nan, math.inf, -math.inf]))
    for value in values:
        wide = isinstance(value, torch.Tensor) and value.is_floating_point()
        if wide and value.numel() and value.dtype.itemsize > 1:
            value.view(-1)[draw(st.integers(0, value.numel() - 1))] = special
            return


@st.composite
def calls(draw: Any, op: _schema.Operator, device: str) -> tuple[Case, list[Any]]:
    case = Case(op, draw(st.integers(0, len(op.dtypes) - 1)), "drawn", drawn_text(draw, op))
    try:
        values = case.arguments(draw(st.integers(1, 1000)))
    except ValueError:
        assume(False)  # sizes that contradict each other
    finite = FINITE if device == "cpu" else FINITE + FINITE_ON_GPU
    if op.name not in finite and draw(st.integers(0, 3)) == 0:
        spoil(draw, values)
    values = [v.to(device) if isinstance(v, torch.Tensor) else v for v in values]
    layouts = LAYOUTS[:-1] if op.name in DIFFERING else LAYOUTS
    return case, [laid_out(value, draw(st.sampled_from(layouts))) for value in values]


@pytest.mark.parametrize(
    ("op", "device"),
    [(op, device) for device in DEVICES for op in OPERATORS if device == "cpu" or op.on_cuda],
    ids=lambda value: getattr(value, "name", value),
)
def test_agrees_with_the_definition(op: _schema.Operator, device: str) -> None:
    compared = 0

    @seed(SEED)  # not of this function's text
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(calls(op, device))
    def agrees(drawn: tuple[Case, list[Any]]) -> None:
        nonlocal compared
        case, values = drawn
        try:
            want = results(getattr(tilewright.ops, op.name)(*values, backend="reference"))
        except ValueError as refusal:
            if device == "cuda":
                return  # numbers that a CPU refuses are a trap there, which ends the process
            with pytest.raises(ValueError, match=re.escape(str(refusal).split("\n")[0])):
                getattr(torch.ops.tilewright, op.name)(*values)
            return
        for given_values in (values, [laid_out(value, "padded") for value in values]):
            got = results(getattr(torch.ops.tilewright, op.name)(*given_values))
            for g, w in zip(got, want, strict=True):
                assert_close(g, w, 2 * case.tolerance(w.dtype, device))
        compared += any(w.numel() for w in want)

    agrees()
    assert compared >= LEAST, f"{compared} results of {EXAMPLES} have numbers"
