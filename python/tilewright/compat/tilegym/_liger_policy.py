"""The policy losses of Liger as TileGym has them: GRPO and what came after."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import ops
from tilewright.compat._coverage import provided
from tilewright.compat._tensors import tensor
from tilewright.compat.tilegym._backends import uses

_CLIPPED = ("grpo", "dapo", "bnpo", "dr_grpo", "luspo")
_OTHERS = ("cispo", "sapo", "vespo")


def _check(loss_type: str, level: str, delta: float | None, phi_seq: Any, **sapo: float) -> None:
    if loss_type not in (*_CLIPPED, *_OTHERS):
        known = ", ".join((*_CLIPPED, *_OTHERS))
        raise ValueError(f"grpo_loss: loss_type {loss_type!r} is none of {known}")
    if level not in ("token", "sequence"):
        raise ValueError(f"grpo_loss: importance_sampling_level {level!r} is no level")
    if loss_type in _OTHERS and level == "sequence":
        raise ValueError(f"grpo_loss: {loss_type} weighs tokens, not sequences")
    if loss_type in _OTHERS and delta is not None:
        raise ValueError(f"grpo_loss: {loss_type} has no delta")
    if loss_type == "vespo" and phi_seq is None:
        raise ValueError("grpo_loss: vespo needs phi_seq")
    for name, temperature in sapo.items():
        if loss_type == "sapo" and temperature <= 0:
            raise ValueError(f"grpo_loss: {name} = {temperature} must be above 0")


def _log_probabilities(
    logits: torch.Tensor, completion_ids: torch.Tensor, temperature: float
) -> torch.Tensor:
    """Of the tokens that were drawn [B, L]; the last logits belong to none."""
    scaled = tensor(ops.scale(logits[:, :-1].float(), 1 / temperature))
    drawn = scaled.gather(-1, completion_ids.long()[..., None])[..., 0]
    return drawn - tensor(ops.reduce(scaled, "logsumexp"))


def _capped(ratio: torch.Tensor, most: float) -> torch.Tensor:
    return tensor(ops.extremum(ratio, ratio.new_full((1,), most), "minimum"))


def _clipped_loss(
    ratio: torch.Tensor,
    advantage: torch.Tensor,
    eps_low: float,
    eps_high: float,
    delta: float | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The worse of the plain and the clipped ratio times the advantage, and where it is clipped."""
    low, high = 1 - eps_low, 1 + eps_high
    plain = ratio if delta is None else _capped(ratio, delta)
    clipped = tensor(ops.activation(ratio, "clamp", low, high))
    loss = ops.extremum(plain * advantage, clipped * advantage, "minimum")
    is_clipped = ((ratio < low) & (advantage < 0)) | ((ratio > high) & (advantage > 0))
    return -tensor(loss), is_clipped.float()


def _token_loss(
    loss_type: str,
    logp: torch.Tensor,
    ratio: torch.Tensor,
    advantage: torch.Tensor,
    eps_high: float,
    sapo_temperatures: tuple[float, float],
    phi_seq: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The losses whose weights are not clipped both ways."""
    none = torch.zeros_like(ratio)
    if loss_type == "cispo":  # the weight itself is not differentiated
        is_clipped = (ratio > eps_high) & (advantage > 0)
        return -_capped(ratio.detach(), eps_high) * advantage * logp, is_clipped.float()
    if loss_type == "vespo":
        assert phi_seq is not None
        return -phi_seq.reshape(-1, 1).float() * advantage * logp, none
    positive, negative = sapo_temperatures
    temperature = torch.where(advantage > 0, positive, negative)
    gate = tensor(ops.sigmoid(temperature * (ratio - 1)))
    return -gate * 4 / temperature * advantage, none


def _divergence(
    logp: torch.Tensor, ref_logp: torch.Tensor | None, ratio: torch.Tensor | None
) -> torch.Tensor:
    """From the reference policy, estimated by the tokens drawn; weighed by their ratios, if any."""
    if ref_logp is None:
        raise ValueError("grpo_loss: beta needs ref_logp")
    distance = ref_logp.float() - logp
    kl = tensor(ops.exp(distance)) - distance - 1
    return kl if ratio is None else kl * ratio


def _reduced(
    loss: torch.Tensor,
    mask: torch.Tensor,
    loss_type: str,
    max_completion_length: int | None,
    num_items_in_batch: torch.Tensor | float | None,
) -> torch.Tensor:
    """The loss of a batch."""
    masked, lengths = loss * mask, mask.sum(-1)
    if loss_type in ("grpo", "sapo"):
        return (masked.sum(-1) / lengths.clamp(min=1)).mean()
    if loss_type == "bnpo":
        return masked.sum() / lengths.sum().clamp(min=1)
    if loss_type == "dr_grpo":
        return masked.sum() / (len(loss) * (max_completion_length or loss.shape[1]))
    if loss_type == "luspo":
        return (loss * lengths[:, None]).mean()
    items = lengths.sum() if num_items_in_batch is None else num_items_in_batch
    return masked.sum() / torch.as_tensor(items, device=loss.device).float().clamp(min=1)


@uses("scale", "reduce", "exp", "extremum", "activation", "sigmoid")
def grpo_loss(
    logits: torch.Tensor,
    old_logp: torch.Tensor | None,
    ref_logp: torch.Tensor | None,
    completion_ids: torch.Tensor,
    advantages: torch.Tensor,
    completion_mask: torch.Tensor | None = None,
    temperature: float = 0.9,
    beta: float = 0.0,
    eps_low: float = 0.2,
    eps_high: float = 0.2,
    inplace: bool = True,
    loss_type: str = "grpo",
    max_completion_length: int | None = None,
    reduce: bool = False,
    importance_sampling_level: str = "token",
    sapo_temperature_pos: float = 1.0,
    sapo_temperature_neg: float = 1.05,
    vllm_is_ratio: torch.Tensor | None = None,
    delta: float | None = None,
    use_bias_correction_kl: bool = False,
    num_items_in_batch: torch.Tensor | float | None = None,
    phi_seq: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
    """The policy's loss of completions [B, L] from logits [B, L + 1, N].

    Returns:
        The loss of each token, its divergence from the reference (None for beta = 0), and whether
        its ratio was clipped; reduced: the loss, the mean divergence, the share that was clipped.
    """
    sapo = {
        "sapo_temperature_pos": sapo_temperature_pos,
        "sapo_temperature_neg": sapo_temperature_neg,
    }
    _check(loss_type, importance_sampling_level, delta, phi_seq, **sapo)
    logp = _log_probabilities(logits, completion_ids, temperature)
    mask = torch.ones_like(logp) if completion_mask is None else completion_mask.float()
    log_ratio = logp - (logp.detach() if old_logp is None else old_logp.float())
    if importance_sampling_level == "sequence":
        log_ratio = (log_ratio * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(1)
    ratio = tensor(ops.exp(log_ratio))
    advantage = advantages.float()[:, None]
    if loss_type in _CLIPPED:
        loss, is_clipped = _clipped_loss(ratio, advantage, eps_low, eps_high, delta)
    else:
        options = (eps_high, (sapo_temperature_pos, sapo_temperature_neg), phi_seq)
        loss, is_clipped = _token_loss(loss_type, logp, ratio, advantage, *options)
    if vllm_is_ratio is not None and loss_type != "vespo":  # phi_seq has it in it
        loss = loss * vllm_is_ratio.float().reshape(len(logp), -1)
    kl = None
    if beta:
        kl = _divergence(logp, ref_logp, ratio if use_bias_correction_kl else None)
        loss = loss + beta * kl
    loss, is_clipped = loss.expand_as(mask), is_clipped.expand_as(mask)
    if not reduce:
        return loss * mask, None if kl is None else kl * mask, is_clipped * mask
    count = mask.sum().clamp(min=1)
    total = _reduced(loss, mask, loss_type, max_completion_length, num_items_in_batch)
    share = (is_clipped * mask).sum() / count
    return total, None if kl is None else (kl * mask).sum() / count, share


__all__ = list(provided(vars()))
