"""Reductions, losses, norms, choices and maps for benchmarks/survey.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from survey_case import OPS, Case, Operands

REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (OPS.sum, torch.sum),
    "amax": (OPS.amax, torch.amax),
    "argmax": (OPS.argmax, torch.argmax),
    "var_mean": (OPS.var_mean, torch.var_mean),
    "logsumexp": (lambda x, d: OPS.reduce(x, "logsumexp", d), torch.logsumexp),
    "norm2": (lambda x, d: OPS.reduce(x, "norm2", d), lambda x, d: x.norm(dim=d)),
    "prod": (lambda x, d: OPS.reduce(x, "prod", d), torch.prod),
    "count_nonzero": (OPS.count_nonzero, torch.count_nonzero),
}
SAME_SHAPE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "softmax": (OPS.softmax, F.softmax),
    "cumsum": (lambda x, d: OPS.scan(x, "sum", d), torch.cumsum),
}
WHERE = [((32768, 4096), 1), ((524288, 128), 1), ((4096, 50257), 1), ((64, 1048576), 1),
         ((32, 1000, 64), 1), ((64, 4096, 128), 1), ((8, 512, 32, 64), 2),
         ((4096, 4096), 0)]  # fmt: skip


class Rows(Operands):
    """Those that are bound by memory, for the most part."""

    def cases(self) -> Iterator[Case]:
        """All of them."""
        for (rows, *rest), dim in WHERE:
            yield from self._along((max(1, rows // self.share), *rest), dim)
        for group in (self._losses, self._rows, self._choices, self._embeddings, self._elements):
            yield from group()

    def _along(self, shape: tuple[int, ...], dim: int) -> Iterator[Case]:
        size = 2 * math.prod(shape)
        for functions, moved in ((REDUCTIONS, size), (SAME_SHAPE, 2 * size)):
            for name, (ours, peer) in functions.items():
                yield Case(f"{name} {shape} dim {dim}", lambda: (self._bf16(*shape),),
                           lambda x, f=ours: f(x, dim), lambda x, f=peer: f(x, dim),
                           moved)  # fmt: skip

    def _losses(self) -> Iterator[Case]:
        for rows, cols in ((8192, 32000), (4096, 50257), (65536, 128), (16384, 1000)):
            n = rows // self.share
            yield Case(f"cross_entropy {n}x{cols}",
                       lambda n=n, c=cols: (self._bf16(n, c), self._below(c, n)),
                       OPS.cross_entropy, F.cross_entropy, 2 * n * cols)  # fmt: skip

    def _rows(self) -> Iterator[Case]:
        for rows, cols in ((32768, 4096), (524288, 128), (8192, 1023)):
            n = rows // self.share
            yield Case(f"softmax f32 {n}x{cols}", lambda n=n, c=cols: (self._f32(n, c),),
                       lambda x: OPS.softmax(x, -1), lambda x: F.softmax(x, -1),
                       8 * n * cols)  # fmt: skip
            yield Case(f"layer_norm f32 {n}x{cols}",
                       lambda n=n, c=cols: (self._f32(n, c), self._f32(c), self._f32(c)),
                       OPS.layer_norm, lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b),
                       8 * n * cols)  # fmt: skip
        n, cols = 8192 // self.share, 4096
        for group in (128, cols):
            for name, call in (("fp8", OPS.quantize_fp8), ("int8", OPS.quantize_int8)):
                yield Case(f"quantize_{name} {n}x{cols} by {group}",
                           lambda: (self._bf16(n, cols),), lambda x, f=call, g=group: f(x, g),
                           None, 3 * n * cols)  # fmt: skip

    def _choices(self) -> Iterator[Case]:
        for rows, cols, k in ((65536, 128, 8), (8192, 256, 8), (64, 50257, 50), (16, 128256, 50),
                              (4096, 4096, 64), (1, 128256, 1)):  # fmt: skip
            n = max(1, rows // self.share)
            yield Case(f"topk {n}x{cols} k {k}", lambda n=n, c=cols: (self._bf16(n, c),),
                       lambda x, k=k: OPS.topk(x, k), lambda x, k=k: x.topk(k),
                       2 * n * cols)  # fmt: skip
        n = max(1, 16 // self.share)
        for words in (32000, 128256):
            logits = lambda w=words: (self._f32(n, w),)  # noqa: E731
            yield Case(f"sample greedy {n}x{words}", logits, lambda x: OPS.sample(x, None, 0.0),
                       lambda x: x.argmax(-1), 4 * n * words)  # fmt: skip
            yield Case(f"sample top_k 50 top_p 0.9 {n}x{words}", logits,
                       lambda x: OPS.sample(x, None, 0.8, 50, 0.9), None,
                       4 * n * words)  # fmt: skip
        for tokens, experts, k in ((8192, 128, 8), (65536, 256, 8), (64, 64, 6)):
            n = tokens // self.share
            yield Case(f"moe_align {n}x{k} of {experts}",
                       lambda n=n, e=experts, k=k: (self._below(e, n, k).int(),),
                       lambda x, e=experts: OPS.moe_align(x, e, 1),
                       lambda x: torch.sort(x.view(-1)), 4 * n * k)  # fmt: skip

    def _embeddings(self) -> Iterator[Case]:
        dense = torch.ops.aten.embedding_dense_backward
        for words, dims, rows in ((50257, 768, 16384), (32000, 100, 65536), (128256, 64, 65536),
                                  (50304, 2048, 8192)):  # fmt: skip
            n = rows // self.share
            yield Case(f"embedding {words}x{dims} of {n}",
                       lambda w=words, d=dims, n=n: (self._bf16(w, d), self._below(w, n)),
                       OPS.embedding, lambda w, i: F.embedding(i, w), 4 * n * dims)  # fmt: skip
            yield Case(f"embedding_backward {words}x{dims} of {n}",
                       lambda w=words, d=dims, n=n: (self._bf16(n, d), self._below(w, n),
                                                     self._bf16(w, d)),
                       OPS.embedding_backward,
                       lambda g, i, w: dense(g, i, w.shape[0], -1, False),
                       2 * (n + words) * dims)  # fmt: skip

    def _elements(self) -> Iterator[Case]:
        rows, cols = 8192 // self.share, 4096
        n, one = 2 * rows * cols, lambda: (self._bf16(rows, cols),)
        yield Case("add a row", lambda: (*one(), self._bf16(cols)), OPS.add, torch.add, 2 * n)
        yield Case("mul a column", lambda: (*one(), self._bf16(rows, 1)), OPS.mul, torch.mul, 2 * n)
        yield Case("add transposed", lambda: (self._bf16(cols, rows).t(), *one()), OPS.add,
                   torch.add, 3 * n)  # fmt: skip
        yield Case("add every other", lambda: (self._bf16(rows, 2 * cols)[:, ::2], *one()),
                   OPS.add, torch.add, 3 * n)  # fmt: skip
        yield Case("sin", one, lambda x: OPS.unary(x, "sin"), torch.sin, 2 * n)
        yield Case("pow", lambda: (one()[0].abs(), *one()), lambda a, b: OPS.binary(a, b, "pow"),
                   torch.pow, 3 * n)  # fmt: skip
        for length in (4096, 1000):
            batch = 2048 // self.share
            yield Case(f"fft {batch}x{length}",
                       lambda b=batch, k=length: (self._f32(b, k, 2),), OPS.fft,
                       lambda x: torch.fft.fft(torch.view_as_complex(x)),
                       16 * batch * length)  # fmt: skip
