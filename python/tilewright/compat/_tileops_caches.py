"""TileOPs' writes to and reads from caches in pages, and sums of partial attention."""

from __future__ import annotations

import math

import torch

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._tensors import dtype_of, places_of, tensor
from tilewright.compat._tileops_rope import rotated_by_table

_LARGEST = torch.finfo(torch.float8_e4m3fn).max


def _slots_of(cache: torch.Tensor) -> torch.Tensor:
    """A row for each slot; of 8 bits as integers, which are what indexing takes everywhere."""
    rows = cache.view(-1, *cache.shape[2:])
    return rows.view(torch.int8) if cache.element_size() == 1 else rows


def _write(
    cache: torch.Tensor, slots: torch.Tensor, rows: torch.Tensor, scale: torch.Tensor | None
) -> None:
    """Rows to their slots of the pages [P, S, ...]; none of -1."""
    is_kept = slots >= 0
    kept = rows[is_kept]
    if scale is not None:
        kept = (kept.float() / scale).clamp(-_LARGEST, _LARGEST)
    to = _slots_of(cache)
    to[slots[is_kept]] = kept.to(cache.dtype).view(to.dtype)


@uses()
def paged_kv_cache_write(
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
) -> None:
    """Keys and values [N, H, D] to their slots of the pages [P, S, H, D]; none of slot -1."""
    _write(k_cache, slot_mapping, k, k_scale)
    _write(v_cache, slot_mapping, v, v_scale)


@uses("rope")
def mla_kv_cache_write(
    kv_c: torch.Tensor,
    k_pe: torch.Tensor,
    kv_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    kv_scale: torch.Tensor | None = None,
    positions: torch.Tensor | None = None,
    cos_sin_cache: torch.Tensor | None = None,
    *,
    fuse_rope: bool = False,
    rope_layout: str = "neox",
) -> None:
    """Latents [N, C] and keys [N, R] side by side to their slots of the pages [P, S, C + R].

    With fuse_rope, keys are rotated by the cosines and sines of their positions.
    """
    if fuse_rope:
        if positions is None or cos_sin_cache is None:
            raise ValueError("mla_kv_cache_write: fuse_rope needs positions and cos_sin_cache")
        k_pe = rotated_by_table(k_pe[:, None], positions, cos_sin_cache, rope_layout)[:, 0]
    _write(kv_cache, slot_mapping, torch.cat([kv_c, k_pe], -1), kv_scale)


@uses()
def paged_kv_cache_gather(
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    cu_seqlens: torch.Tensor,
    seq_starts: torch.Tensor | None = None,
    kv_scale: torch.Tensor | None = None,
    *,
    out: torch.Tensor,
    out_dtype: str | torch.dtype | None = None,
    validate_inputs: bool = False,
) -> torch.Tensor:
    """The rows of each request in a cache of pages [P, S, ...], one after the other, in `out`."""
    if out_dtype is not None and dtype_of(out_dtype) != out.dtype:
        raise ValueError(f"paged_kv_cache_gather: out is {out.dtype}, not {out_dtype}")
    page = kv_cache.shape[1]
    request, place = places_of(cu_seqlens, len(out))
    if seq_starts is not None:
        place = place + seq_starts[request]
    slots = block_table[request, place // page].long() * page + place % page
    rows = _slots_of(kv_cache)[slots].view(kv_cache.dtype)
    return out.copy_(rows if kv_scale is None else rows.float() * kv_scale)


@uses("softmax", "reduce", "mul", "sum")
def merge_attention_states(
    v_a: torch.Tensor,
    s_a: torch.Tensor,
    v_b: torch.Tensor,
    s_b: torch.Tensor,
    *,
    lse_base: str = "e",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention [T, H, D] to two sets of keys as one, by the logarithms [T, H] of their sums.

    A state of -inf counts for nothing, two of them make zeros.
    """
    if lse_base not in ("e", "2"):
        raise ValueError(f"merge_attention_states: lse_base {lse_base!r} is neither e nor 2")
    unit = math.log(2) if lse_base == "2" else 1.0
    states = torch.stack([s_a, s_b], -1).float() * unit
    is_none = states == -torch.inf
    both = is_none.all(-1, keepdim=True)
    weights = tensor(ops.softmax(states.masked_fill(both, 0)))
    values = torch.stack([v_a, v_b], -2).float().masked_fill(is_none[..., None], 0)
    total = tensor(ops.sum(ops.mul(values, weights[..., None]), -2)).to(v_a.dtype)
    return total, tensor(ops.reduce(states, "logsumexp")) / unit


__all__ = list(provided(vars()))
