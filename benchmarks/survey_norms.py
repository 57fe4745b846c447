"""Norms, gates and their gradients, on views and short rows, for benchmarks/survey.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from survey_case import OPS, Case, Operands

ATEN = torch.ops.aten
# Tokens of an image, windows of one, heads of a model, odd.
NORMED = [(12608, 768), (401408, 96), (8192, 64), (262144, 128), (8192, 1023), (2048, 5120)]
GATED = [(8192, 11008), (8192, 1408), (4096, 1001), (128, 14336), (1, 14336)]
GRADIENTS_ALONG = [((32768, 4096), 1), ((524288, 128), 1), ((4096, 50257), 1), ((32, 1000, 64), 1),
                   ((4096, 4096), 0)]  # fmt: skip
MAPS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "gelu": (OPS.gelu, F.gelu),
    "silu": (OPS.silu, F.silu),
    "mish": (lambda x: OPS.activation(x, "mish"), F.mish),
    "softplus": (lambda x: OPS.activation(x, "softplus", 1.0, 20.0), F.softplus),
    "erf": (OPS.erf, torch.erf),
    "dropout": (OPS.dropout, lambda x: F.dropout(x, 0.5, True)),
}


def _rms(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)


class Norms(Operands):
    """Those that models call between products."""

    def cases(self) -> Iterator[Case]:
        """All of them."""
        for group in (self._norms, self._views, self._gates, self._along, self._maps,
                      self._segments):  # fmt: skip
            yield from group()

    def _norms(self) -> Iterator[Case]:
        for rows, c in NORMED:
            n = max(1, rows // self.share)
            one = lambda n=n, c=c: (self._bf16(n, c), self._bf16(c))  # noqa: E731
            moved = 4 * n * c
            yield Case(f"rms_norm {n}x{c}", one, OPS.rms_norm, _rms, moved)
            yield Case(f"layer_norm {n}x{c}", lambda f=one, c=c: (*f(), self._bf16(c)),
                       OPS.layer_norm, lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b),
                       moved)  # fmt: skip
            yield Case(f"rms_norm_backward {n}x{c}",
                       lambda n=n, c=c, f=one: (self._bf16(n, c), *f()),
                       OPS.rms_norm_backward, None, 6 * n * c)  # fmt: skip
            yield Case(f"layer_norm_backward {n}x{c}",
                       lambda n=n, c=c, f=one: (self._bf16(n, c), *f(), self._f32(n, 1),
                                                self._f32(n, 1).abs() + 1),
                       lambda g, x, w, _m, _r: OPS.layer_norm_backward(g, x, w),
                       lambda g, x, w, m, r: ATEN.native_layer_norm_backward(
                           g, x, (x.shape[-1],), m.to(x.dtype) if x.device.type == "cpu" else m,
                           r.to(x.dtype) if x.device.type == "cpu" else r, w, w,
                           (True, True, True)), 6 * n * c)  # fmt: skip
            yield Case(f"fused_add_rms_norm {n}x{c}", lambda n=n, c=c, f=one: (
                           self._bf16(n, c), *f()), OPS.fused_add_rms_norm,
                       lambda x, r, w: _rms(x + r, w), 8 * n * c)  # fmt: skip

    def _views(self) -> Iterator[Case]:
        """Heads of the joint projection, and rows that start anywhere."""
        tokens = 8192 // self.share
        heads = lambda: self._bf16(tokens, 48, 128)[:, :32]  # noqa: E731
        n = tokens * 32 * 128
        yield Case("rms_norm of heads", lambda: (heads(), self._bf16(128)), OPS.rms_norm, _rms,
                   4 * n)  # fmt: skip
        yield Case("rms_norm_backward of heads",
                   lambda: (self._bf16(tokens, 32, 128), heads(), self._bf16(128)),
                   OPS.rms_norm_backward, None, 6 * n)  # fmt: skip
        later = lambda: self._bf16(tokens, 4097)[:, 1:]  # noqa: E731
        n = tokens * 4096
        for name, (ours, peer) in {
            "softmax": (lambda x: OPS.softmax(x, -1), lambda x: F.softmax(x, -1)),
            "sum": (lambda x: OPS.sum(x, -1), lambda x: x.sum(-1)),
            "silu": (OPS.silu, F.silu),
            "add": (lambda x: OPS.add(x, x), lambda x: x + x),
        }.items():
            yield Case(f"{name} of later columns", lambda: (later(),), ours, peer, 4 * n)
        yield Case("layer_norm of later columns", lambda: (later(), *(self._bf16(4096),) * 2),
                   OPS.layer_norm, lambda x, w, b: F.layer_norm(x, (4096,), w, b),
                   4 * n)  # fmt: skip
        rest = tokens // 64
        yield Case("softmax of scores with a mask's layout",
                   lambda: (self._bf16(rest, 197, 12, 197).transpose(1, 2),),
                   lambda x: OPS.softmax(x, -1), lambda x: F.softmax(x, -1),
                   4 * rest * 197 * 12 * 197)  # fmt: skip

    def _gates(self) -> Iterator[Case]:
        def silu(x: torch.Tensor) -> torch.Tensor:
            gate, up = x.chunk(2, -1)
            return F.silu(gate) * up

        for rows, h in GATED:
            n = max(1, rows // self.share)
            one = lambda n=n, h=h: (self._bf16(n, 2 * h),)  # noqa: E731
            yield Case(f"silu_and_mul {n}x{h}", one, OPS.silu_and_mul, silu, 6 * n * h)
            yield Case(f"silu_and_mul_backward {n}x{h}",
                       lambda n=n, h=h, f=one: (self._bf16(n, h), *f()),
                       OPS.silu_and_mul_backward, None, 10 * n * h)  # fmt: skip
            yield Case(f"swiglu {n}x{h}", lambda n=n, h=h: (self._bf16(n, h), self._bf16(n, h)),
                       OPS.swiglu, lambda g, u: F.silu(g) * u, 6 * n * h)  # fmt: skip
            yield Case(f"gelu_tanh_and_mul {n}x{h}", one, OPS.gelu_tanh_and_mul, None, 6 * n * h)

    def _along(self) -> Iterator[Case]:
        for (first, *rest), dim in GRADIENTS_ALONG:
            shape = (max(1, first // self.share), *rest)
            n = math.prod(shape)
            less = tuple(s for i, s in enumerate(shape) if i != dim)
            whole = lambda s=shape: (self._bf16(*s), self._bf16(*s))  # noqa: E731
            yield Case(f"softmax_backward {shape} dim {dim}", whole,
                       lambda g, y, d=dim: OPS.softmax_backward(g, y, d),
                       lambda g, y, d=dim: ATEN._softmax_backward_data(g, y, d, y.dtype),
                       6 * n)  # fmt: skip
            yield Case(f"log_softmax_backward {shape} dim {dim}", whole,
                       lambda g, y, d=dim: OPS.log_softmax_backward(g, y, d),
                       lambda g, y, d=dim: ATEN._log_softmax_backward_data(g, y, d, y.dtype),
                       6 * n)  # fmt: skip
            yield Case(f"log_softmax {shape} dim {dim}", lambda f=whole: f()[:1],
                       lambda x, d=dim: OPS.log_softmax(x, d),
                       lambda x, d=dim: F.log_softmax(x, d), 4 * n)  # fmt: skip
            part = lambda s=shape, r=less: (self._bf16(*r), self._bf16(*s))  # noqa: E731
            yield Case(f"sum_backward {shape} dim {dim}", part,
                       lambda g, x, d=dim: OPS.sum_backward(g, x, d),
                       lambda g, x, d=dim: g.unsqueeze(d).expand_as(x).contiguous(),
                       2 * n)  # fmt: skip
            yield Case(f"amax_backward {shape} dim {dim}",
                       lambda f=part, d=dim: (*(t := f()), t[1].amax(d)),
                       lambda g, x, y, d=dim: OPS.amax_backward(g, x, y, d), None,
                       4 * n)  # fmt: skip
            yield Case(f"var_mean_backward {shape} dim {dim}",
                       lambda f=part: (lambda g, x: (x, g, g))(*f()),
                       lambda x, v, m, d=dim: OPS.var_mean_backward(x, v, m, d), None,
                       4 * n)  # fmt: skip
            yield Case(f"norm2_backward {shape} dim {dim}", part,
                       lambda g, x, d=dim: OPS.reduce_backward(g, x, "norm2", d), None,
                       4 * n)  # fmt: skip

    def _maps(self) -> Iterator[Case]:
        for rows, cols in ((8192, 4095), (16, 4096), (1, 1000)):
            n = max(1, rows // self.share)
            for name, (ours, peer) in MAPS.items():
                yield Case(f"{name} {n}x{cols}", lambda n=n, c=cols: (self._bf16(n, c),), ours,
                           peer, 4 * n * cols)  # fmt: skip
            yield Case(f"to f32 {n}x{cols}", lambda n=n, c=cols: (self._bf16(n, c), self._f32(1)),
                       OPS.type_as, lambda x, _: x.float(), 6 * n * cols)  # fmt: skip
        rows = 8192 // self.share
        n = rows * 4096
        pair = lambda: (self._bf16(rows, 4096), self._bf16(rows, 4096))  # noqa: E731
        yield Case("lerp", pair, OPS.lerp, lambda x, y: torch.lerp(x, y, 0.5), 6 * n)
        yield Case("compare", pair, lambda x, y: OPS.compare(x, y, "lt"), torch.lt, 5 * n)
        yield Case("maximum", pair, lambda x, y: OPS.extremum(x, y, "maximum"), torch.maximum,
                   6 * n)  # fmt: skip
        yield Case("compare of i64", lambda: (self._below(9, rows, 4096), self._below(9, 1)),
                   lambda x, y: OPS.compare(x, y, "eq"), torch.eq, 9 * n)  # fmt: skip
        yield Case("rope of positions", lambda: (
                       self._bf16(4, rows // 4, 32, 128), self._f32(8192, 64), self._f32(8192, 64),
                       self._below(8192, 4, rows // 4).int()), OPS.rope, None, 4 * n)  # fmt: skip

    def _segments(self) -> Iterator[Case]:
        b, length, c = 4, 8192 // self.share, 1024
        starts = torch.arange(0, length, 64, device=self.device)
        yield Case("segment_mean of 64", lambda: (self._bf16(b, length, c), starts, starts + 64),
                   OPS.segment_mean,
                   lambda x, s, _e: x.view(b, s.shape[0], 64, c).mean(2),
                   2 * b * length * c)  # fmt: skip
        yield Case("segment_mean of all",
                   lambda: (self._bf16(b, length, c), starts[:1], starts[:1] + length),
                   OPS.segment_mean, lambda x, _s, _e: x.mean(1), 2 * b * length * c)  # fmt: skip
