"""Attention with caches, masks, lengths and gradients for benchmarks/survey.py."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from survey_case import OPS, Case, Operands, sdpa

# batch, tokens, keys, heads, heads of keys, dims
DECODE = [(1, 1, 4096, 9, 3, 64), (32, 1, 4096, 32, 32, 80), (16, 1, 8192, 28, 4, 128),
          (64, 1, 2048, 8, 1, 256), (8, 1, 4096, 32, 8, 96), (4, 4, 8192, 32, 8, 128),
          (256, 1, 512, 32, 8, 128)]  # fmt: skip
CROSS = [(2, 4096, 77, 8, 8, 40), (2, 1024, 77, 20, 20, 64), (8, 512, 1500, 16, 16, 64),
         (1, 512, 32768, 32, 8, 128), (1, 64, 32768, 32, 8, 128), (16, 1, 1500, 16, 16, 64),
         (1, 1024, 1024, 12, 12, 64), (2, 300, 300, 8, 8, 32)]  # fmt: skip
MLA = [(1, 1, 4096, 16), (32, 1, 4096, 16), (8, 2, 8192, 64), (1, 1024, 1024, 16)]


class Attention(Operands):
    """Attention as inference and training call it."""

    def cases(self) -> Iterator[Case]:
        """All of them."""
        for group in (self._shapes, self._masks, self._lengths, self._pages, self._latent,
                      self._gradients):  # fmt: skip
            yield from group()

    def _qkv(self, b: int, s: int, length: int, hq: int, h: int, d: int) -> tuple[Any, ...]:
        return self._bf16(b, s, hq, d), self._bf16(b, length, h, d), self._bf16(b, length, h, d)

    def _shapes(self) -> Iterator[Case]:
        for kind, shapes in (("decode", DECODE), ("attention", CROSS)):
            for b, s, length, hq, h, d in shapes:
                batch = max(1, b // self.share)
                tokens = s if s < 64 else max(1, s // min(4, self.share))
                moved = 2 * batch * d * (2 * tokens * hq + 2 * length * h)
                yield Case(
                    f"{kind} {batch}x{tokens} of {length}, {hq}/{h} heads of {d}",
                    lambda t=(batch, tokens, length, hq, h, d): self._qkv(*t), OPS.attention,
                    sdpa, moved, 4 * batch * tokens * length * hq * d,
                )  # fmt: skip

    def _masks(self) -> Iterator[Case]:
        b, s, hq, h, d = 2, 4096 // min(4, self.share), 16 // min(2, self.share), 4, 64
        make = lambda: self._qkv(b, s, s, hq, h, d)  # noqa: E731
        moved, flops = 2 * b * s * d * (2 * hq + 2 * h), 4 * b * s * s * hq * d
        for name, more, part in (
            ("window of 128", {"causal": True, "window_left": 127}, 128 / s),
            ("window of 1024", {"causal": True, "window_left": 1023}, 1024 / s * 0.9),
            ("softcap", {"causal": True, "softcap": 50.0}, 0.5),
        ):
            yield Case(f"attention, {name}", make, lambda q, k, v, m=more: OPS.attention(
                q, k, v, **m), None, moved, int(flops * part))  # fmt: skip
        yield Case("attention, window of 128 with sinks", lambda: (*make(), self._f32(hq)),
                   lambda q, k, v, sinks: OPS.attention(q, k, v, sinks=sinks, causal=True,
                                                        window_left=127),
                   None, moved, int(flops * 128 / s))  # fmt: skip
        yield Case("attention, alibi", lambda: (*make(), self._f32(hq).abs()),
                   lambda q, k, v, a: OPS.attention(q, k, v, alibi_slopes=a, causal=True), None,
                   moved, flops // 2)  # fmt: skip
        yield Case("attention, bias", lambda: (*make(), self._bf16(b, hq, s, s)),
                   lambda q, k, v, a: OPS.attention(q, k, v, attn_bias=a),
                   lambda q, k, v, a: sdpa(q, k, v, attn_mask=a), moved + 2 * b * hq * s * s,
                   flops)  # fmt: skip

    def _ends(self, lengths: list[int]) -> torch.Tensor:
        return torch.tensor([0, *lengths], device=self.device).cumsum(0).int()

    def _lengths(self) -> Iterator[Case]:
        many = [10 + 37 * i % 190 for i in range(256 // self.share)]
        few = [n // self.share for n in (8000, 500, 1500, 3, 6000)]
        for name, lengths in (("many short", many), ("few unequal", few)):
            total, flops = sum(lengths), 2 * 16 * 64 * sum(n * n for n in lengths)
            make = lambda n=total, t=lengths: (*(  # noqa: E731
                self._bf16(n, 16, 64) for _ in range(3)), self._ends(t))  # fmt: skip
            yield Case(f"attention_varlen, {name}", make,
                       lambda q, k, v, e: OPS.attention_varlen(q, k, v, e, e, causal=True), None,
                       8 * total * 16 * 64, flops)  # fmt: skip
            yield Case(f"attention_varlen_backward, {name}",
                       lambda f=make: (lambda q, k, v, e: (q, k, v, q.clone(), v.clone(),
                                                           self._f32(16, len(q)) + 9, e))(*f()),
                       lambda q, k, v, g, o, lse, e: OPS.attention_varlen_backward(
                           g, q, k, v, o, lse, e, e, causal=True), None,
                       16 * total * 16 * 64, 5 * flops // 2)  # fmt: skip

    def _pages(self) -> Iterator[Case]:
        for b, length, hq, h, d, page in ((32, 4096, 32, 8, 128, 16), (8, 4096, 14, 2, 64, 16),
                                          (16, 4096, 32, 8, 96, 64), (16, 4096, 8, 1, 256, 16),
                                          (32, 4096, 40, 8, 80, 256)):  # fmt: skip
            batch = max(1, b // self.share)
            pages = length // page

            def make(b: int = batch, n: int = pages, s: tuple[int, ...] = (page, h, d),
                     hq: int = hq, tokens: int = 1) -> tuple[Any, ...]:  # fmt: skip
                table = torch.randperm(b * n, device=self.device).view(b, n).int()
                kv = self._bf16(b * n, *s), self._bf16(b * n, *s)
                lens = torch.full((b,), n * s[0], dtype=torch.int32, device=self.device)
                return self._bf16(b * tokens, hq, s[2]), *kv, table, lens

            yield Case(f"attention_paged {batch}x{length}, {hq}/{h} heads of {d}, {page}", make,
                       OPS.attention_paged, None, 4 * batch * length * h * d)  # fmt: skip
            if d != 128:
                continue
            tokens = 512 // min(4, self.share)
            ends = self._ends([tokens])
            yield Case(f"attention_paged, {tokens} tokens of {length}",
                       lambda f=make, t=tokens: f(b=1, tokens=t),
                       lambda q, k, v, t, n, e=ends: OPS.attention_paged(
                           q, k, v, t, n, cu_seqlens_q=e, causal=True),
                       None, 4 * length * h * d, 4 * tokens * length * hq * d)  # fmt: skip

    def _latent(self) -> Iterator[Case]:
        for b, s, length, heads in MLA:
            batch = max(1, b // self.share)
            tokens = max(1, s // self.share) if s > 8 else s
            yield Case(f"mla {batch}x{tokens} of {length}, {heads} heads",
                       lambda b=batch, s=tokens, n=length, h=heads: (
                           self._bf16(b, s, h, 512), self._bf16(b, s, h, 64),
                           self._bf16(b, n, 1, 512), self._bf16(b, n, 1, 64)),
                       OPS.mla, None, 2 * batch * (576 * length + 1088 * tokens * heads),
                       2 * batch * tokens * heads * length * 1088)  # fmt: skip

    def _gradients(self) -> Iterator[Case]:
        for b, s, length, hq, h, d, dtype in (
            (2, 4096, 77, 8, 8, 40, torch.bfloat16), (2, 2048, 2048, 32, 8, 128, torch.bfloat16),
            (2, 1024, 1024, 16, 16, 96, torch.bfloat16), (2, 1024, 1024, 12, 12, 64, torch.float32),
            (256, 49, 49, 6, 6, 32, torch.bfloat16), (1, 1024, 1024, 8, 8, 512, torch.bfloat16),
        ):  # fmt: skip
            batch, tokens = max(1, b // self.share), max(1, s // min(4, self.share))

            def make(shape: Any = (batch, tokens, length, hq, h, d), t: Any = dtype) -> Any:
                q, k, v = (x.to(t) for x in self._qkv(*shape))
                return (torch.randn_like(q), q, k, v, torch.randn_like(q),
                        self._f32(shape[0], shape[3], shape[1]) + math.log(shape[2]))  # fmt: skip

            yield Case(f"attention_backward {str(dtype)[6:]} {batch}x{tokens} of {length}, "
                       f"{hq}/{h} heads of {d}", make, OPS.attention_backward, None,
                       8 * batch * tokens * hq * d,
                       10 * batch * tokens * length * hq * d)  # fmt: skip
