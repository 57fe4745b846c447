"""Gradients of attention beside PyTorch's cuDNN and flash kernels on a GPU.

    python benchmarks/gpu/attention_backward.py [--out FILE] [--dtype bf16|f16] [FILTER ...]

Every row checks the gradients of one head against float64, and that a second call gives the same
bits, then times ours and the peers in turn on the same random data, from a graph that is kept.
Rates count useful work only: 10 D flops for every pair of a query and a key that it sees.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any

import tilewright.torch  # noqa: F401
import torch
import torch.nn.functional as F
from attention import PEERS, Call, arguments, in_turns, run
from card import Timings
from torch.nn.attention import SDPBackend, sdpa_kernel

OPS = torch.ops.tilewright
TOLERANCE = 1e-2  # of the norm of a head's gradient
FEWER = (1024, 4096, 16384)
CHUNK = 1024  # queries of the check at a time
MIXED = (611, 142, 239, 509, 166, 822, 1616, 1161, 1160, 1572, 807, 510, 1883, 1584, 734, 1936)
PACKED = {
    "4 x 4096": (4096,) * 4,
    "8192, 8 x 1024": (8192,) + (1024,) * 8,
    "142 .. 1936": MIXED,
}


@dataclass
class Row:
    """One shape: batch, queries and keys, heads that share keys; or packed sequences."""

    name: str
    batch: int
    length: int
    heads: int
    kv_heads: int
    dims: int
    causal: bool = False
    packed: tuple[int, ...] = ()  # lengths of the sequences that the only batch entry holds
    timings: Timings = field(default_factory=Timings)

    def lengths(self) -> tuple[int, ...]:
        """Of all sequences."""
        return self.packed or (self.length,) * self.batch

    def flops(self) -> float:
        """Of the five products, for pairs that see each other."""
        pairs = sum(n * (n + 1) / 2 if self.causal else n**2 for n in self.lengths())
        return 10 * pairs * self.dims * self.heads


def _rows() -> Iterator[Row]:
    for dims, lengths in ((128, (512, 1024, 2048, 4096, 8192, 16384)), (64, FEWER), (256, FEWER)):
        heads = 2048 // dims
        for length in lengths:
            for causal in (False, True):
                name = f"D{dims} S{length}{' causal' if causal else ''}"
                yield Row(name, 16384 // length, length, heads, heads, dims, causal)
    yield Row("GQA 32/8 S4096 causal", 2, 4096, 32, 8, 128, True)
    for name, packed in PACKED.items():
        yield Row(f"packed {name} causal", 1, sum(packed), 16, 16, 128, True, packed)


def _tensors(row: Row, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    def normal(heads: int) -> torch.Tensor:
        return torch.randn(row.batch, row.length, heads, row.dims, device="cuda", dtype=dtype)

    all_ = normal(row.heads), normal(row.kv_heads), normal(row.kv_heads), normal(row.heads)
    *inputs, grad = (x[0] for x in all_) if row.packed else all_
    return *(x.requires_grad_() for x in inputs), grad


def _offsets(row: Row) -> torch.Tensor:
    return torch.tensor([0, *accumulate(row.packed)], dtype=torch.int32, device="cuda")


def _ours(row: Row, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, grad: torch.Tensor) -> Call:
    if row.packed:
        offsets = _offsets(row)
        out = OPS.attention_varlen(q, k, v, offsets, offsets, causal=row.causal)
    else:
        out = OPS.attention(q, k, v, causal=row.causal)
    return lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True)


def ours_of(name: str) -> Call:
    """Our call of the row of that name, in bf16."""
    row = next(row for row in _rows() if row.name == name)
    return _ours(row, *_tensors(row, torch.bfloat16))


def _peer(
    backend: SDPBackend,
    row: Row,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    grad: torch.Tensor,
) -> Call:
    options = {"is_causal": row.causal, "enable_gqa": row.heads != row.kv_heads}
    with sdpa_kernel(backend):
        swapped = [x.transpose(1, 2) for x in (q, k, v)]
        out = F.scaled_dot_product_attention(*swapped, **options).transpose(1, 2)
    return lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True)


def _packed_peer(
    row: Row, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, grad: torch.Tensor
) -> Call:
    offsets, most = _offsets(row), max(row.packed)
    out = torch.ops.aten._flash_attention_forward(
        q, k, v, offsets, offsets, most, most, 0.0, row.causal, False
    )[0]
    return lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True)


def _want(
    row: Row, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, grad: torch.Tensor
) -> list[torch.Tensor]:
    """Of the heads that share the first head of keys of the first sequence, in float64."""
    group, length = row.heads // row.kv_heads, row.lengths()[0]
    keys, values = (x[0, :length, 0].detach().double() for x in (k, v))
    q_grad = torch.zeros(length, group, row.dims, device="cuda", dtype=torch.float64)
    k_grad, v_grad = torch.zeros_like(keys), torch.zeros_like(values)
    scale = 1 / math.sqrt(row.dims)
    for head in range(group):
        for first in range(0, length, CHUNK):
            here = slice(first, min(first + CHUNK, length))
            queries, grads = (x[0, here, head].detach().double() for x in (q, grad))
            scores = scale * queries @ keys.T
            if row.causal:
                rows = torch.arange(here.start, here.stop, device="cuda")
                columns = torch.arange(length, device="cuda")
                scores.masked_fill_(columns > rows[:, None], -math.inf)
            weights = torch.softmax(scores, -1)
            products = grads @ values.T
            slopes = scale * weights * (products - (weights * products).sum(-1, keepdim=True))
            q_grad[here, head] = slopes @ keys
            k_grad += slopes.T @ queries
            v_grad += weights.T @ grads
    return [q_grad, k_grad, v_grad]


def _check(row: Row, call: Call, tensors: tuple[torch.Tensor, ...]) -> None:
    got, again = call(), call()
    group, length = row.heads // row.kv_heads, row.lengths()[0]
    batched = [x[None] if row.packed else x for x in (*tensors, *got)]
    inputs, grads = batched[:4], batched[4:]
    parts = [grads[0][0, :length, :group], grads[1][0, :length, 0], grads[2][0, :length, 0]]
    for name, one, other, part, want in zip(
        "qkv", got, again, parts, _want(row, *inputs), strict=True
    ):
        if not torch.equal(one.view(torch.int16), other.view(torch.int16)):
            raise AssertionError(f"{row.name}: {name}.grad differs between two calls")
        error = float((part.double() - want).norm() / want.norm())
        if not error <= TOLERANCE:
            raise AssertionError(f"{row.name}: {name}.grad differs by {error:.2e} of its norm")


def _measure(row: Row, dtype: torch.dtype) -> None:
    tensors = _tensors(row, dtype)
    ours = _ours(row, *tensors)
    _check(row, ours, tensors)
    peers = {name: partial(_peer, b, row, *tensors) for name, b in PEERS.items()}
    if row.packed:
        peers = {"flash": partial(_packed_peer, row, *tensors)}
    row.timings = in_turns(ours, peers, most=20, seconds=6e-3)


def describe(row: Any) -> dict[str, Any]:
    """Prints a row's rates of useful work; what its JSON says."""
    rates = {name: row.flops() * 1e-12 / seconds for name, seconds in row.timings.items()}
    text = "  ".join(f"{name} {rate:7.0f}" for name, rate in rates.items())
    best = max((rate for name, rate in rates.items() if name != "ours"), default=math.nan)
    print(
        f"{row.name:28} TFLOP/s {text}   x{rates['ours'] / best:.3f}{row.timings.shown()}",
        flush=True,
    )
    shape = {key: value for key, value in vars(row).items() if key != "timings"}
    return {**shape, "seconds": row.timings, "unit": "TFLOP/s", "rates": rates}


def main() -> None:
    """Measures what the command line asks for."""
    run(arguments(__doc__), _rows(), _measure, describe)


if __name__ == "__main__":
    main()
