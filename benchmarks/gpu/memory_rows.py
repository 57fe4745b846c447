"""The memory-bound operators that torch_peers.py measures: ours and PyTorch's call of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from card import Timings
from replay import OPS, Call, normal

HEAD, LENGTH = 128, 4096  # dims of a head, and positions of a sequence at most
EPS = 1e-6


@dataclass
class Row:
    """One operator on one shape, and what must be moved.

    `peer` is what eager PyTorch does. Where that is a kernel or a graph of its own that rounds in
    between, `composite` is the definition, which torch.compile gets and results are compared with.
    """

    name: str
    shape: tuple[int, ...]
    make: Callable[[], tuple[Any, ...]]
    ours: Call
    peer: Call
    bytes: int
    tolerance: float = 2e-2
    composite: Call | None = None
    timings: Timings = field(default_factory=Timings)

    def definition(self) -> Call:
        """What results are compared with."""
        return self.composite or self.peer


def _rotate_half(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.float().chunk(2, -1)
    c, s = cos[None, :, None], sin[None, :, None]
    return torch.cat((a * c - b * s, b * c + a * s), -1).to(x.dtype)


def _add_norm(x: Any, r: Any, w: Any) -> Any:
    added = x + r
    return F.rms_norm(added, (x.shape[-1],), w, EPS), added


def _row_ops(rows: int, cols: int) -> list[Row]:
    n, shape = rows * cols * 2, (rows, cols)
    one, many = (lambda: (normal(rows, cols),)), (lambda k: lambda: operands(rows, cols, k))
    weighted = lambda: (normal(rows, cols), normal(cols))  # noqa: E731
    return [
        Row("rms_norm", shape, weighted, OPS.rms_norm,
            lambda x, w: F.rms_norm(x, (cols,), w, EPS), 2 * n),
        Row("fused_add_rms_norm", shape, lambda: (*many(2)(), normal(cols)),
            OPS.fused_add_rms_norm, _add_norm, 4 * n),
        Row("layer_norm", shape, lambda: (*weighted(), normal(cols)), OPS.layer_norm,
            lambda x, w, b: F.layer_norm(x, (cols,), w, b), 2 * n),
        Row("softmax", shape, one, OPS.softmax, lambda x: F.softmax(x, -1), 2 * n),
        Row("log_softmax", shape, one, OPS.log_softmax, lambda x: F.log_softmax(x, -1), 2 * n),
        Row("sum", shape, one, lambda x: OPS.sum(x, -1), lambda x: x.sum(-1), n),
        Row("sum dim 0", shape, one, lambda x: OPS.sum(x, 0), lambda x: x.sum(0), n, 5e-2),
        Row("sum of all", shape, one, lambda x: OPS.sum(x.view(-1), 0), torch.sum, n),
        Row("argmax", shape, one, lambda x: OPS.argmax(x, -1), lambda x: x.argmax(-1), n),
        Row("silu_and_mul", shape, lambda: (normal(rows, 2 * cols),), OPS.silu_and_mul,
            lambda x: F.silu(x[:, :cols]) * x[:, cols:], 3 * n),
        Row("swiglu", shape, many(2), OPS.swiglu, lambda g, u: F.silu(g) * u, 3 * n),
        Row("gelu", shape, one, OPS.gelu, F.gelu, 2 * n),
        Row("gelu_tanh", shape, one, lambda x: OPS.gelu(x, "tanh"),
            lambda x: F.gelu(x, approximate="tanh"), 2 * n),
        Row("add", shape, many(2), OPS.add, torch.add, 3 * n),
        Row("dropout", shape, one, lambda x: OPS.dropout(x, 0.1, 7),
            lambda x: F.dropout(x, 0.1), 2 * n),
    ]  # fmt: skip


def _moves(rows: int, cols: int) -> list[Row]:
    n, shape = rows * cols * 2, (rows, cols)
    one = lambda: (normal(rows, cols),)  # noqa: E731
    other = torch.empty(1, device="cuda")
    cast = lambda x, like: x.to(like.dtype)  # noqa: E731
    return [
        Row("copy", shape, one, OPS.copy, torch.clone, 2 * n),
        Row("transpose", shape, one, lambda x: OPS.transpose(x, 0, 1),
            lambda x: x.t().contiguous(), 2 * n),
        Row("type_as, bf16 to f32", shape, lambda: (*one(), other), OPS.type_as, cast, 3 * n),
        Row("type_as, f32 to bf16", shape, lambda: (one()[0].float(), other.bfloat16()),
            OPS.type_as, cast, 3 * n),
    ]  # fmt: skip


def _head_ops(rows: int, cols: int) -> list[Row]:
    """Of as many heads as a row has room for."""
    s = min(rows, LENGTH)
    shape = b, s, h, d = rows // s, s, cols // HEAD, HEAD
    n = rows * cols * 2
    table = torch.randn(s, d // 2, device="cuda")
    turned = lambda: (normal(b, s, h, d), table.cos(), table.sin())  # noqa: E731
    return [
        Row("rope", shape, turned, OPS.rope, _rotate_half, 2 * n),
        Row("rope_backward", shape, turned, lambda g, c, s: OPS.rope(g, c, s, inverse=True),
            lambda g, c, s: _rotate_half(g, c, -s), 2 * n),
        Row("permute", shape, lambda: (normal(b, s, h, d),),
            lambda x: OPS.permute(x, [0, 2, 1, 3]), lambda x: x.permute(0, 2, 1, 3).contiguous(),
            2 * n),
    ]  # fmt: skip


def operands(rows: int, cols: int, count: int) -> tuple[torch.Tensor, ...]:
    """So many of the same shape."""
    return tuple(normal(rows, cols) for _ in range(count))


def forward_rows(rows: int, cols: int) -> list[Row]:
    """All of a shape."""
    heads = _head_ops(rows, cols) if cols % HEAD == 0 else []
    return _row_ops(rows, cols) + _moves(rows, cols) + heads


def embedding_row() -> Row:
    """16384 rows of a vocabulary's table."""
    vocabulary, features, rows = 128256, 4096, 16384
    indices = torch.randint(0, vocabulary, (rows,), device="cuda")
    return Row("embedding", (vocabulary, features), lambda: (normal(vocabulary, features), indices),
               OPS.embedding, lambda w, i: F.embedding(i, w), 2 * rows * features * 2)  # fmt: skip
