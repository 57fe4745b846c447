"""Attention of e4m3 beside ours of bf16 on the same numbers; PyTorch has none of 8 bits.

    python benchmarks/gpu/attention_fp8.py [--out FILE] [--dtype bf16|f16] [FILTER ...]

Queries, keys and values are normal numbers in e4m3, a scale for each sequence and head. Every row
checks sampled rows of the output against float64 of the numbers that these stand for, and that a
second call gives the same bits, then times both in turn, as attention.py does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import tilewright.torch  # noqa: F401
import torch
from attention import OPS, Call, Row, arguments, in_turns, run, square_rows
from attention_backward import describe

SAMPLES = 48
TOLERANCE = 6e-2  # of the norm of an output's row: weights are rounded by up to 2^-4
LARGEST = 448  # of e4m3


def _rows() -> Iterator[Row]:
    yield from square_rows()
    yield Row("GQA 32/8 S4096 causal", 2, 4096, 4096, 32, 8, 128, True)


def _narrow(row: Row, heads: int, kv_heads: int) -> tuple[torch.Tensor, ...]:
    """Numbers in e4m3, the scales of sequences and heads of keys, and what they stand for."""
    shape = (row.batch, row.queries, kv_heads, heads // kv_heads, row.dims)
    x = torch.randn(shape, device="cuda")
    scale = x.abs().amax((1, 3, 4)) / LARGEST
    factor = scale[:, None, :, None, None]
    codes = (x / factor).to(torch.float8_e4m3fn)
    flat = (row.batch, row.queries, heads, row.dims)
    return codes.view(flat), scale, (codes.float() * factor).view(flat)


def _check(row: Row, call: Call, wide: list[torch.Tensor]) -> None:
    out = call()
    if not torch.equal(out.view(torch.int16), call().view(torch.int16)):
        raise AssertionError(f"{row.name}: two calls differ")
    out = out.view(row.batch, row.queries, row.heads, row.dims)
    generator, (q, k, v) = torch.Generator().manual_seed(1), wide
    for i in range(SAMPLES):
        b, s, h = (
            int(torch.randint(n, (), generator=generator))
            for n in (row.batch, row.queries, row.heads)
        )
        s = {0: 0, 1: row.queries - 1}.get(i, s)
        end, kv = s + 1 if row.causal else row.keys, h * row.kv_heads // row.heads
        keys, values = (x[b, :end, kv].double() for x in (k, v))
        weights = torch.softmax(keys @ q[b, s, h].double() / math.sqrt(row.dims), 0)
        want = weights @ values
        error = float((out[b, s, h].double() - want).norm() / want.norm())
        if not error <= TOLERANCE:
            raise AssertionError(f"{row.name}: row {(b, s, h)} differs by {error:.2e} of its norm")


def _measure(row: Row, dtype: torch.dtype) -> None:
    sizes = [(row.heads, row.kv_heads), (row.kv_heads, row.kv_heads), (row.kv_heads, row.kv_heads)]
    narrow = [_narrow(row, *of) for of in sizes]
    codes, scales, wide = ([x[i] for x in narrow] for i in range(3))
    packed = [x.flatten(0, 1) for x in codes]
    at = torch.arange(row.batch + 1, device="cuda", dtype=torch.int32) * row.queries
    same = [x.to(dtype) for x in wide]

    def ours() -> torch.Tensor:
        return OPS.attention_fp8(*packed, at, at, *scales, causal=row.causal)

    _check(row, ours, wide)
    peers = {"16 bits": lambda: lambda: OPS.attention(*same, causal=row.causal)}
    row.timings = in_turns(ours, peers, most=50, seconds=4e-3)


def main() -> None:
    """Measures what the command line asks for."""
    run(arguments(__doc__), _rows(), _measure, describe)


if __name__ == "__main__":
    main()
