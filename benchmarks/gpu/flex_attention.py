"""Attention with modified scores and masks on a GPU, beside torch.compile of FlexAttention.

    python benchmarks/gpu/flex_attention.py [--out FILE] [--dtype bf16|f16] [FILTER ...]

Every row times, in turn, ours with the modification, ours without one (`plain`), and FlexAttention
compiled for the shape, after comparing ours with float64 in sampled rows. Both skip blocks that a
mask hides; FlexAttention's are found beforehand, ours in the call. Rates count all pairs of a query
and a key, hidden ones too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from attention import arguments, in_turns, run
from card import Timings
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from tilewright import nn

HEADS, DIMS = 16, 128
PAIRS = 1 << 26  # of a query and a key: so many tokens of each length in a batch
DOCUMENT = 777  # tokens

Mod = Callable[..., Any]


@dataclass
class Row:
    """A modification of scores or a mask, for one length."""

    kind: str
    tokens: int
    visible: float = 1.0  # of all pairs
    timings: Timings = field(default_factory=Timings)

    @property
    def name(self) -> str:
        """What the command line chooses by."""
        return f"{self.kind} S{self.tokens}"

    @property
    def batch(self) -> int:
        """Sequences."""
        return max(1, PAIRS // self.tokens**2)


def _mods(row: Row) -> tuple[Mod | None, Mod | None]:
    """score_mod and mask_mod."""
    slopes = torch.exp2(-8 * (torch.arange(HEADS, device="cuda") + 1.0) / HEADS)
    documents = torch.arange(row.tokens, device="cuda", dtype=torch.int32) // DOCUMENT
    scores: dict[str, Mod] = {
        "alibi": lambda score, b, h, q, k: score - slopes[h] * (q - k),
        "cap": lambda score, b, h, q, k: 20 * torch.tanh(score / 20),
        "distance": lambda score, b, h, q, k: score + (k - q),
    }
    masks: dict[str, Mod] = {
        "causal": lambda b, h, q, k: q >= k,
        "prefix": lambda b, h, q, k: (k < 512) | (q >= k),
        "documents": lambda b, h, q, k: documents[q] == documents[k],
    }
    return scores.get(row.kind), masks.get(row.kind)


def _rows() -> Iterator[Row]:
    for kind in ("alibi", "cap", "distance", "causal", "prefix", "documents"):
        for tokens in (1024, 4096, 16384):
            yield Row(kind, tokens)


def _check(row: Row, out: torch.Tensor, q: Any, k: Any, v: Any, mods: Any) -> None:
    """Rows of the last sequence and head against the definition in float64."""
    score_mod, mask_mod = mods
    b, h = torch.tensor(row.batch - 1), torch.tensor(HEADS - 1)
    b, h = b.cuda(), h.cuda()
    for i in (0, row.tokens // 2 + 1, row.tokens - 1):
        scores = k[-1, -1].double() @ q[-1, -1, i].double() * DIMS**-0.5
        at = (b, h, torch.tensor(i, device="cuda"), torch.arange(row.tokens, device="cuda"))
        if score_mod:
            scores = score_mod(scores, *at)
        if mask_mod:
            scores = scores.masked_fill(~mask_mod(*at), -torch.inf)
        want = torch.softmax(scores.double(), 0) @ v[-1, -1].double()
        error = (out[-1, -1, i].double() - want).norm() / want.norm()
        if not error < 1e-2:
            raise AssertionError(f"{row.name}: query {i} is off by {error:.1e} of its norm")


def _measure(row: Row, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    shape = (row.batch, HEADS, row.tokens, DIMS)
    q, k, v = (torch.randn(shape, device="cuda", dtype=dtype) for _ in range(3))
    score_mod, mask_mod = _mods(row)
    if mask_mod:
        at = torch.arange(row.tokens, device="cuda")
        row.visible = float(mask_mod(0, 0, at[:, None], at).float().mean())
    ours = partial(nn.flex_attention, q, k, v, score_mod, mask_mod=mask_mod)
    plain = partial(nn.flex_attention, q, k, v)

    def peer() -> Callable[[], Any]:
        torch._dynamo.reset()  # it stops compiling after some shapes
        compiled = torch.compile(flex_attention, dynamic=False)
        block_mask = mask_mod and create_block_mask(
            mask_mod, None, None, row.tokens, row.tokens, device="cuda"
        )
        return partial(compiled, q, k, v, score_mod=score_mod, block_mask=block_mask)

    _check(row, ours(), q, k, v, (score_mod, mask_mod))
    makers = {"plain": lambda: plain, "flex": peer}
    row.timings = in_turns(ours, makers, most=50, seconds=20e-3)


def _describe(row: Row) -> dict[str, Any]:
    work = 4e-12 * row.batch * HEADS * row.tokens**2 * DIMS
    rates = {name: work / seconds for name, seconds in row.timings.items()}
    text = "  ".join(f"{name} {rate:5.0f}" for name, rate in rates.items())
    print(f"{row.name:20} TFLOP/s  {text}{row.timings.shown()}", flush=True)
    plain = rates.pop("plain")
    return {"name": row.name, "seconds": row.timings, "unit": "TFLOP/s", "rates": rates,
            "visible": row.visible, "plain": plain}  # fmt: skip


def main() -> None:
    """Measures what the command line asks for."""
    run(arguments(__doc__), _rows(), _measure, _describe)


if __name__ == "__main__":
    main()
