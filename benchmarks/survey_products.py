"""Products, attention, recurrences, experts and layouts for benchmarks/survey.py."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from survey_case import OPS, Call, Case, Operands, heads_first, sdpa

PRODUCTS = [(4095, 4095, 4095), (1000, 1000, 1000), (2048, 2050, 2048), (4096, 4096, 100),
            (8192, 10, 4096), (333, 4096, 4097), (64, 151936, 896), (3000, 768, 768),
            (3000, 3000, 1000), (8192, 8192, 1000)]  # fmt: skip
BATCHES = [(64, 128, 128, 128), (128, 2048, 64, 2048), (128, 2048, 2048, 64), (4096, 1, 128, 64),
           (1024, 49, 49, 32)]  # fmt: skip
# batch, tokens, heads, dims, causal
ATTENTION = [(2, 4096, 8, 40, 0), (2, 4096, 16, 72, 0), (2, 1024, 20, 80, 0), (8, 1024, 12, 64, 1),
             (2, 2048, 32, 96, 1), (2, 2048, 16, 160, 0), (2, 2048, 8, 256, 1),
             (1, 1024, 8, 512, 0), (64, 197, 12, 64, 0), (256, 49, 6, 32, 0)]  # fmt: skip
GRADIENTS = [(2, 4096, 8, 40, 0), (8, 1024, 12, 64, 1), (2, 2048, 8, 256, 1), (64, 197, 12, 64, 0)]
# batch, tokens, heads, dims of keys and of values
RECURRENT = [(4, 4096, 16, 128, 128), (8, 2048, 32, 64, 64), (1, 8192, 8, 256, 512),
             (32, 1, 32, 128, 128), (2, 1000, 8, 100, 100)]  # fmt: skip
BACKWARD_STATES = [(2, 2048, 8, 64, 64), (1, 8192, 16, 128, 128), (1, 2048, 4, 256, 512)]
# tokens, groups, features out and in
GROUPS = [(8192, 8, 4096, 4096), (4096, 64, 1408, 2048), (1000, 7, 333, 517), (64, 128, 768, 2048)]
LAYOUTS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((64, 2048, 16, 64), (0, 2, 1, 3)), ((64, 16, 2048, 64), (0, 2, 3, 1)),
    ((32, 3, 224, 224), (0, 2, 3, 1)), ((32, 224, 224, 3), (0, 3, 1, 2)), ((4095, 4095), (1, 0)),
    ((128, 1000, 333), (0, 2, 1)), ((16, 12, 197, 197), (0, 1, 3, 2)),
    ((8, 32, 32, 32, 32), (4, 3, 2, 1, 0)), ((1048576, 7), (1, 0)), ((7, 1048576), (1, 0)),
]  # fmt: skip


def _distinct(limit: int, rows: int, count: int, device: str) -> torch.Tensor:
    """Different numbers of a row, below the limit."""
    return torch.rand(rows, limit, device=device).topk(count).indices.int()


class Products(Operands):
    """Those that compute much, or move it elsewhere."""

    def cases(self) -> Iterator[Case]:
        """All of them."""
        for group in (self._products, self._attention, self._gradients, self._recurrences,
                      self._experts, self._routers, self._layouts, self._others):  # fmt: skip
            yield from group()

    def _products(self) -> Iterator[Case]:
        for m, n, k in PRODUCTS:
            rows = max(1, m // self.share)
            yield Case(f"linear {rows}x{n}x{k}",
                       lambda m=rows, n=n, k=k: (self._bf16(m, k), self._bf16(n, k)), OPS.linear,
                       F.linear, 2 * (rows * k + n * k + rows * n), 2 * rows * n * k)  # fmt: skip
        for b, m, n, k in BATCHES:
            count = max(1, b // self.share)
            yield Case(f"matmul {count}x {m}x{n}x{k}",
                       lambda b=count, m=m, n=n, k=k: (self._bf16(b, m, k), self._bf16(b, k, n)),
                       OPS.matmul, torch.bmm, 2 * count * (m * k + n * k + m * n),
                       2 * count * m * n * k)  # fmt: skip

    def _attention(self) -> Iterator[Case]:
        for dtype, shapes in (("bf16", ATTENTION), ("f32", [(2, 1024, 12, 64, 0)])):
            make = self._bf16 if dtype == "bf16" else self._f32
            for b, s, h, d, causal in shapes:
                batch = max(1, b // self.share)
                shape = (batch, max(1, s // min(self.share, 4)), h, d)
                yield Case(
                    f"attention {dtype} {shape} causal {causal}",
                    lambda t=shape, make=make: tuple(make(*t) for _ in range(3)),
                    lambda q, k, v, c=causal: OPS.attention(q, k, v, causal=bool(c)),
                    lambda q, k, v, c=causal: sdpa(q, k, v, is_causal=bool(c)),
                    4 * 2 * math.prod(shape), 4 * math.prod(shape) * shape[1] // (1 + causal),
                )  # fmt: skip

    def _gradients(self) -> Iterator[Case]:
        def make(shape: tuple[int, ...], causal: bool) -> tuple[Any, ...]:
            q, k, v, grad = (self._bf16(*shape) for _ in range(4))
            scores = (q.transpose(1, 2).float() @ k.permute(0, 2, 3, 1).float()) * shape[-1] ** -0.5
            if causal:
                hidden = torch.ones(shape[1], shape[1], dtype=torch.bool, device=q.device).triu(1)
                scores = scores.masked_fill(hidden, -1e30)
            lse = scores.logsumexp(-1)
            leaves = [x.detach().requires_grad_() for x in heads_first(q, k, v)]
            out = F.scaled_dot_product_attention(*leaves, is_causal=causal)
            ours = OPS.attention(q, k, v, causal=causal)
            return grad, q, k, v, ours, lse.contiguous(), out, leaves

        for b, s, h, d, causal in GRADIENTS:
            shape = (max(1, b // self.share), max(1, s // min(self.share, 4)), h, d)
            yield Case(
                f"attention_backward {shape} causal {causal}",
                lambda t=shape, c=causal: make(t, bool(c)),
                lambda g, q, k, v, o, lse, _y, _x, c=causal: OPS.attention_backward(
                    g, q, k, v, o, lse, causal=bool(c)),
                lambda g, _q, _k, _v, _o, _l, y, x: torch.autograd.grad(
                    y, x, g.transpose(1, 2), retain_graph=True),
                8 * 2 * math.prod(shape), 10 * math.prod(shape) * shape[1] // (1 + causal),
                captured=False,
            )  # fmt: skip

    def _recurrences(self) -> Iterator[Case]:
        for b, n, h, d, dv in RECURRENT:
            batch, length = max(1, b // self.share), max(1, n // min(self.share, 4))
            keys, values = (batch, length, h, d), (batch, length, h, dv)
            moved = batch * length * h * (4 * d + 4 * d + 4 * dv) + 4 * batch * h * d * dv

            def make(
                delta: bool, one: bool, keys: Any = keys, values: Any = values
            ) -> tuple[Any, ...]:
                q, k = self._bf16(*keys), F.normalize(self._bf16(*keys), dim=-1)
                gates = (*keys[:3], 1) if one else keys
                decay = (-self._f32(*gates).abs() * 0.1).expand(keys)
                beta = self._f32(*keys[:3]).sigmoid() if delta else None
                return q, k, self._bf16(*values), decay, beta

            for delta, one in itertools.product((False, True), repeat=2):
                name = ("delta rule" if delta else "gated") + (", one gate" if one else "")
                yield Case(f"linear_attention {name} {keys} {dv}",
                           lambda f=make, w=delta, o=one: f(w, o),
                           OPS.linear_attention, None, moved)  # fmt: skip
            yield Case(f"delta_rule_transform {keys}",
                       lambda s=keys: (F.normalize(self._bf16(*s), dim=-1),
                                       self._f32(*s[:3]).sigmoid()),
                       OPS.delta_rule_transform, None,
                       batch * length * h * (2 * d + 4 * 64))  # fmt: skip
        yield from self._linear_attention_gradients()

    def _linear_attention_gradients(self) -> Iterator[Case]:
        for batch, length, h, d, dv in BACKWARD_STATES:
            keys = (batch, length // min(self.share, 4), h, d)
            values = (*keys[:3], dv)
            for one, delta in itertools.product((True, False), (False, True)):

                def make(
                    keys: Any = keys, values: Any = values, one: bool = one, delta: bool = delta
                ) -> tuple[Any, ...]:
                    gates = -self._f32(*keys[:3], 1 if one else keys[3]).abs() * 0.1
                    return (
                        self._bf16(*values),
                        F.normalize(self._bf16(*keys), dim=-1),
                        F.normalize(self._bf16(*keys), dim=-1),
                        self._bf16(*values),
                        gates.expand(keys),
                        self._f32(*keys[:3]).sigmoid() if delta else None,
                    )

                name = ("delta rule" if delta else "gated") + (", one gate" if one else "")
                yield Case(f"linear_attention_backward {name} {keys} {dv}", make,
                           OPS.linear_attention_backward, None,
                           math.prod(keys[:3]) * (12 * d + 6 * dv))  # fmt: skip

    def _experts(self) -> Iterator[Case]:
        for rows, g, n, k in GROUPS:
            m = max(g, rows // self.share)
            ends = torch.tensor([(i + 1) * m // g for i in range(g)], dtype=torch.int32,
                                device=self.device)  # fmt: skip
            size, flops = 2 * (m * k + g * n * k + m * n), 2 * m * n * k
            peer: Call | None = None
            if k % 8 == 0 and n % 8 == 0 and self.device == "cuda":
                peer = lambda a, b, e: torch._grouped_mm(a, b.transpose(1, 2), e)  # noqa: E731
            yield Case(f"grouped_matmul {m} of {g} {n}x{k}",
                       lambda m=m, g=g, n=n, k=k, e=ends: (self._bf16(m, k),
                                                           self._bf16(g, n, k), e),
                       lambda a, b, e: OPS.grouped_matmul(a, b.transpose(1, 2), e), peer, size,
                       flops)  # fmt: skip
            yield Case(f"k_grouped_matmul {m} of {g} {n}x{k}",
                       lambda m=m, n=n, k=k, e=ends: (self._bf16(m, k), self._bf16(m, n), e),
                       lambda a, b, e: OPS.k_grouped_matmul(a.t(), b, e), None, size,
                       flops)  # fmt: skip
        tokens, k, cols = 16384 // self.share, 8, 2048
        moved = 2 * tokens * (2 * k + 1) * cols
        yield Case(f"moe_combine_backward {tokens}x{k}x{cols}",
                   lambda: (self._bf16(tokens, cols), self._bf16(tokens * k, cols),
                            torch.randperm(tokens * k, device=self.device).view(tokens, k).int(),
                            self._f32(tokens, k)),
                   OPS.moe_combine_backward, None, moved)  # fmt: skip

    def _routers(self) -> Iterator[Case]:
        for tokens, experts, k in ((65536, 256, 8), (8192, 64, 6), (1, 128, 8)):
            n = max(1, tokens // self.share)
            yield Case(f"moe_topk {n}x{experts} k {k}",
                       lambda n=n, e=experts: (self._bf16(n, e),),
                       lambda x, k=k: OPS.moe_topk(x, k),
                       lambda x, k=k: torch.topk(F.softmax(x.float(), -1), k),
                       2 * n * experts)  # fmt: skip
            yield Case(f"moe_topk_backward {n}x{experts} k {k}",
                       lambda n=n, e=experts, k=k: (self._f32(n, k), self._bf16(n, e),
                                                    _distinct(e, n, k, self.device)),
                       OPS.moe_topk_backward, None, 4 * n * experts)  # fmt: skip
        for b, m, n in ((4096, 4, 4), (65536, 8, 8), (64, 64, 64)):
            count = b // self.share
            yield Case(f"sinkhorn {count}x{m}x{n}",
                       lambda b=count, m=m, n=n: (self._f32(b, m, n),), OPS.sinkhorn, None,
                       8 * count * m * n)  # fmt: skip

    def _layouts(self) -> Iterator[Case]:
        for (first, *rest), dims in LAYOUTS:
            shape = (max(1, first // self.share), *rest)
            yield Case(f"permute {shape} {dims}", lambda s=shape: (self._bf16(*s),),
                       lambda x, d=dims: OPS.permute(x, d),
                       lambda x, d=dims: x.permute(d).contiguous(),
                       4 * math.prod(shape))  # fmt: skip
        rows = 8192 // self.share
        yield Case("copy every other", lambda: (self._bf16(rows, 8192)[:, ::2],), OPS.copy,
                   torch.Tensor.contiguous, 4 * rows * 4096)  # fmt: skip
        for dims, rotated, pairs in ((128, 128, False), (80, 40, False), (64, 64, True)):
            shape = (4, 2048 // self.share, 32, dims)
            yield Case(f"rope {shape} of {rotated} interleaved {int(pairs)}",
                       lambda s=shape, r=rotated: (self._bf16(*s), self._f32(s[1], r // 2),
                                                   self._f32(s[1], r // 2)),
                       lambda x, c, s, i=pairs: OPS.rope(x, c, s, None, i), None,
                       4 * math.prod(shape))  # fmt: skip
        n = rows * 4096
        yield Case("where with a column and a row",
                   lambda: (self._f32(rows, 1) > 0, self._bf16(rows, 4096), self._bf16(1, 4096)),
                   OPS.where, torch.where, 4 * n)  # fmt: skip

    def _others(self) -> Iterator[Case]:
        for rows, cols in ((32768, 4096), (524288, 128)):
            n = rows // self.share
            for name in ("sum", "prod"):
                yield Case(f"scan_backward {name} {n}x{cols}",
                           lambda n=n, c=cols: (self._bf16(n, c), self._bf16(n, c)),
                           lambda g, x, f=name: OPS.scan_backward(g, x, f), None,
                           4 * n * cols)  # fmt: skip
            yield Case(f"topk_backward {n}x{cols} k 8",
                       lambda n=n, c=cols: (self._bf16(n, 8), _distinct(c, n, 8, self.device),
                                            self._bf16(n, c)),
                       OPS.topk_backward, None, 2 * n * cols)  # fmt: skip
        rows = 14336 // self.share
        yield Case(f"dequantize_int4 {rows}x4096",
                   lambda: (self._below(100, rows, 2048).to(torch.int8),
                            self._f32(rows, 32).half(), self._below(3, rows, 32).to(torch.int8)),
                   OPS.dequantize_int4, None, rows * 4096 * 5 // 2)  # fmt: skip
        for batch, n in ((65536, 16), (65536, 64), (4096, 256), (64, 65536), (1, 1 << 20),
                         (128, 997)):  # fmt: skip
            count = max(1, batch // self.share)
            yield Case(f"fft {count}x{n}", lambda b=count, n=n: (self._f32(b, n, 2),), OPS.fft,
                       lambda x: torch.fft.fft(torch.view_as_complex(x)),
                       16 * count * n)  # fmt: skip
