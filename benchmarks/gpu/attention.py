"""Attention beside PyTorch's cuDNN and flash kernels on a GPU.

    python benchmarks/gpu/attention.py [--out FILE] [--dtype bf16|f16] [FILTER ...]

Every row checks sampled rows of our output against float64, then times ours and the peers in turn
on the same random data. Rates count useful work only: 2 (D + Dv) flops for every pair of a query
and a key that it sees. Decoding is measured by the bytes of the keys and values, as a fraction of
what a copy on the device moves.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import tilewright.torch  # noqa: F401
import torch
import torch.nn.functional as F
from card import Timings, measured
from torch.nn.attention import SDPBackend, sdpa_kernel

OPS = torch.ops.tilewright
PEERS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
MASKED = {"cudnn": SDPBackend.CUDNN_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}
ROUNDS, WARM_UP, SAMPLES = 9, 3, 24
TOLERANCE = 2e-2  # of the root mean square of the outputs, beside 1 % of the element

Call = Callable[[], Any]


@dataclass
class Row:
    """One shape; `layout` is dense, varlen or paged.

    With `shortest` keys, sequences have from so many to `keys` of them, drawn log-uniformly.
    """

    name: str
    batch: int
    queries: int
    keys: int
    heads: int
    kv_heads: int
    dims: int
    causal: bool = False
    window: int = -1
    layout: str = "dense"
    page: int = 64
    shortest: int = 0
    added: str = ""  # to scores: "bias", of each pair, or "slopes", ALiBi's
    kv: str = ""  # int8 or e4m3, where keys and values have 8 bits
    value_dims: int = 0  # 0: those of the keys
    timings: Timings = field(default_factory=Timings)

    def __post_init__(self) -> None:
        """Says how many dims values have."""
        self.value_dims = self.value_dims or self.dims

    def lengths(self) -> list[int]:
        """Keys of each sequence."""
        if self.shortest == 0:
            return [self.keys] * self.batch
        draw, ratio = random.Random(self.batch), self.keys / self.shortest
        return [round(self.shortest * ratio ** draw.random()) for _ in range(self.batch)]

    def pairs(self) -> float:
        """Of queries and keys that see each other, of a head and batch entry."""
        offset, left = self.keys - self.queries, self.window
        if not self.causal:
            return float(self.queries * self.keys)
        ends = [i + offset + 1 for i in range(self.queries)]
        return float(sum(end if left < 0 else min(end, left + 1) for end in ends))

    def flops(self) -> float:
        """Of the two products, for pairs that see each other."""
        return 2 * self.pairs() * (self.dims + self.value_dims) * self.heads * self.batch

    def kv_bytes(self) -> float:
        """Of keys and values, 16 or 8 bits each, and their scales."""
        numbers = float(self.dims + self.value_dims)
        each = 2 * numbers if not self.kv else numbers + 8
        return each * sum(self.lengths()) * self.kv_heads


def square_rows() -> Iterator[Row]:
    """As many queries as keys, 16384 in all, and heads of 2048 dims together."""
    for dims in (128, 64, 256):
        heads = 2048 // dims
        for queries in (512, 1024, 2048, 4096, 8192, 16384):
            for causal in (False, True):
                name = f"D{dims} S{queries}{' causal' if causal else ''}"
                yield Row(name, 16384 // queries, queries, queries, heads, heads, dims, causal)


def _rows() -> Iterator[Row]:
    yield from square_rows()
    for dims, values in ((96, 96), (192, 128), (192, 192)):
        for queries in (1024, 4096, 16384):
            for causal in (False, True):
                of = f"D{dims}" if dims == values else f"D{dims}, {values}"
                name = f"{of} S{queries}{' causal' if causal else ''}"
                shape = (16384 // queries, queries, queries, 16, 16, dims, causal)
                yield Row(name, *shape, value_dims=values)
    yield Row("GQA 32/8 S4096 causal", 2, 4096, 4096, 32, 8, 128, True)
    yield Row("window 1024 S8192", 2, 8192, 8192, 16, 16, 128, True, window=1023)
    yield Row("varlen S4096 causal", 4, 4096, 4096, 16, 16, 128, True, layout="varlen")
    yield Row("paged S4096 causal", 4, 4096, 4096, 16, 16, 128, True, layout="paged")
    for added in ("bias", "slopes"):
        for dims in (64, 128):
            heads = 2048 // dims
            yield Row(f"D{dims} S2048 {added}", 8, 2048, 2048, heads, heads, dims, added=added)
    decode = partial(Row, queries=1, heads=32, kv_heads=8, dims=128, causal=True)
    for layout, page in (("dense", 64), ("paged", 64), ("paged", 16)):
        options = {"layout": layout, "page": page}
        where = layout if page == 64 else f"{layout} by {page}"
        for batch, keys in ((16, 8192), (64, 8192), (1, 65536)):
            yield decode(f"decode B{batch} L{keys} {where}", batch, keys=keys, **options)
        for kv in ("int8", "e4m3") if page == 64 else ():
            for batch, keys in ((16, 8192), (64, 8192), (1, 65536)):
                name = f"decode B{batch} L{keys} {where} {kv}"
                yield decode(name, batch, keys=keys, kv=kv, **options)
        for batch in (16, 64):
            name = f"decode B{batch} L64..65536 {where}"
            yield decode(name, batch, keys=65536, shortest=64, **options)


def _tensors(row: Row, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    def normal(length: int, heads: int, dims: int) -> torch.Tensor:
        return torch.randn(row.batch, length, heads, dims, device="cuda", dtype=dtype)

    keys = (normal(row.keys, row.kv_heads, dims) for dims in (row.dims, row.value_dims))
    return normal(row.queries, row.heads, row.dims), *keys


def _narrow(x: torch.Tensor, kv: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """In 8 bits, a scale for each row, and the numbers that they stand for."""
    kind, most = (torch.int8, 127) if kv == "int8" else (torch.float8_e4m3fn, 448)
    scale = x.abs().amax(-1).float() / most
    codes = x.float() / scale[..., None]
    codes = (codes.round() if kv == "int8" else codes).to(kind)
    return codes, scale, codes.float() * scale[..., None]


def _added(row: Row, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """What is added to scores, by the names of our arguments."""
    if row.added == "bias":
        shape = (row.batch, row.heads, row.queries, row.keys)
        return {"attn_bias": torch.randn(shape, device="cuda", dtype=dtype)}
    slopes = 2.0 ** (-8 * torch.arange(1, row.heads + 1, device="cuda") / row.heads)
    return {"alibi_slopes": slopes} if row.added else {}


def _added_to(
    row: Row, added: dict[str, torch.Tensor], b: int, h: int, s: int
) -> torch.Tensor | float:
    """To the scores of a query."""
    if row.added == "bias":
        return added["attn_bias"][b, h, s].double()
    if not row.added:
        return 0.0
    distance = torch.arange(row.keys, device="cuda") - (s + row.keys - row.queries)
    return -added["alibi_slopes"][h].double() * distance.abs()


def _paged(x: torch.Tensor, order: torch.Tensor, page: int) -> torch.Tensor:
    """[B, L, ...] in pages, of which order[i] is the i-th."""
    codes = x.view(torch.int8) if x.dtype.itemsize == 1 else x
    pages = torch.empty_like(codes).view(len(order), page, *x.shape[2:])
    pages[order] = codes.view_as(pages)
    return pages.view(x.dtype)


def _ours(row: Row, q: torch.Tensor, given: dict[str, torch.Tensor]) -> Callable[[], Any]:
    """A call whose result has a row for each of q, in the same order.

    Args:
        row: what is measured.
        q: the queries.
        given: keys, values and what else the call takes, by the names of our arguments.
    """
    options = {"causal": row.causal, "window_left": row.window}
    lens = torch.tensor(row.lengths(), device="cuda", dtype=torch.int32)
    if row.layout == "dense":
        filled = lens if row.shortest > 0 else None
        return lambda: OPS.attention(q, kv_lens=filled, **given, **options)
    if row.layout == "varlen":
        cu = torch.arange(row.batch + 1, device="cuda", dtype=torch.int32)
        flat = [x.flatten(0, 1) for x in (q, *given.values())]
        offsets = cu * row.queries, cu * row.keys
        return lambda: OPS.attention_varlen(*flat, *offsets, **options)
    order = torch.randperm(row.batch * row.keys // row.page, device="cuda")
    k, v, *scales = (_paged(x, order, row.page) for x in given.values())
    more = dict(zip(("k_scale", "v_scale"), scales, strict=False))
    table = order.to(torch.int32).view(row.batch, -1)
    queries = q.flatten(0, 1)
    return lambda: OPS.attention_paged(queries, k, v, table, lens, **more, **options)


def _keys(row: Row, k: torch.Tensor, v: torch.Tensor) -> tuple[dict[str, torch.Tensor], list[Any]]:
    """Keys and values as our call takes them, by its names; the numbers that they stand for."""
    if not row.kv:
        return {"k": k, "v": v}, [k, v]
    k, k_scale, wide_k = _narrow(k, row.kv)
    v, v_scale, wide_v = _narrow(v, row.kv)
    return {"k": k, "v": v, "k_scale": k_scale, "v_scale": v_scale}, [wide_k, wide_v]


def ours_of(name: str) -> Callable[[], Any]:
    """Our call of the row of that name, in bf16."""
    row = next(row for row in _rows() if row.name == name)
    q, k, v = _tensors(row, torch.bfloat16)
    return _ours(row, q, _keys(row, k, v)[0] | _added(row, torch.bfloat16))


def _check(
    row: Row, out: torch.Tensor, q: torch.Tensor, kv: list[Any], added: dict[str, torch.Tensor]
) -> None:
    """Compares sampled rows with float64."""
    out = out.view(*q.shape[:-1], row.value_dims)
    generator, lengths = torch.Generator().manual_seed(1), row.lengths()
    for i in range(SAMPLES):
        b, s, h = (
            int(torch.randint(n, (), generator=generator))
            for n in (row.batch, row.queries, row.heads)
        )
        s = {0: 0, 1: row.queries - 1}.get(i, s)
        end = s + lengths[b] - row.queries + 1 if row.causal else lengths[b]
        begin = 0 if row.window < 0 else max(0, end - 1 - row.window)
        kv_head = h * row.kv_heads // row.heads
        keys, values = (x[b, begin:end, kv_head].double() for x in kv)
        scores = keys @ q[b, s, h].double() / math.sqrt(row.dims)
        scores = scores + _added_to(row, added, b, h, s)
        want = torch.softmax(scores, 0) @ values
        error = (out[b, s, h].double() - want).abs()
        allowed = 1e-2 * want.abs() + TOLERANCE * want.pow(2).mean().sqrt()
        if not bool((error <= allowed).all()):
            raise AssertionError(f"{row.name}: row {(b, s, h)} differs by {float(error.max())}")


def _peers(
    row: Row,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    added: dict[str, torch.Tensor],
) -> dict[str, Callable[[], Call]]:
    """On contiguous memory whatever our layout; none for windows and unequal lengths.

    What is added is a mask for them; keys and values have 16 bits.
    """
    swapped = [x.transpose(1, 2) for x in (q, k, v)]
    causal = row.causal and row.queries == row.keys
    options = {"is_causal": causal, "enable_gqa": row.heads != row.kv_heads}
    if row.added == "bias":
        options["attn_mask"] = added["attn_bias"]
    elif row.added:
        at = torch.arange(row.keys, device="cuda")
        distance = (at - at[:, None]).abs()[-row.queries :]
        mask = -added["alibi_slopes"][:, None, None] * distance
        options["attn_mask"] = mask.to(q.dtype).expand(row.batch, -1, -1, -1)

    def call(backend: SDPBackend) -> Call:
        def run() -> Any:
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(*swapped, **options)

        return run

    return (
        {}
        if row.window >= 0 or row.shortest > 0
        else {name: partial(call, b) for name, b in (MASKED if row.added else PEERS).items()}
    )


def _seconds(call: Callable[[], Any], repeats: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(repeats):
        call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e-3 / repeats


def in_turns(
    ours: Call, peers: Mapping[str, Callable[[], Call]], most: int, seconds: float
) -> Timings:
    """Median seconds of a call of ours and of each peer's, whose maker takes the shape.

    Between two events are `most` calls or what takes about `seconds`: enough that the host is
    ahead of the device.
    """
    calls = {"ours": ours}
    for name, make in peers.items():
        try:
            call = make()
            call()
        except RuntimeError:  # this backend does not take the shape
            continue
        calls[name] = call
    times: dict[str, list[float]] = {name: [] for name in calls}
    repeats = max(2, min(most, int(seconds / _seconds(ours, 3))))
    for round_ in range(WARM_UP + ROUNDS):
        for name, call in calls.items():
            took = _seconds(call, repeats)
            if round_ >= WARM_UP:
                times[name].append(took)
    medians = {name: statistics.median(values) for name, values in times.items()}
    return measured(medians, ours, medians["ours"])


def _measure(row: Row, dtype: torch.dtype) -> None:
    q, k, v = _tensors(row, dtype)
    given, exact = _keys(row, k, v)
    added = _added(row, dtype)
    ours = _ours(row, q, given | added)
    _check(row, ours(), q, exact, added)
    row.timings = in_turns(ours, _peers(row, q, k, v, added), most=50, seconds=4e-3)


def _copy_rate() -> float:
    """Bytes per second, read and written."""
    source = torch.randn(1 << 28, device="cuda")
    seconds = [_seconds(source.clone, 3) for _ in range(WARM_UP + ROUNDS)][WARM_UP:]
    return 2 * source.nbytes / statistics.median(seconds)


def _describe(row: Row, copy: float) -> dict[str, Any]:
    decodes = row.queries == 1
    work = row.kv_bytes() * 1e-12 if decodes else row.flops() * 1e-12
    rates = {name: work / seconds for name, seconds in row.timings.items()}
    unit = "TB/s" if decodes else "TFLOP/s"
    text = "  ".join(f"{name} {rate:7.{2 if decodes else 0}f}" for name, rate in rates.items())
    best = max((rate for name, rate in rates.items() if name != "ours"), default=math.nan)
    print(
        f"{row.name:28} {unit:8} {text}   x{rates['ours'] / best:.3f}{row.timings.shown()}",
        flush=True,
    )
    shape = {key: value for key, value in vars(row).items() if key != "timings"}
    extra = {"fraction_of_copy": rates["ours"] * 1e12 / copy} if decodes else {}
    return {**shape, "seconds": row.timings, "unit": unit, "rates": rates, **extra}


def arguments(description: str) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("filters", nargs="*")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--dtype", choices=("bf16", "f16"), default="bf16")
    return parser.parse_args()


def run(
    options: argparse.Namespace,
    rows: Iterable[Any],
    measure: Callable[[Any, torch.dtype], None],
    describe: Callable[[Any], dict[str, Any]],
    rates: Mapping[str, float] | None = None,
) -> None:
    """Measures and prints the rows that the command line asks for; `rates` are the machine's."""
    dtype = torch.bfloat16 if options.dtype == "bf16" else torch.float16
    name, cudnn = torch.cuda.get_device_properties(0).name, torch.backends.cudnn.version()
    print(f"{name}, torch {torch.__version__}, cuDNN {cudnn}")
    results = []
    for row in rows:
        if options.filters and not any(text in row.name for text in options.filters):
            continue
        try:
            measure(row, dtype)
        except (AssertionError, RuntimeError) as error:
            print(f"{row.name:28} FAILED {error!s:.300}", file=sys.stderr)
            continue
        results.append({**describe(row), **row.timings.card})
    if options.out:
        machine = {"gpu": name, "torch": torch.__version__, **(rates or {}), "cudnn": cudnn}
        machine["dtype"] = options.dtype
        options.out.write_text(json.dumps({"machine": machine, "results": results}, indent=1))


def main() -> None:
    """Measures what the command line asks for."""
    options, copy = arguments(__doc__), _copy_rate()
    print(f"copy {copy * 1e-12:.2f} TB/s")
    run(options, _rows(), _measure, lambda row: _describe(row, copy), {"copy_tbs": copy * 1e-12})


if __name__ == "__main__":
    main()
