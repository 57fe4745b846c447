// One program instance of attention on the CPU: queries in, blocks of keys, outputs out.
// What depends on the dtype of the queries is apart from what depends on the dtype of the keys, so
// that their combinations cost no code.
#pragma once

#include "tilewright/kernels/attention_schedule_cpu.h"

namespace tw::kernels::attention_detail {

/// Queries into tiles of `depth` units a row, floats times `scale`; what fills up the last tile is
/// never used.
template <class M, class P, class T>
__attribute__((noinline)) void load_queries(P p, const TileRows& who, const View<const T, 3>& q,
                                            float scale, int64_t depth, typename M::Unit* to) {
  constexpr int64_t kRows = kTileRows<P>;
  const int64_t dims = q.size(2);
  for (int64_t first = 0; first < who.rows; first += kRows, to += kRows * depth) {
    const tile::PackRows<P, T> rows(kRows, q.stride(2), 0, [&](int i) {
      const int64_t r = first + i < who.rows ? first + i : who.rows - 1;
      return &q(who.query(r), who.q_head(r), 0);
    });
    pack_queries<M>(p, rows, dims, scale, to);
  }
}

/// The state of a row before any key: empty, or the head's sink, a logit without a value.
template <class P>
TW_INLINE void start_row(P, const View<const float, 1>& sinks, int64_t q_head, BlockStats& state,
                         int64_t columns, float* acc) {
  state.m = -__builtin_inff();
  state.l = 0;
  if (sinks) {
    state.m = sinks(q_head) * kLog2E;
    state.l = 1;
  }
  for (int64_t c = 0; c < columns; ++c) acc[c] = 0;
}

/// Divides `count` rows from `first` on by their sums and writes them out; a row that saw nothing
/// becomes zeros.
template <class P, class T>
__attribute__((noinline)) void finish_rows(P, const TileRows& who, int64_t first, int64_t count,
                                           const BlockStats* states, const float* acc,
                                           int64_t acc_stride, const View<T, 3>& out,
                                           const View<float, 2>& lse) {
  using V = typename P::f32;
  constexpr int kN = P::template kLanes<float>;
  const int64_t columns = out.size(2), stride = out.stride(2);
  for (int64_t r = first; r < first + count; ++r, ++states, acc += acc_stride) {
    const float m = states->m, l = states->l;
    const float inverse = l == 0 ? 0 : 1 / l;
    T* const to = &out(who.query(r), who.q_head(r), 0);
    for (int64_t c = 0; c < columns; c += kN) {
      const V v = tile::load<V>(acc + c) * inverse;
      const int lanes = columns - c < kN ? int(columns - c) : kN;
      if (stride != 1)
        tile::scatter(to + c * stride, stride, v, lanes);
      else if (lanes == kN)
        tile::store(to + c, v);
      else
        tile::store_partial(to + c, v, lanes);
    }
    if (lse) lse(who.q_head(r), who.query(r)) = m * kLn2 + __builtin_logf(l);
  }
}

template <class P, class Tile>
TW_INLINE void start_rows(P p, const Tile& tile, const View<const float, 1>& sinks) {
  for (int64_t r = 0; r < tile.who.rows; ++r)
    start_row(p, sinks, tile.who.q_head(r), tile.states()[r], tile.at.acc_stride,
              tile.accumulator(r));
}

/// All blocks of keys, merged into the tile's accumulators.
template <class P, class Tile>
__attribute__((noinline)) void walk_blocks(P p, const Tile& tile,
                                           const View<const float, 1>& sinks) {
  start_rows(p, tile, sinks);
  const KeyRange blocks = tile.blocks();
  for (int64_t b = blocks.begin; b < blocks.end; ++b) tile.process(p, b, nullptr);
}

/// What walk_blocks does with the rows after each block, from what other tasks left.
template <class P>
__attribute__((noinline)) void merge_partials(P p, const TileRows& who, const AttentionMask& mask,
                                              const Partials& partials,
                                              const View<const float, 1>& sinks, int64_t value_dims,
                                              BlockStats* states, float* acc, int64_t acc_stride) {
  for (int64_t r = 0; r < who.rows; ++r, acc += acc_stride) {
    start_row(p, sinks, who.q_head(r), states[r], acc_stride, acc);
    const KeyRange keys = mask.keys(who.query(r));
    if (keys.empty()) continue;
    for (int64_t b = keys.begin / kKeyBlock; b < key_blocks(keys.end); ++b) {
      const int64_t slot = partials.slot(who, r, b);
      if (partials.stats[slot].l == 0) continue;  // nothing is there
      float keep, add;
      merge_stats(p, partials.stats[slot], states[r], keep, add);
      merge_row(p, partials.values + slot * partials.stride, keep, add, value_dims, acc);
    }
  }
}

/// Blocks [first, end) of the keys, left for another task.
template <class P, class Tile>
__attribute__((noinline)) void leave_blocks(P p, const Tile& tile, int64_t first, int64_t end,
                                            const Partials& partials) {
  for (int64_t b = first; b < end; ++b) tile.process(p, b, &partials);
}

/// What a score is multiplied by before softmax (or the cap) sees it.
TW_INLINE float score_scale(const AttentionOptions& options, int64_t dims) {
  const float scale = options.scale != 0 ? options.scale : 1 / tile::sqrt(static_cast<float>(dims));
  return options.softcap > 0 ? scale / options.softcap : scale * kLog2E;
}

#if defined(__AMX_BF16__)
/// All of a task that does not merge what others left: `blocks` of keys.
template <class P>
__attribute__((noinline)) void run_by_tiles(P p, const AttentionTile<P, bf16>& tile,
                                            KeyRange blocks,
                                            const AttentionSequence<bf16, bf16>& sequence,
                                            const AttentionOptions& options,
                                            const Partials* partials) {
  const tile::TileScope scope(tile::product_tiles(int(kSide)));
  const AmxTask<P> task{tile, AmxScratch(tile.shape, tile.who.rows),
                        score_scale(options, tile.shape.dims), tile.scratch};
  task.load_queries(p, sequence.q);
  if (partials == nullptr) task.start(options.sinks);
  for (int64_t b = blocks.begin; b < blocks.end; ++b) task.process(p, b, partials);
  if (partials != nullptr) return;
  task.for_results([&](int64_t first, int64_t count, const BlockStats* stats, const float* sums) {
    finish_rows(p, tile.who, first, count, stats, sums, task.at.value_dims, sequence.out,
                sequence.lse);
  });
}
#endif

template <class M, class P, class T, class U>
TW_INLINE AttentionTile<P, U, M> tile_of(P p, const AttentionShape& shape,
                                         const AttentionOptions& options,
                                         const AttentionSequence<T, U>& sequence,
                                         const KeySource<T>& rotated, const TileRows& who) {
  AttentionTile<P, U, M> tile{
      .shape = shape,
      .mask = options.mask(sequence.q_len(), sequence.kv_len),
      .k = sequence.k.head(who.kv_head),
      .v = sequence.v.head(who.kv_head),
      .next_k =
          who.kv_head + 1 < shape.kv_heads ? sequence.k.head(who.kv_head + 1) : KeySource<U>{},
      .k_pe = RotatedKeys<P, M>::of(rotated),
      .k_scale = sequence.k_scale.head(who.kv_head),
      .v_scale = sequence.v_scale.head(who.kv_head),
      .scale_parts = sequence.scale_parts,
      .bias = ScoreBias(sequence, options),
      .mods = options.mods,
      .sequence = sequence.index,
      .softcap = options.softcap > 0 ? options.softcap * kLog2E : 0.0f,
      .factor = score_scale(options, shape.dims),
      .who = who,
      .at = TileScratch<P>(shape, who.rows),
      .scratch = p.template scratch<float>(),
  };
  tile.choose_layout();
  return tile;
}

template <class M, class P, class T, class U>
TW_INLINE void load_queries(P p, const AttentionTile<P, U, M>& tile,
                            const AttentionSequence<T, U>& sequence) {
  const float scale = tile.factor * sequence.query_scale(tile.who.kv_head);
  load_queries<M>(p, tile.who, sequence.q, scale, tile.depth(), tile.queries());
  if (tile.k_pe)
    load_queries<M>(p, tile.who, sequence.q_pe, scale, tile.depth(),
                    tile.queries() + kTileRows<P> * units_of<M>(tile.shape.dims));
}
/// The keys `blocks`, left for another task.
template <class P, class Tile, class Sequence>
TW_INLINE void leave(P p, const Tile& tile, KeyRange blocks, const Sequence& sequence,
                     const Partials& partials) {
  load_queries(p, tile, sequence);
  leave_blocks(p, tile, blocks.begin, blocks.end, partials);
}
/// All keys.
template <class P, class Tile, class Sequence>
TW_INLINE void walk(P p, const Tile& tile, const AttentionOptions& options,
                    const Sequence& sequence) {
  load_queries(p, tile, sequence);
  walk_blocks(p, tile, options.sinks);
}

/// The keys `blocks` of all kv heads: to the end, or left for other tasks.
template <class M, class P, class T, class U>
TW_INLINE void run_heads(P p, const AttentionTile<P, U, M>& tile, KeyRange blocks,
                         const AttentionOptions& options, const AttentionSequence<T, U>& sequence,
                         const Partials* partials) {
  const AttentionHeads<P, U, M> all{tile};
  for (int64_t h = 0; h < all.heads(); ++h) {
    const auto here = all.tile(h);
    load_queries(p, here, sequence);
    if (partials == nullptr) start_rows(p, here, options.sinks);
  }
  for (int64_t b = blocks.begin; b < blocks.end; ++b) all.process(p, b, partials);
  for (int64_t h = 0; partials == nullptr && h < all.heads(); ++h) {
    const auto here = all.tile(h);
    finish_rows(p, here.who, 0, here.who.rows, here.states(), here.accumulator(0),
                here.at.acc_stride, sequence.out, sequence.lse);
  }
}

/// Task `at`, whatever operator it is of.
template <class P, class T, class U>
__attribute__((noinline)) void run_task(P p, const AttentionShape& shape,
                                        const AttentionOptions& options, const Schedule& schedule,
                                        const TaskAt& at, const AttentionSequence<T, U>& sequence) {
  const bool split = schedule.blocks_per_split > 0, merges = p.phase() > 0;
  const KeySource<T> rotated = sequence.k_pe.head(at.who.kv_head);
  const auto tile = tile_of<Floats>(p, shape, options, sequence, rotated, at.who);
  Partials partials;
  if (split) {
    partials = Partials::in(p.template workspace<char>(), schedule.slots, shape,
                            key_blocks(sequence.kv_len));
    partials.first_slot = at.first_slot;
  }
  KeyRange blocks = tile.blocks();
  if (split && !merges) {
    const int64_t first = at.split * schedule.blocks_per_split;
    if (blocks.begin < first) blocks.begin = first;
    if (blocks.end > first + schedule.blocks_per_split)
      blocks.end = first + schedule.blocks_per_split;
    if (blocks.empty()) return;
  }
#if defined(__AMX_BF16__)
  if constexpr (kHasTiles<P, T, U>) {
    if (!merges && uses_tiles<P>(sequence, options, p.machine())) {
      run_by_tiles(p, tile, blocks, sequence, options, split ? &partials : nullptr);
      return;
    }
  }
#endif
  const auto multiplied = [&](const auto& by) {
    if (schedule.together)
      run_heads(p, by, blocks, options, sequence, split ? &partials : nullptr);
    else if (split)
      leave(p, by, blocks, sequence, partials);
    else
      walk(p, by, options, sequence);
  };
  if (merges) {
    merge_partials(p, at.who, tile.mask, partials, options.sinks, shape.value_dims, tile.states(),
                   tile.accumulator(0), tile.at.acc_stride);
  } else if (kHasPairs<P, T, U> && p.machine().prefers_bf16_pairs() && !tile.copies_scales()) {
    if constexpr (kHasPairs<P, T, U>)
      multiplied(tile_of<Pairs>(p, shape, options, sequence, rotated, at.who));
  } else {
    multiplied(tile);
  }
  if ((split || schedule.together) && !merges) return;
  finish_rows(p, at.who, 0, at.who.rows, tile.states(), tile.accumulator(0), tile.at.acc_stride,
              sequence.out, sequence.lse);
}

template <class T, class U, class P, class K>
TW_INLINE void run(P p, const K& kernel) {
  const AttentionShape shape = kernel.shape();
  const Schedule schedule = schedule_of<P, T, U>(kernel, p.machine());
  const TaskAt at = find_task<P>(shape, kernel.lengths(), schedule, p.phase() > 0, p.index());
  run_task(p, shape, kernel.options(), schedule, at, kernel.sequence(at.sequence));
}

}  // namespace tw::kernels::attention_detail
