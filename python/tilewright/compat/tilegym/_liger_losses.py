"""Losses of Liger as TileGym has them."""

from __future__ import annotations

from typing import Any, Literal

import torch

from tilewright import ops
from tilewright.compat._coverage import provided
from tilewright.compat._tensors import tensor
from tilewright.compat.tilegym._backends import uses

Loss = torch.Tensor | tuple[torch.Tensor | None, ...]
Reduction = Literal["mean", "sum", "none"]


def _capped(logits: torch.Tensor, softcap: float | None) -> torch.Tensor:
    if softcap is None:
        return logits
    return tensor(ops.scale(ops.tanh(ops.scale(logits, 1 / softcap)), softcap))


def _weighted(
    logits: torch.Tensor,
    target: torch.Tensor,
    ignore_index: int,
    weight: torch.Tensor,
    reduction: Reduction,
    label_smoothing: float,
    lse_square_scale: float,
) -> torch.Tensor:
    """Cross-entropy whose rows count as much as their targets' classes weigh."""
    rows = logits if logits.dtype == torch.float64 else logits.float()
    by_class = weight.to(rows.dtype)
    each = tensor(ops.cross_entropy(rows, target, ignore_index, "none"))
    counted = target != ignore_index
    weights = torch.where(counted, by_class[target.where(counted, 0)], 0)
    loss = tensor(ops.mul(each, (1 - label_smoothing) * weights))
    lse = tensor(ops.reduce(rows, "logsumexp"))
    if label_smoothing:
        spread = by_class.sum() * lse - tensor(ops.linear(rows, by_class[None]))[:, 0]
        loss = loss + torch.where(counted, label_smoothing / rows.shape[1] * spread, 0)
    squares = torch.where(counted, lse_square_scale * lse.square(), 0)
    if reduction == "none":
        return (loss + squares).to(logits.dtype)
    mean = reduction == "mean"
    total = tensor(ops.sum(loss, 0)) / (weights.sum() if mean else 1)
    return (total + squares.sum() / (counted.sum() if mean else 1)).to(logits.dtype)


@uses("cross_entropy", "reduce", "argmax", "linear")
def cross_entropy(
    input: torch.Tensor,
    target: torch.Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
    weight: torch.Tensor | None = None,
    lse_square_scale: float = 0.0,
    softcap: float | None = None,
    return_z_loss: bool = False,
    return_token_accuracy: bool = False,
    return_predicted_tokens: bool = False,
) -> Loss:
    """Cross-entropy of logits [N, V], and lse_square_scale times the square of each logsumexp.

    Returns:
        The loss; if anything else is asked for, also z loss, accuracy and predictions, or None.
    """
    logits = _capped(input, softcap)
    counted = target != ignore_index
    if reduction == "mean" and not bool(counted.any()):
        reduction = "sum"  # which is 0, as the mean of nothing is here
    options: tuple[Any, ...] = (reduction, label_smoothing, lse_square_scale)
    if weight is None:
        loss = tensor(ops.cross_entropy(logits, target, ignore_index, *options))
    else:
        loss = _weighted(logits, target, ignore_index, weight, *options)
    if not (return_z_loss or return_token_accuracy or return_predicted_tokens):
        return loss
    predicted = torch.where(counted, ops.argmax(logits.detach()), -1)
    hits = (predicted == target).float()
    return (
        loss,
        _z_loss(logits.detach(), counted, reduction, lse_square_scale) if return_z_loss else None,
        (hits if reduction == "none" else hits.sum() / counted.sum().clamp(min=1))
        if return_token_accuracy
        else None,
        predicted if return_predicted_tokens else None,
    )


def _z_loss(
    logits: torch.Tensor, counted: torch.Tensor, reduction: str, scale: float
) -> torch.Tensor:
    lse = tensor(ops.reduce(logits, "logsumexp")).float()
    squares = torch.where(counted, scale * lse.square(), 0)
    if reduction != "none":
        squares = squares.sum() / (counted.sum() if reduction == "mean" else 1)
    return squares.to(logits.dtype)


def _by_chance(
    logits: torch.Tensor,
    target: torch.Tensor,
    ignore_index: int,
    label_smoothing: float,
    reduction: Reduction,
    weight: torch.Tensor | None,
    lse_square_scale: float,
    softcap: float | None,
    *wanted: bool,
) -> Loss:
    """Cross-entropy whose rows, and their z loss, are scaled by the targets' probabilities."""
    capped = _capped(logits, softcap)
    counted = target != ignore_index
    labels = target.where(counted, 0)
    chances = tensor(ops.softmax(capped.detach().float())).gather(1, labels[:, None])[:, 0]
    by_row = chances * counted

    def reduced(rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        rows = rows * by_row
        if reduction == "none":
            return rows
        return rows.sum() / (weights.sum() if reduction == "mean" and counted.any() else 1)

    each = cross_entropy(capped.float(), target, ignore_index, label_smoothing, "none", weight)
    lse = tensor(ops.reduce(capped.float(), "logsumexp"))
    squares = reduced(lse_square_scale * lse.square(), counted)
    shares = counted if weight is None else weight.float()[labels] * counted
    loss = (reduced(tensor(each), shares) + squares).to(logits.dtype)
    extras: Any = (None, None, None)
    if any(wanted[1:]):
        extras = cross_entropy(
            capped.detach(), target, ignore_index, 0.0, reduction, None, 0.0, None, *wanted
        )[1:]
    z_loss = squares.detach().to(logits.dtype) if wanted[0] else None
    return (loss, z_loss, *extras[1:]) if any(wanted) else loss


@uses("fused_linear_cross_entropy", "linear", "cross_entropy", "softmax", "reduce")
def fused_linear_cross_entropy(
    input: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None = None,
    ce_weight: torch.Tensor | None = None,
    ignore_index: int = -100,
    lse_square_scale: float = 0.0,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
    softcap: float | None = None,
    return_z_loss: bool = False,
    accum_dtype: torch.dtype | None = None,
    use_token_scaling: bool = False,
    return_token_accuracy: bool = False,
    return_predicted_tokens: bool = False,
) -> Loss:
    """The cross-entropy of input weightᵀ.

    Its logits never exist as a whole, unless it has a bias, a cap or weights, or more is asked for.
    use_token_scaling makes each row count as much as its target is likely.
    """
    wanted = (return_z_loss, return_token_accuracy, return_predicted_tokens)
    plain = bias is None and softcap is None and ce_weight is None and not use_token_scaling
    if plain and reduction != "none" and not any(wanted):
        options: tuple[Any, ...] = (reduction, label_smoothing, lse_square_scale)
        out = ops.fused_linear_cross_entropy(input, weight, target, ignore_index, *options)
        return tensor(out)
    logits = tensor(ops.linear(input, weight, bias))
    scales = (ce_weight, lse_square_scale, softcap)
    settings: tuple[Any, ...] = (ignore_index, label_smoothing, reduction, *scales, *wanted)
    function = _by_chance if use_token_scaling else cross_entropy
    found = function(logits, target, *settings)
    if isinstance(found, torch.Tensor):
        return found
    extras = (x for x, is_wanted in zip(found[1:], wanted, strict=True) if is_wanted)
    return (found[0], *extras)


def _masked(
    loss: torch.Tensor, shift_labels: torch.Tensor | None, ignore_index: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows that count, and how many."""
    if shift_labels is None:
        return loss, loss.new_full((), len(loss))
    counted = (shift_labels != ignore_index).to(loss.dtype)
    return tensor(ops.mul(loss, counted[:, None])), counted.sum()


def _total(x: torch.Tensor) -> torch.Tensor:
    return tensor(ops.sum(x.reshape(-1)))


@uses("exp", "log", "extremum", "mul", "add", "sum")
def jsd(
    input: torch.Tensor,
    target: torch.Tensor,
    shift_labels: torch.Tensor | None = None,
    beta: float = 0.5,
    ignore_index: int = -100,
) -> torch.Tensor:
    """Beta KL(P, M) + (1 - beta) KL(Q, M), M = beta P + (1 - beta) Q, of logarithms [N, V].

    P is the target's distribution, Q the input's; beta 0 gives KL(P, Q), beta 1 KL(Q, P).
    """
    log_q, log_p = input.float(), target.float()
    q, p = ops.exp(log_q), ops.exp(log_p)
    if beta == 0:
        loss = ops.mul(p, ops.add(log_p, log_q, -1))
    elif beta == 1:
        loss = ops.mul(q, ops.add(log_q, log_p, -1))
    else:
        most = tensor(ops.extremum(log_p, log_q, "maximum")).detach()
        near_p, near_q = (ops.exp(ops.add(x, most, -1)) for x in (log_p, log_q))  # one of them is 1
        log_m = ops.add(ops.log(ops.add(ops.scale(near_p, beta), near_q, 1 - beta)), most)
        of_p = ops.scale(ops.mul(p, ops.add(log_p, log_m, -1)), beta)
        loss = ops.add(of_p, ops.mul(q, ops.add(log_q, log_m, -1)), 1 - beta)
    kept, count = _masked(loss, shift_labels, ignore_index)
    return (_total(kept) / count.clamp(min=1)).to(input.dtype)


@uses("linear", "log_softmax", "exp", "log", "extremum", "mul", "add", "sum")
def fused_linear_jsd(
    student_input: torch.Tensor,
    student_weight: torch.Tensor,
    teacher_input: torch.Tensor,
    teacher_weight: torch.Tensor,
    shift_labels: torch.Tensor | None = None,
    beta: float = 0.5,
    ignore_index: int = -100,
    temperature: float = 1.0,
) -> torch.Tensor:
    """The jsd of two heads' distributions."""
    pairs = ((student_input, student_weight), (teacher_input, teacher_weight))
    student, teacher = (
        ops.log_softmax(ops.scale(ops.linear(x, w).float(), 1 / temperature)) for x, w in pairs
    )
    return jsd(student, teacher.detach(), shift_labels, beta, ignore_index)


def _reduced(name: str, loss: torch.Tensor, reduction: str, count: torch.Tensor) -> torch.Tensor:
    """In float32."""
    if reduction == "none":
        return loss
    divisors: dict[str, Any] = {"sum": 1, "mean": count * loss.shape[-1], "batchmean": count}
    if reduction not in divisors:
        raise ValueError(f"{name}: reduction must be none, sum, mean or batchmean")
    return tensor(_total(loss) / divisors[reduction])


@uses("exp", "mul", "add", "sum")
def kl_div(
    y_pred: torch.Tensor,
    y_true: torch.Tensor,
    reduction: str = "batchmean",
    log_target: bool = False,
    eps: float = 1e-10,
) -> torch.Tensor:
    """KL(y_true, y_pred) of logarithms y_pred [N, V], in float32; y_true: if log_target, too."""
    predicted, true = y_pred.float(), y_true.float()
    if log_target:
        log_true, true = true, tensor(ops.exp(true))
    else:
        log_true = true.clamp(min=eps).log()
    loss = tensor(ops.mul(true, ops.add(log_true, predicted, -1)))
    count = loss.new_full((), len(loss))
    return _reduced("kl_div", loss, reduction, count)


@uses("add", "relu", "sum")
def tvd(
    p: torch.Tensor,
    q: torch.Tensor,
    shift_labels: torch.Tensor | None = None,
    reduction: str = "batchmean",
    ignore_index: int = -100,
) -> torch.Tensor:
    """Half of |p - q| [N, V]; reduced, in float32."""
    difference = ops.add(p.float(), q.float(), -1)
    magnitude = ops.add(ops.relu(difference), ops.relu(ops.scale(difference, -1)))
    loss, count = _masked(ops.scale(magnitude, 0.5), shift_labels, ignore_index)
    made = _reduced("tvd", loss, reduction, count)
    return made.to(p.dtype) if reduction == "none" else made


__all__ = list(provided(vars()))
