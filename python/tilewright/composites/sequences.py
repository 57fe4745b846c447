"""Composites of attention in all its forms, rotary embedding and linear attention."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from itertools import pairwise

import torch

from tilewright.composites._registry import composite, composite_full, split, wide
from tilewright.composites._score_mods import ScoreMods

Tensor = torch.Tensor
Outputs = tuple[Tensor, Tensor]  # and the logarithms of the sums


def _factor(scale: float, dims: int) -> float:
    return scale or 1 / math.sqrt(max(dims, 1))


@dataclasses.dataclass(frozen=True)
class Mask:
    """What a query sees: the last one stands at the last key."""

    scale: float
    causal: bool
    left: int = -1
    window_right: int = -1
    softcap: float = 0
    slopes: Tensor | None = None
    mods: ScoreMods | None = None
    batch: int = 0  # of which sequence it is

    @property
    def right(self) -> int:
        """Keys seen after the own position; < 0: all."""
        return 0 if self.causal else self.window_right

    @staticmethod
    def behind(queries: int, keys: int, device: torch.device) -> Tensor:
        """How far keys are behind queries."""
        at = torch.arange(queries, device=device)[:, None] + keys - queries
        return at - torch.arange(keys, device=device)

    def seen(self, queries: int, keys: int, device: torch.device) -> Tensor:
        """Of which queries which keys are."""
        behind = self.behind(queries, keys, device)
        out = torch.ones_like(behind, dtype=torch.bool)
        if self.left >= 0:
            out &= behind <= self.left
        if self.right >= 0:
            out &= -behind <= self.right
        return out

    def factor(self, q: Tensor) -> float:
        """What products of queries and keys are multiplied with."""
        return _factor(self.scale, q.shape[-1])

    def scores(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """[Hq, S, L] of heads that have keys of their own, and which of them are seen."""
        scores = self.factor(q) * torch.einsum("shd,lhd->hsl", q, k)
        if self.softcap > 0:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        if self.slopes is not None:
            behind = self.behind(q.shape[0], k.shape[0], q.device)
            scores = scores - self.slopes[:, None, None] * behind.abs()
        return scores, self.seen(q.shape[0], k.shape[0], q.device)

    def all_scores(
        self, q: Tensor, k: Tensor, sinks: Tensor | None, bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """As scores, of shared keys, -inf where unseen, and each head's sink as one key more."""
        k = k.repeat_interleave(q.shape[1] // max(k.shape[1], 1), 1)
        scores, seen = self.scores(q, k)
        scores = scores if bias is None else scores + bias
        if self.mods is not None:
            scores, sees = self.mods.apply(scores, self.batch)
            seen = seen & sees
        scores = scores.masked_fill(~seen, -math.inf)
        if sinks is not None:
            scores = torch.cat((scores, sinks[:, None, None].expand(-1, q.shape[0], 1)), -1)
        return scores, seen

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None, bias: Tensor | None = None
    ) -> Outputs:
        """[S, Hq, Dv] of [S, Hq, D], [L, H, D], [L, H, Dv], all of them wide; and lse [Hq, S]."""
        v = v.repeat_interleave(q.shape[1] // max(v.shape[1], 1), 1)
        scores, seen = self.all_scores(q, k, sinks, bias)
        weights = torch.softmax(scores, -1) if scores.shape[-1] else scores
        weights = weights[..., : k.shape[0]].masked_fill(~seen, 0)  # of none: NaN
        return torch.einsum("hsl,lhd->shd", weights, v), torch.logsumexp(scores, -1)


def _read(x: Tensor, scale: Tensor | None) -> Tensor:
    """Keys or values as they are computed with: int8 is a number, too."""
    numbers = wide(x) if x.is_floating_point() else x.float()
    return numbers if scale is None else numbers * scale[..., None]


@composite_full
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    kv_lens: Tensor | None,
    sinks: Tensor | None,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
    attn_bias: Tensor | None,
    alibi_slopes: Tensor | None,
    scale: float,
    causal: bool,
    window_left: int,
    window_right: int,
    softcap: float,
    score_mod: str = "",
    mask_mod: str = "",
    mod_f32: Tensor | None = None,
    mod_i32: Tensor | None = None,
) -> Outputs:
    mods = ScoreMods.of(score_mod, mask_mod, mod_f32, mod_i32)
    mask = Mask(scale, causal, window_left, window_right, softcap, alibi_slopes, mods)
    keys, values = _read(k, k_scale), _read(v, v_scale)
    lens = [k.shape[1]] * q.shape[0] if kv_lens is None else kv_lens.tolist()
    rows = []
    for b, count in enumerate(lens):
        bias = None if attn_bias is None else wide(attn_bias[b, :, :, :count])
        here = dataclasses.replace(mask, batch=b)
        rows.append(here.attend(wide(q[b]), keys[b, :count], values[b, :count], sinks, bias))
    if not rows:
        return q.new_zeros(*q.shape[:3], v.shape[3]), q.new_zeros(0, q.shape[2], q.shape[1]).float()
    out, lse = (torch.stack(part) for part in zip(*rows, strict=True))
    return out.to(q.dtype), lse


def _attend_packed(
    mask: Mask,
    q: Tensor,
    offsets: list[int],
    sequences: Iterable[tuple[Tensor, Tensor]],
    dims: int,
    sinks: Tensor | None,
) -> Outputs:
    """Queries of sequences one after the other, each with its keys and values; 0 between them."""
    out = wide(q).new_zeros(*q.shape[:2], dims)
    lse = wide(q).new_full((q.shape[1], q.shape[0]), -math.inf)
    spans = zip(pairwise(offsets), sequences, strict=True)
    for b, ((begin, end), (keys, values)) in enumerate(spans):
        part, sums = dataclasses.replace(mask, batch=b).attend(
            wide(q[begin:end]), keys, values, sinks
        )
        out = out.slice_scatter(part, 0, begin, end)
        lse = lse.slice_scatter(sums, 1, begin, end)
    return out.to(q.dtype), lse


@composite_full
def attention_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_kv: Tensor,
    sinks: Tensor | None,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
    alibi_slopes: Tensor | None,
    scale: float,
    causal: bool,
    window_left: int,
    window_right: int,
    softcap: float,
    score_mod: str = "",
    mask_mod: str = "",
    mod_f32: Tensor | None = None,
    mod_i32: Tensor | None = None,
) -> Outputs:
    mods = ScoreMods.of(score_mod, mask_mod, mod_f32, mod_i32)
    mask = Mask(scale, causal, window_left, window_right, softcap, alibi_slopes, mods)
    keys, values = _read(k, k_scale), _read(v, v_scale)
    spans = [slice(begin, end) for begin, end in pairwise(cu_seqlens_kv.tolist())]
    sequences = ((keys[span], values[span]) for span in spans)
    return _attend_packed(mask, q, cu_seqlens_q.tolist(), sequences, v.shape[2], sinks)


@composite_full
def attention_fp8(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_kv: Tensor,
    q_scale: Tensor | None,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
    sinks: Tensor | None,
    scale: float,
    causal: bool,
    window_left: int,
    window_right: int,
    softcap: float,
) -> Outputs:
    queries, keys = cu_seqlens_q.tolist(), cu_seqlens_kv.tolist()
    group = q.shape[1] // max(k.shape[1], 1)

    def read(x: Tensor, scales: Tensor | None, offsets: Tensor, heads: int) -> Tensor:
        if scales is None or len(scales) == 0:
            return x.float()
        tokens = torch.arange(len(x), device=x.device, dtype=offsets.dtype)
        sequence = torch.searchsorted(offsets, tokens, right=True) - 1  # of others, any
        each = scales[sequence.clamp(0, len(scales) - 1)].repeat_interleave(heads, 1)
        return x.float() * each[..., None]

    wide_q = read(q, q_scale, cu_seqlens_q, group)
    wide_k, wide_v = read(k, k_scale, cu_seqlens_kv, 1), read(v, v_scale, cu_seqlens_kv, 1)
    mask = Mask(scale, causal, window_left, window_right, softcap)
    sequences = ((wide_k[begin:end], wide_v[begin:end]) for begin, end in pairwise(keys))
    out, lse = _attend_packed(mask, wide_q, queries, sequences, v.shape[2], sinks)
    return out.bfloat16(), lse


def _unpaged(pages: Tensor, table: Tensor, count: int) -> Tensor:
    """The first `count` rows of a sequence."""
    used = -(-count // max(pages.shape[1], 1))
    return pages[table[:used].long()].flatten(0, 1)[:count]


def _offsets(queries: int, sequences: int, cu_seqlens_q: Tensor | None) -> list[int]:
    if cu_seqlens_q is not None:
        offsets: list[int] = cu_seqlens_q.tolist()
        return offsets
    return [b * (queries // max(sequences, 1)) for b in range(sequences + 1)]


@composite_full
def attention_paged(
    q: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    block_table: Tensor,
    kv_lens: Tensor,
    cu_seqlens_q: Tensor | None,
    sinks: Tensor | None,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
    alibi_slopes: Tensor | None,
    scale: float,
    causal: bool,
    window_left: int,
    window_right: int,
    softcap: float,
    score_mod: str = "",
    mask_mod: str = "",
    mod_f32: Tensor | None = None,
    mod_i32: Tensor | None = None,
) -> Outputs:
    mods = ScoreMods.of(score_mod, mask_mod, mod_f32, mod_i32)
    mask = Mask(scale, causal, window_left, window_right, softcap, alibi_slopes, mods)
    keys, values = _read(k_pages, k_scale), _read(v_pages, v_scale)
    sequences = (
        (_unpaged(keys, table, count), _unpaged(values, table, count))
        for table, count in zip(block_table, kv_lens.tolist(), strict=True)
    )
    at = _offsets(q.shape[0], len(kv_lens), cu_seqlens_q)
    return _attend_packed(mask, q, at, sequences, v_pages.shape[3], sinks)


def _latents(x: Tensor, scale: Tensor | None) -> Tensor:
    """As they are computed with: equal parts of a row have a scale each."""
    numbers = _read(x, None)
    if scale is None:
        return numbers
    return numbers * scale.repeat_interleave(x.shape[-1] // scale.shape[-1], -1)


@composite_full
def mla(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv: Tensor,
    kpe: Tensor,
    kv_lens: Tensor | None,
    ckv_scale: Tensor | None,
    scale: float,
    causal: bool,
) -> Outputs:
    latents = _latents(ckv, ckv_scale)
    queries, keys = torch.cat((q_nope, q_pe), -1), torch.cat((latents, wide(kpe)), -1)
    given = (queries, keys, latents, kv_lens, None, None, None, None, None)
    return attention(*given, scale, causal, -1, -1, 0.0)


@composite_full
def mla_paged(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv_pages: Tensor,
    kpe_pages: Tensor,
    block_table: Tensor,
    kv_lens: Tensor,
    cu_seqlens_q: Tensor | None,
    ckv_scale: Tensor | None,
    scale: float,
    causal: bool,
) -> Outputs:
    latents = _latents(ckv_pages, ckv_scale)
    queries, keys = torch.cat((q_nope, q_pe), -1), torch.cat((latents, wide(kpe_pages)), -1)
    where = (block_table, kv_lens, cu_seqlens_q)
    return attention_paged(
        queries, keys, latents, *where, None, None, None, None, scale, causal, -1, -1, 0.0
    )


@composite
def rope(
    x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, interleaved: bool, inverse: bool
) -> Tensor:
    pairs = cos.shape[1]
    at = torch.arange(x.shape[1], device=x.device) if positions is None else positions.long()
    c, s = cos[at].unsqueeze(-2), sin[at].unsqueeze(-2)
    s = -s if inverse else s
    turned, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
    pair = split(turned, -1, (pairs, 2) if interleaved else (2, pairs))
    a, b = (wide(t) for t in pair.unbind(-1 if interleaved else -2))
    made = torch.stack((a * c - b * s, b * c + a * s), -1 if interleaved else -2)
    return torch.cat((made.flatten(-2).to(x.dtype), rest), -1)


@composite
def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor | None,
    initial_state: Tensor | None,
    scale: float,
    chunk_size: int,
) -> tuple[Tensor, Tensor]:
    group = v.shape[2] // max(q.shape[2], 1)
    queries, keys = (wide(t).repeat_interleave(group, 2) for t in (q, k))
    state = wide(g).new_zeros(v.shape[0], v.shape[2], q.shape[3], v.shape[3])
    if initial_state is not None:
        state = state + initial_state
    factor = _factor(scale, q.shape[3])
    rows = []
    for t in range(v.shape[1]):
        state = state * torch.exp(g[:, t])[..., None]
        change = wide(v[:, t])
        if beta is not None:
            change = change - torch.einsum("bhdc,bhd->bhc", state, keys[:, t])
            change = change * beta[:, t, :, None]
        state = state + keys[:, t, :, :, None] * change[:, :, None]
        rows.append(factor * torch.einsum("bhdc,bhd->bhc", state, queries[:, t]))
    out = torch.stack(rows, 1) if rows else v.new_zeros(v.shape)
    return out.to(v.dtype), state.to(g.dtype)


@composite
def delta_rule_transform(k: Tensor, beta: Tensor, g: Tensor | None, chunk_size: int) -> Tensor:
    batch, steps, heads = beta.shape
    chunks = -(-steps // chunk_size)
    pad = chunks * chunk_size - steps
    group = heads // max(k.shape[2], 1)
    keys = torch.nn.functional.pad(wide(k), (0, 0, 0, 0, 0, pad)).repeat_interleave(group, 2)
    shape = (batch, chunks, chunk_size, heads)
    keys = keys.view(*shape, k.shape[3]).movedim(3, 2)
    share = torch.nn.functional.pad(beta, (0, 0, 0, pad)).view(shape).movedim(3, 2)
    gates = torch.zeros_like(share)
    if g is not None:
        gates = torch.nn.functional.pad(g, (0, 0, 0, pad)).view(shape).movedim(3, 2).cumsum(-1)
    decay = torch.exp((gates[..., :, None] - gates[..., None, :]).tril())
    lower = (share[..., None] * decay * (keys @ keys.mT)).tril(-1)
    one = torch.eye(chunk_size, device=k.device, dtype=lower.dtype)
    out: Tensor = torch.linalg.solve_triangular(one + lower, one.expand_as(lower), upper=False)
    out = out.movedim(2, 3).reshape(batch, chunks * chunk_size, heads, chunk_size)
    return out[:, :steps].to(beta.dtype)
