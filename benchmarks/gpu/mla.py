"""Multi-head latent attention in decoding beside matrix products of PyTorch on a GPU.

    python benchmarks/gpu/mla.py [--out FILE] [--dtype bf16|f16] [FILTER ...]

Keys have 512 latent dims, which are the values, too, and 64 rotated ones; one cache row holds both.
In a cache of 8 bits the latent dims are e4m3 with a scale for each 128, beside rotated ones of 16.
Every row checks sampled rows of our output against float64, then times ours and the peer in turn on
the same random data. Rates count useful work only: 2 (576 + 512) flops for every pair of a query
row and a key.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import tilewright.torch  # noqa: F401
import torch
from attention import Call, arguments, in_turns, run
from card import Timings

OPS = torch.ops.tilewright
LATENT, ROTATED, SAMPLES = 512, 64, 16
PARTS = 4  # of the latent dims, that have a scale each where these are of 8 bits
PAGES = {"paged": 64, "lists": 1}  # keys of a page; lists pick them one by one
TOLERANCE = 2e-2  # of the root mean square of the outputs, beside 1 % of the element


@dataclass
class Row:
    """One shape; `layout` is dense or one of PAGES."""

    name: str
    batch: int
    heads: int
    keys: int
    queries: int = 1
    layout: str = "dense"
    bits: int = 16  # of a latent dim in the cache
    timings: Timings = field(default_factory=Timings)

    def flops(self) -> float:
        """Of both products."""
        pairs = self.batch * self.queries * self.keys * self.heads
        return 2.0 * pairs * (2 * LATENT + ROTATED)

    def bytes(self) -> float:
        """Of the cache."""
        scales = 4 * PARTS if self.bits == 8 else 0
        return self.batch * self.keys * (LATENT * self.bits / 8 + scales + 2.0 * ROTATED)


def _rows() -> Iterator[Row]:
    for layout in ("dense", "paged"):
        for batch, keys in ((32, 8192), (64, 4096), (128, 4096), (1, 65536), (128, 1024)):
            yield Row(f"h128 B{batch} S{keys} {layout}", batch, 128, keys, layout=layout)
    for batch in (32, 128, 1024):
        yield Row(f"h128 B{batch} S2048 lists", batch, 128, 2048, layout="lists")
    yield Row("h128 B1024 S2048 paged", 1024, 128, 2048, layout="paged")
    for batch, keys, layout in (
        (32, 8192, "dense"), (128, 4096, "paged"), (1, 65536, "paged"), (1024, 2048, "lists"),
    ):  # fmt: skip
        name = f"h128 B{batch} S{keys} {layout}, 8 bits"
        yield Row(name, batch, 128, keys, layout=layout, bits=8)
    yield Row("h16 B64 S4096, 8 bits", 64, 16, 4096, bits=8)
    yield Row("h128 B64 S4096 two queries", 64, 128, 4096, queries=2)
    yield Row("h16 B64 S4096", 64, 16, 4096)
    yield Row("h64 B64 S8192", 64, 64, 8192)


def _tensors(row: Row, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries, and a cache of one head."""
    width, options = LATENT + ROTATED, {"device": "cuda", "dtype": dtype}
    q = torch.randn(row.batch, row.queries, row.heads, width, **options)
    cache = torch.randn(row.batch, row.keys, 1, width, **options)
    if row.bits == 8:
        codes, scales = _quantized(cache[..., :LATENT])
        cache[..., :LATENT] = (codes.float().view(*scales.shape, -1) * scales[..., None]).flatten(3)
    return q, cache


def _quantized(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As e4m3 times powers of two: numbers that are the same again after it."""
    parts = x.float().unflatten(-1, (PARTS, -1))
    scales = torch.exp2(torch.ceil(torch.log2(parts.abs().amax(-1) / 448)))
    return (parts / scales[..., None]).flatten(3).to(torch.float8_e4m3fn), scales


def _parts(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x[..., :LATENT], x[..., LATENT:]


def _scale() -> float:
    return 1 / math.sqrt(LATENT + ROTATED)


def _cached(row: Row, cache: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
    """Latent dims, rotated ones, and the scales if there are any."""
    latents, rotated = _parts(cache)
    if row.bits == 16:
        return latents, rotated, {}
    codes, scales = _quantized(latents)
    return codes, rotated.contiguous(), {"ckv_scale": scales}


def _ours(row: Row, q: torch.Tensor, cache: torch.Tensor) -> Call:
    if row.layout == "dense":
        latents, rotated, scales = _cached(row, cache)
        return lambda: OPS.mla(*_parts(q), latents, rotated, **scales)
    page = PAGES[row.layout]
    count = row.batch * row.keys // page
    order = torch.randperm(count, device="cuda")
    pages = torch.empty_like(cache).view(count, page, 1, -1)
    pages[order] = cache.view_as(pages)
    table = order.to(torch.int32).view(row.batch, -1)
    lens = torch.full((row.batch,), row.keys, device="cuda", dtype=torch.int32)
    latents, rotated, scales = _cached(row, pages)
    queries = _parts(q.flatten(0, 1))
    return lambda: OPS.mla_paged(*queries, latents, rotated, table, lens, **scales)


def ours_of(name: str) -> Call:
    """Our call of the row of that name, in bf16."""
    row = next(row for row in _rows() if row.name == name)
    return _ours(row, *_tensors(row, torch.bfloat16))


def _products(q: torch.Tensor, cache: torch.Tensor) -> Call:
    """By cuBLAS, with the weights in memory."""
    queries, keys = q.flatten(1, 2), cache[:, :, 0]

    def call() -> torch.Tensor:
        weights = torch.softmax(queries @ keys.mT * _scale(), -1, dtype=torch.float32)
        return weights.to(q.dtype) @ keys[..., :LATENT]

    return call


def _check(row: Row, out: torch.Tensor, q: torch.Tensor, cache: torch.Tensor) -> None:
    """Compares sampled rows with float64."""
    out = out.view(row.batch, row.queries, row.heads, LATENT)
    generator = torch.Generator().manual_seed(1)
    for _ in range(SAMPLES):
        b, s, h = (
            int(torch.randint(n, (), generator=generator))
            for n in (row.batch, row.queries, row.heads)
        )
        keys = cache[b, :, 0].double()
        want = torch.softmax(keys @ q[b, s, h].double() * _scale(), 0) @ keys[:, :LATENT]
        error = (out[b, s, h].double() - want).abs()
        allowed = 1e-2 * want.abs() + TOLERANCE * want.pow(2).mean().sqrt()
        if not bool((error <= allowed).all()):
            raise AssertionError(f"{row.name}: row {(b, s, h)} differs by {float(error.max())}")


def _measure(row: Row, dtype: torch.dtype) -> None:
    q, cache = _tensors(row, dtype)
    ours = _ours(row, q, cache)
    _check(row, ours(), q, cache)
    peers = {"products": partial(_products, q, cache)}
    row.timings = in_turns(ours, peers, most=50, seconds=4e-3)


def _describe(row: Row) -> dict[str, Any]:
    rates = {name: row.flops() * 1e-12 / seconds for name, seconds in row.timings.items()}
    bandwidth = row.bytes() * 1e-12 / row.timings["ours"]
    text = "  ".join(f"{name} {rate:7.0f}" for name, rate in rates.items())
    print(f"{row.name:28} TFLOP/s {text}   {bandwidth:.2f} TB/s{row.timings.shown()}", flush=True)
    shape = {key: value for key, value in vars(row).items() if key != "timings"}
    return {**shape, "seconds": row.timings, "unit": "TFLOP/s", "rates": rates,
            "bytes": row.bytes()}  # fmt: skip


def main() -> None:
    """Measures what the command line asks for."""
    run(arguments(__doc__), _rows(), _measure, _describe)


if __name__ == "__main__":
    main()
