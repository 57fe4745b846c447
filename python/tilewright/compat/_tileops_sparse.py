"""TileOPs' sparse attention: lists of keys, and what makes them."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._sparse_attention import (
    attend_to_latent_lists,
    attend_to_lists,
    largest,
    sequence_starts,
    valid_first,
)
from tilewright.compat._tensors import tensor

_MOST_SCORES = 1 << 24  # of all heads, that are held at a time


@uses("mla_paged")
def deep_seek_sparse_attention_decode_with_kv_cache(
    q: torch.Tensor,
    kv: torch.Tensor,
    indices: torch.Tensor,
    *,
    dim_tail: int,
    topk: int,
    stride_kv: int,
    q_start_index_s: int | None,
    is_causal: bool = True,
    sm_scale: float | None = None,
) -> torch.Tensor:
    """Queries [B, S, H, D] over the keys [B, M, Hkv, D] at indices [B, S, Hkv, topk].

    Values are the keys without their last dim_tail dimensions. A key stands for stride_kv positions
    and is seen from its last one on; the first queries, which see none, see key 0.
    """
    batch, length, heads, _ = q.shape
    keys, kv_heads = kv.shape[1:3]
    if indices.shape != (batch, length, kv_heads, topk):
        raise ValueError(f"indices {tuple(indices.shape)} must be [B, S, Hkv, topk = {topk}]")
    start = keys * stride_kv - length if q_start_index_s is None else q_start_index_s
    position = torch.arange(length, device=q.device)
    ends = torch.full_like(position, keys)
    if is_causal:
        ends = ((position + start + 1) // stride_kv).clamp(max=keys)
    if stride_kv > 1:
        is_first = (position < stride_kv - 1)[:, None, None]
        lacks = is_first & (indices != 0).all(-1, keepdim=True)
        indices = torch.cat([torch.where(lacks, 0, -1).to(indices.dtype), indices], -1)
        ends = torch.where(position < stride_kv - 1, ends.clamp(min=min(keys, 1)), ends)
    rows, lengths = valid_first(
        indices.flatten(0, 1), sequence_starts(batch, length, keys, q), ends.repeat(batch)
    )
    queries, tails = q.flatten(0, 1).tensor_split([q.shape[3] - dim_tail], -1)
    latent, rotated = kv.flatten(0, 1).tensor_split([kv.shape[3] - dim_tail], -1)
    out, _ = attend_to_latent_lists(queries, tails, latent, rotated, rows, lengths, sm_scale)
    return out.view(batch, length, heads, -1)


@uses("attention_paged")
def nsa_fwd_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_indices: torch.Tensor,
    block_counts: torch.Tensor,
    offsets: torch.Tensor,
    token_indices: torch.Tensor,
    *,
    is_causal: bool,
    scale: float | None,
    block_size: int,
    groups: int,
    selected_blocks: int,
) -> torch.Tensor:
    """Tokens [T, H, D] over the first block_counts [T, Hkv] of their blocks [T, Hkv, selected].

    token_indices [T, 2] are the sequence of each token and its position there.
    """
    sequence, position = token_indices.long().unbind(-1)
    starts = offsets.long()[sequence]
    ends = position + 1 if is_causal else offsets.long()[sequence + 1] - starts
    slot = torch.arange(block_indices.shape[-1], device=q.device)
    chosen = torch.where(slot < block_counts[..., None], block_indices.long(), -1)[..., None]
    within = torch.arange(block_size, device=q.device)
    keys = torch.where(chosen >= 0, chosen * block_size + within, -1)
    rows, lengths = valid_first(keys.flatten(-2), starts, ends)
    return attend_to_lists(q, k, v, rows, lengths, scale)[0]


@uses("attention_paged")
def nsa_cmp_fwd_varlen(
    q: torch.Tensor,
    k_cmp: torch.Tensor,
    v_cmp: torch.Tensor,
    offsets: torch.Tensor,
    chunk_offsets: torch.Tensor,
    token_indices: torch.Tensor,
    *,
    scale: float | None,
    bc: int,
    bs: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens [T, H, D] over the summaries [C, Hkv, D] of the blocks that end before them.

    Also the lse [T, H] in q's dtype; both are 0 before the end of the first block.
    """
    out, lse = attend_to_summaries(q, k_cmp, v_cmp, chunk_offsets, token_indices, scale, bs)
    return out, torch.where(lse > -torch.inf, lse, 0.0).to(q.dtype)


def attend_to_summaries(
    q: torch.Tensor,
    k_cmp: torch.Tensor,
    v_cmp: torch.Tensor,
    chunk_offsets: torch.Tensor,
    token_indices: torch.Tensor,
    scale: float | None,
    bs: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As nsa_cmp_fwd_varlen, with the lse in float32, -inf before the end of the first block."""
    sequence, position = token_indices.long().unbind(-1)
    closed = (position + 1) // bs
    first = chunk_offsets.long()[sequence]
    most = int(closed.max()) if len(closed) else 0
    heads = k_cmp.shape[1]
    rows = first[:, None, None] + torch.arange(most, device=q.device)
    lengths = closed[:, None].expand(-1, heads)
    return attend_to_lists(q, k_cmp, v_cmp, rows.expand(-1, heads, -1), lengths, scale)


@uses("matmul", "reduce", "exp", "sum", "topk")
def nsa_topk_varlen(
    q: torch.Tensor,
    k_cmp: torch.Tensor,
    lse_in: torch.Tensor,
    offsets: torch.Tensor,
    chunk_offsets: torch.Tensor,
    token_indices: torch.Tensor,
    *,
    scale: float,
    selected_block_num: int,
    bc: int,
    bs: int,
) -> torch.Tensor:
    """The blocks of each token that weigh most over its heads [T, Hkv, selected], -1 for none.

    A block's weight is that of its summary among those that end before the token; the token's own
    block weighs 1 for each head. Weights are told apart by 1e-5; of equal ones the last comes
    first. The lse is worked out again: lse_in is not read.
    """
    return _selected(q, k_cmp, offsets, chunk_offsets, scale, selected_block_num, bs, _is_own)


@uses("matmul", "reduce", "exp", "sum", "topk")
def nsa_top_k_varlen(
    q: torch.Tensor,
    k_cmp: torch.Tensor,
    offsets: torch.Tensor,
    chunk_offsets: torch.Tensor,
    token_indices: torch.Tensor,
    *,
    scale: float,
    selected_block_num: int,
    bs: int,
) -> torch.Tensor:
    """As nsa_topk_varlen, but the first block and the one before the token's own weigh 1, too.

    The queries are scaled in their dtype.
    """
    given = (q * scale, k_cmp, offsets, chunk_offsets, 1.0, selected_block_num, bs)
    return _selected(*given, lambda block, own: (block == 0) | (block == own) | (block == own - 1))


Mask = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _is_own(block: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    return block == own


def _selected(
    q: torch.Tensor,
    k_cmp: torch.Tensor,
    offsets: torch.Tensor,
    chunk_offsets: torch.Tensor,
    scale: float,
    count: int,
    bs: int,
    is_whole: Mask,
) -> torch.Tensor:
    """The `count` heaviest blocks of each token and head of keys [T, Hkv, count]; -1 for no more.

    A block of which is_whole(block, the token's) is true weighs 1 for each head of queries.
    """
    chosen = q.new_full((len(q), k_cmp.shape[1], count), -1, dtype=torch.int32)
    bounds, chunks = offsets.tolist(), chunk_offsets.tolist()
    for begin, end, chunk in zip(bounds, bounds[1:], chunks, strict=False):
        if end > begin:
            blocks = -(-(end - begin) // bs)
            keys = k_cmp[chunk : chunk + blocks]
            weights = _block_weights(q[begin:end], keys, scale, bs, is_whole)
            chosen[begin:end] = _heaviest(weights, count, bs)
    return chosen


def _block_weights(
    q: torch.Tensor, keys: torch.Tensor, scale: float, bs: int, is_whole: Mask
) -> torch.Tensor:
    """Of blocks, for each token and head of keys [T, Hkv, blocks]."""
    length, q_heads, dims = q.shape
    blocks, heads = keys.shape[:2]
    group = q_heads // heads
    rows = q.detach().float().view(length, heads, group, dims).transpose(0, 1).flatten(1, 2)
    scores = ops.matmul(rows.contiguous(), keys.detach().float().permute(1, 2, 0), scale)
    scores = tensor(scores).view(heads, length, group, blocks)
    position = torch.arange(length, device=q.device)[:, None, None]
    block = torch.arange(blocks, device=q.device)
    closed = scores.masked_fill(block >= (position + 1) // bs, -torch.inf)
    lse = tensor(ops.reduce(closed, "logsumexp"))[..., None]
    lse = torch.where(torch.isfinite(lse), lse, 0.0)
    own = position // bs
    before = tensor(ops.exp(scores - lse))
    each = torch.where(is_whole(block, own), 1.0, before).masked_fill(block > own, 0.0)
    weights = tensor(ops.sum(each, 2))
    return weights.transpose(0, 1)


def _heaviest(weights: torch.Tensor, count: int, bs: int) -> torch.Tensor:
    """Which blocks up to the token's own weigh most, the last one of equals first."""
    length, heads, blocks = weights.shape
    steps = (weights / 1e-5).round().flip(-1).contiguous()
    own = torch.arange(length, dtype=torch.int32, device=weights.device) // bs
    first = (blocks - 1 - own)[:, None].expand(-1, heads).contiguous()
    found = largest(steps, count, starts=first)
    return torch.where(found >= 0, blocks - 1 - found, -1)


@uses("topk")
def topk_selector(
    index_score: torch.Tensor, starts: torch.Tensor, ends: torch.Tensor, *, topk: int
) -> torch.Tensor:
    """The keys in starts .. ends [B, S] that score most: [B, S, G, topk] of scores [B, S, M, G].

    M where there are no more.
    """
    keys, groups = index_score.shape[2:]
    bounds = [x[..., None].expand(-1, -1, groups).int().contiguous() for x in (starts, ends)]
    found = largest(index_score.transpose(2, 3), topk, starts=bounds[0], ends=bounds[1])
    return torch.where(found >= 0, found, keys)


@uses("matmul", "relu", "mul", "where")
def fp8_lightning_indexer(
    index_q: torch.Tensor,
    index_k: torch.Tensor,
    weights: torch.Tensor,
    cu_seqlen_ks: torch.Tensor,
    cu_seqlen_ke: torch.Tensor,
    index_k_scale: torch.Tensor | None = None,
    *,
    clean_logits: bool = True,
) -> torch.Tensor:
    """Scores [B, S, M, G] of keys [B, M, G, D]: sums over heads of weights [S, H] * relu(q k).

    Keys outside cu_seqlen_ks .. cu_seqlen_ke [S] score -inf. What is not given in 8 bits is
    quantized first, keys by their largest magnitude.

    Raises:
        ValueError: there are scales of keys that are not in 8 bits.
    """
    if index_k_scale is not None and index_k.itemsize > 1:
        raise ValueError(f"index_k_scale is of keys in float8_e4m3fn, not in {index_k.dtype}")
    batch, length, heads, dims = index_q.shape
    keys, groups = index_k.shape[1:3]
    q, wide = index_q, index_k.float()
    if index_q.itemsize > 1:
        q = index_q.to(torch.float8_e4m3fn)
    if index_k.itemsize > 1 and index_k_scale is None:
        index_k_scale = wide.abs().amax(-1).clamp(min=1e-4) / 448
        wide = (wide / index_k_scale[..., None]).to(torch.float8_e4m3fn).float()
    if index_k_scale is not None:
        wide = tensor(ops.mul(wide, index_k_scale[..., None]))
    columns = wide.permute(0, 2, 3, 1).flatten(0, 1)  # [B G, D, M]
    share = heads // groups
    by_head = weights.float().view(length, groups, share)
    position = torch.arange(keys, device=q.device)
    seen = (position >= cu_seqlen_ks[:, None]) & (position < cu_seqlen_ke[:, None])
    logits = q.new_empty((batch, length, keys, groups), dtype=torch.float32)
    step = max(1, _MOST_SCORES // max(batch * heads * keys, 1))
    for at in range(0, length, step):
        count = min(step, length - at)
        part = q[:, at : at + step].float().view(batch, count, groups, share, dims)
        rows = part.transpose(1, 2).reshape(batch * groups, count * share, dims)
        shape = (batch * groups * count, share, keys)
        scores = tensor(ops.relu(ops.matmul(rows, columns))).view(shape)
        each = by_head[at : at + step].transpose(0, 1).expand(batch, -1, -1, -1)
        sums = tensor(ops.matmul(each.reshape(shape[0], 1, share), scores))
        sums = sums.view(batch, groups, count, keys).permute(0, 2, 3, 1)
        mask = seen[None, at : at + step, :, None]
        logits[:, at : at + step] = ops.where(mask, sums, sums.new_full((1,), -torch.inf))
    return logits


__all__ = list(provided(vars()))
