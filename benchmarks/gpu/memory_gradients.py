"""The gradients and losses that torch_peers.py measures: ours and what PyTorch's autograd calls."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from memory_rows import EPS, Row, operands
from replay import OPS, normal

ATEN = torch.ops.aten
MEAN, IGNORED = 1, -100  # of PyTorch's losses


def _softmax_backward(g: Any, y: Any) -> Any:
    """ATen's kernel takes grad * y, which it rounds."""
    wide, out = g.float(), y.float()
    return (out * (wide - (wide * out).sum(-1, keepdim=True))).to(y.dtype)


def _rms_norm_backward(g: Any, x: Any, w: Any, rstd: Any, *_: Any) -> Any:
    wide, grad = x.float(), g.float()
    scaled = grad * w.float()
    slope = (scaled * wide).mean(-1, keepdim=True) * rstd * rstd
    return ((scaled - wide * slope) * rstd).to(x.dtype), (grad * wide * rstd).sum(0).to(x.dtype)


def _fused_rms_norm_backward(g: Any, x: Any, w: Any, rstd: Any, *_: Any) -> Any:
    return ATEN._fused_rms_norm_backward(g, x, [x.shape[-1]], rstd, w, [True, True])


def _added_rms_norm_backward(g: Any, x: Any, w: Any, rstd: Any, residual: Any) -> Any:
    by_x, by_w = _rms_norm_backward(g, x, w, rstd)
    return by_x + residual, by_w


def _added_fused_backward(g: Any, x: Any, w: Any, rstd: Any, residual: Any) -> Any:
    by_x, by_w = _fused_rms_norm_backward(g, x, w, rstd)
    return by_x + residual, by_w


def _norm_operands(rows: int, cols: int) -> tuple[Any, ...]:
    """grad, x, weight, 1 / rms, and grad once more: the residual's, or for liger to write over."""
    g, x = operands(rows, cols, 2)
    w = normal(cols)
    return g, x, w, ATEN._fused_rms_norm(x, [cols], w, EPS)[1], g.clone()


def _layer_norm_operands(rows: int, cols: int) -> tuple[Any, ...]:
    g, x = operands(rows, cols, 2)
    moments = torch.native_layer_norm(x, [cols], None, None, 1e-5)[1:]
    return (g, x, normal(cols), normal(cols), *moments)


def _norm_gradients(rows: int, cols: int) -> list[Row]:
    n, shape = rows * cols * 2, (rows, cols)
    norm = lambda: _norm_operands(rows, cols)  # noqa: E731
    return [
        Row("rms_norm_backward", shape, norm,
            lambda g, x, w, *_: OPS.rms_norm_backward.full(g, x, w),
            _fused_rms_norm_backward, 3 * n, 5e-2, _rms_norm_backward),
        Row("fused_add_rms_norm_backward", shape, norm,
            lambda g, x, w, _, residual: OPS.rms_norm_backward.full(g, x, w, residual),
            _added_fused_backward, 4 * n, 5e-2, _added_rms_norm_backward),
        Row("layer_norm_backward", shape, lambda: _layer_norm_operands(rows, cols),
            lambda g, x, w, *_: OPS.layer_norm_backward.full(g, x, w),
            lambda g, x, w, b, m, r: ATEN.native_layer_norm_backward(
                g, x, [cols], m, r, w, b, [True, True, True]), 3 * n, 5e-2),
    ]  # fmt: skip


def _swiglu_backward(grad: Any, gate: Any, up: Any, *_: Any) -> Any:
    g, s = gate.float(), torch.sigmoid(gate.float())
    by_gate = grad.float() * up.float() * s * (1 + g * (1 - s))
    return by_gate.to(gate.dtype), (grad.float() * g * s).to(gate.dtype)


def _eager_swiglu_backward(grad: Any, gate: Any, up: Any, *_: Any) -> Any:
    return ATEN.silu_backward(grad * up, gate), grad * F.silu(gate)


def _swiglu_operands(rows: int, cols: int) -> tuple[Any, ...]:
    """grad, gate, up, and these two once more, for liger to write over."""
    grad, gate, up = operands(rows, cols, 3)
    return grad, gate, up, gate.clone(), up.clone()


def _gradients(rows: int, cols: int) -> list[Row]:
    n, shape = rows * cols * 2, (rows, cols)
    two = lambda: operands(rows, cols, 2)  # noqa: E731
    return [
        Row("softmax_backward", shape,
            lambda: (normal(rows, cols), torch.softmax(normal(rows, cols), -1)),
            OPS.softmax_backward,
            lambda g, y: ATEN._softmax_backward_data(g, y, -1, torch.bfloat16), 3 * n, 2e-2,
            _softmax_backward),
        Row("swiglu_backward", shape, lambda: _swiglu_operands(rows, cols),
            lambda g, gate, up, *_: OPS.swiglu_backward(g, gate, up),
            _eager_swiglu_backward, 5 * n, 2e-2, _swiglu_backward),
        Row("silu_and_mul_backward", shape, lambda: (normal(rows, cols), normal(rows, 2 * cols)),
            OPS.silu_and_mul_backward,
            lambda g, x: torch.cat(_eager_swiglu_backward(g, *x.chunk(2, -1)), -1), 5 * n, 2e-2,
            lambda g, x: torch.cat(_swiglu_backward(g, *x.chunk(2, -1)), -1)),
        Row("gelu_backward", shape, two, OPS.gelu_backward, ATEN.gelu_backward, 3 * n),
        Row("gelu_tanh_backward", shape, two, lambda g, x: OPS.gelu_backward(g, x, "tanh"),
            lambda g, x: ATEN.gelu_backward(g, x, approximate="tanh"), 3 * n),
        Row("dropout_backward", shape,  # ours draws the mask again
            lambda: (normal(rows, cols), torch.rand(rows, cols, device="cuda") >= 0.1),
            lambda g, _: OPS.dropout(g, 0.1, 7),
            lambda g, mask: ATEN.native_dropout_backward(g, mask, 1 / 0.9), 2 * n),
    ]  # fmt: skip


def gradient_rows(rows: int, cols: int) -> list[Row]:
    """All of a shape."""
    return _norm_gradients(rows, cols) + _gradients(rows, cols)


def _cross_entropy_backward(grad: Any, x: Any, target: Any, lse: Any, *_: Any) -> Any:
    weights = torch.exp(x.float() - lse[:, None])
    weights.scatter_add_(1, target[:, None], weights.new_full((x.shape[0], 1), -1.0))
    return (weights * (grad.float() / x.shape[0])).to(x.dtype)


def _both(x: Any, target: Any, grad: Any, _: Any) -> Any:
    lse = torch.logsumexp(x.float(), -1)
    loss = (lse - x.gather(1, target[:, None])[:, 0].float()).mean()
    return loss.to(x.dtype), _cross_entropy_backward(grad, x, target, lse)


def _from_log_softmax(grad: Any, target: Any, logs: Any, count: Any) -> Any:
    by_logs = ATEN.nll_loss_backward(grad, logs, target, None, MEAN, IGNORED, count)
    return ATEN._log_softmax_backward_data(by_logs, logs, 1, logs.dtype)


def _eager_both(x: Any, target: Any, grad: Any, _: Any) -> Any:
    logs = F.log_softmax(x, -1)
    loss, count = ATEN.nll_loss_forward(logs, target, None, MEAN, IGNORED)
    return loss, _from_log_softmax(grad, target, logs, count)


def _ours_both(x: Any, target: Any, grad: Any, _: Any) -> Any:
    loss, lse = OPS.cross_entropy.full(x, target)
    return loss, OPS.cross_entropy_backward(grad, x, target, lse)


def loss_rows(rows: int, classes: int) -> list[Row]:
    """Cross-entropy, its gradient, and one after the other."""
    n, shape = rows * classes * 2, (rows, classes)
    labels = torch.randint(0, classes, (rows,), device="cuda")
    one, count = normal(1)[0].fill_(1), torch.full((), float(rows), device="cuda").bfloat16()

    def backward() -> tuple[Any, ...]:
        x = normal(rows, classes)
        return one, x, labels, torch.logsumexp(x.float(), -1), F.log_softmax(x, -1)

    def both() -> tuple[Any, ...]:  # liger writes over the last one
        x = normal(rows, classes)
        return x, labels, one, x.clone()

    return [
        Row("cross_entropy", shape, lambda: (normal(rows, classes), labels),
            OPS.cross_entropy, F.cross_entropy, n),
        Row("cross_entropy_backward", shape, backward,
            lambda grad, x, target, lse, _: OPS.cross_entropy_backward(grad, x, target, lse),
            lambda grad, _, target, __, logs: _from_log_softmax(grad, target, logs, count),
            2 * n, 2e-2, _cross_entropy_backward),
        Row("cross_entropy and its gradient", shape, both, _ours_both, _eager_both, 3 * n, 2e-2,
            _both),
    ]  # fmt: skip
