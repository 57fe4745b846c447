// Some rows of queries over the keys of one kv head, block of keys by block of keys, on the CPU.
//
// A tile's rows are the queries of a whole group of heads, so each key and value is read once for
// all of them. Few rows (decode) read keys and values where they lie, if the layout allows; more
// rows first copy a block into panels that all of them share.
#pragma once

#include "tilewright/kernels/attention_copy_cpu.h"
#include "tilewright/kernels/attention_rows_cpu.h"

namespace tw::kernels::attention_detail {

template <class P, class U, class M = Floats>
struct AttentionTile {
  using Unit = typename M::Unit;

  AttentionShape shape;
  AttentionMask mask;
  KeySource<U> k, v;
  KeySource<U> next_k;  // of the head that is likely worked on next, or no data
  RotatedKeys<P, M> k_pe;
  KeySource<float> k_scale, v_scale;
  int64_t scale_parts;  // equal parts of a row's dims that have a scale each
  ScoreBias bias;
  ScoreMods mods;
  int64_t sequence;  // in the batch
  float softcap;     // in units of log2 e; 0: none
  float factor;      // of scores, where queries were not scaled
  TileRows who;
  TileScratch<P> at;
  float* scratch;
  bool direct_k = false, direct_v = false;

  static constexpr int kN = P::template kLanes<float>;

  /// Decides how keys and values are read.
  TW_INLINE void choose_layout() {
    const bool few = who.rows <= kDirectRows;
    const bool whole_vectors =
        k.table != nullptr ? k.page_size % kN == 0 : round_up(mask.kv_len, kN) <= k.page_size;
    direct_k = few && k.row_stride == 1 && whole_vectors && !k_pe;
    direct_v = few && v.dim_stride == 1 && shape.value_dims % kN == 0 && scale_parts == 1 &&
               (v.table == nullptr || v.page_size % M::kDepth == 0);
  }

  /// The keys that rows [first, last] see, clipped to a block, counted from its start.
  TW_INLINE KeyRange visible(int64_t first, int64_t last, int64_t block) const {
    return clip(mask.keys(who.query(first), who.query(last)), block);
  }
  TW_INLINE static KeyRange clip(KeyRange range, int64_t block) {
    const int64_t start = block * kKeyBlock;
    range.begin = range.begin > start ? range.begin - start : 0;
    range.end = range.end < start + kKeyBlock ? range.end - start : kKeyBlock;
    return range;
  }
  /// Blocks that any row of the tile sees.
  TW_INLINE KeyRange blocks() const {
    const KeyRange keys = mask.keys(who.query(0), who.query(who.rows - 1));
    if (keys.empty()) return {};
    return {keys.begin / kKeyBlock, key_blocks(keys.end)};
  }
  /// Whether a mask_mod hides all of a block.
  TW_INLINE bool is_hidden(P p, int64_t block) const {
    if (mods.mask == nullptr) return false;
    for (int64_t r = 0, step = mods.tells_heads_apart() ? 1 : who.group; r < who.rows; r += step) {
      const KeyRange keys = visible(r, r, block);
      const ScoreAt first = pair_at(r, block * kKeyBlock + keys.begin);
      if (sees_any(p, mods, first, keys.end - keys.begin)) return false;
    }
    return true;
  }

  using Rows = ScoredRows<P>;
  /// Rows [first, last], and which keys of a block they see.
  TW_INLINE Rows open_group(int64_t block, int64_t first, int64_t last) const {
    Rows group;
    group.first = first;
    group.rows = last - first + 1;
    group.keys = visible(first, last, block);
    int64_t query = who.query(first), head = first % who.group;
    for (int64_t r = 0; r < group.rows; ++r) {
      group.row_keys[r] = clip(mask.keys(query), block);
      if (++head == who.group) head = 0, ++query;
    }
    for (int64_t t = 0; t < group.tiles(); ++t) {
      const int64_t last_of_tile = t * kTileRows<P> + group.rows_in_tile(t) - 1;
      group.tile_keys[t] = {group.row_keys[t * kTileRows<P>].begin,
                            group.row_keys[last_of_tile].end};
    }
    return group;
  }
  TW_INLINE Unit* queries() const { return units(at.q); }
  TW_INLINE float* accumulator(int64_t row) const { return scratch + at.acc + row * at.acc_stride; }
  /// Of a block, where few rows have more to do before they are merged.
  TW_INLINE BlockStats* block_stats() const {
    return reinterpret_cast<BlockStats*>(scratch + at.block_stats);
  }
  TW_INLINE float* result(int64_t t) const {
    return scratch + at.block + t * kTileRows<P> * at.acc_stride;
  }
  TW_INLINE BlockStats* states() const {
    return reinterpret_cast<BlockStats*>(scratch + at.states);
  }

  /// The scales of a block's keys that are there.
  TW_INLINE void copy_key_scales(P p, int64_t block) const {
    const int64_t start = block * kKeyBlock;
    if (scales_scores()) copy_scales(p, k_scale, start, end_of(block), scratch + at.k_scale);
  }
  TW_INLINE void copy_value_scales(P p, int64_t block) const {
    const int64_t start = block * kKeyBlock;
    if (scales_weights()) copy_scales(p, v_scale, start, end_of(block), scratch + at.v_scale);
  }
  TW_INLINE int64_t end_of(int64_t block) const {
    const int64_t end = (block + 1) * kKeyBlock;
    return end < mask.kv_len ? end : mask.kv_len;
  }
  /// The keys of the next block to fetch while this one meets `count` rows from `first` on.
  TW_INLINE KeyRange keys_ahead(int64_t block, int64_t first, int64_t count) const {
    const KeyRange keys = visible(0, who.rows - 1, block + 1);
    if (keys.empty()) return {0, 0};
    const int64_t start = (block + 1) * kKeyBlock + keys.begin, all = keys.end - keys.begin;
    return {start + all * first / who.rows, start + all * (first + count) / who.rows};
  }
  TW_INLINE void fetch_ahead(int64_t key, bool with_value) const {
    fetch_key(k, key, shape.dims);
    if (with_value) fetch_key(v, key, shape.value_dims);
  }

  /// Adds a block of keys to all rows: merged into the accumulators, or left in `partials`.
  __attribute__((noinline)) void process(P p, int64_t block, const Partials* partials) const {
    const KeyRange all = visible(0, who.rows - 1, block);
    if (all.empty()) return;
    if (is_hidden(p, block)) return leave_nothing(partials, who, block);
    const int64_t start = block * kKeyBlock;
    copy_key_scales(p, block);
    copy_value_scales(p, block);
    if (!direct_k) copy_keys<M>(p, *this, start, all);
    if (!direct_v) copy_values<M>(p, *this, start, all);
    constexpr int64_t kGroup = kScoreRows / kTileRows<P> * kTileRows<P>;
    for (int64_t first = 0; first < who.rows; first += kGroup) {
      const int64_t last = (first + kGroup < who.rows ? first + kGroup : who.rows) - 1;
      Rows group = open_group(block, first, last);
      if (group.keys.empty()) continue;
      score_rows(p, block, group);
      if (partials == nullptr)
        merge_rows(p, block, group);
      else
        leave_rows(p, block, group, *partials);
    }
  }

  /// Units of a query or key.
  TW_INLINE int64_t depth() const { return depth_of<M>(shape); }
  /// Scales that all products of a key have; others are copied with it.
  TW_INLINE bool scales_scores() const { return k_scale && scale_parts == 1 && !k_pe; }
  TW_INLINE bool scales_weights() const { return v_scale && scale_parts == 1; }
  TW_INLINE bool copies_scales() const {
    return (k_scale && !scales_scores()) || (v_scale && !scales_weights());
  }
  TW_INLINE Unit* units(int64_t part) const { return reinterpret_cast<Unit*>(scratch + part); }

  /// The scores of the keys from j on that `panel` holds.
  template <class Keys>
  TW_INLINE void score_panel(P p, const Rows& group, int64_t j, const Keys& panel) const {
    const float* const scale = scales_scores() ? scratch + at.k_scale + j : nullptr;
    for (int64_t t = 0; t < group.tiles(); ++t) {
      const KeyRange keys = group.tile_keys[t];
      if (j >= keys.end || j + kPanel<P> <= keys.begin) continue;
      with_tile_rows(p, group.rows_in_tile(t), [&]<int kRows>() {
        score_tile<P, kRows, 2>(p, query_tile(group, t), panel, depth(), factor, scale,
                                score_tile_at(t) + j);
      });
    }
  }
  /// The scores of the keys that row r of the tile sees in the block from `start` on.
  TW_INLINE void modify(P p, int64_t r, int64_t start, KeyRange keys, float* scores) const {
    modify_scores(p, mods, pair_at(r, start + keys.begin), keys.end - keys.begin,
                  scores + keys.begin);
  }
  TW_INLINE ScoreAt pair_at(int64_t r, int64_t key) const {
    return {int(sequence), int(who.q_head(r)), int(who.query(r)),
            int(key),      int(mask.q_len),    int(mask.kv_len)};
  }
  /// Maxima before weights: the latencies of one row's reduction hide behind other rows.
  TW_INLINE void weigh_scores(P p, int64_t block, Rows& group) const {
    const auto chunks_of = [&](int64_t r) -> KeyRange {
      const KeyRange keys = group.tile_keys[r / kTileRows<P>];
      return {keys.begin / kChunk<P> * kChunk<P>, round_up(keys.end, kChunk<P>)};
    };
    float* row = scratch + at.scores;
    for (int64_t r = 0; r < group.rows; ++r, row += kScoreStride) {
      const KeyRange keys = group.row_keys[r];
      if (keys.empty()) continue;
      if (softcap > 0) cap_row(p, chunks_of(r), softcap, row);
      if (bias) {
        const int64_t of_tile = group.first + r;
        bias.add(p, who.q_head(of_tile), who.query(of_tile), block * kKeyBlock, keys, row);
      }
      if (mods) modify(p, group.first + r, block * kKeyBlock, keys, row);
      group.stats[r].m = mask_row(p, chunks_of(r), keys, row);
    }
    const float* const scale = scales_weights() ? scratch + at.v_scale : nullptr;
    row = scratch + at.scores;
    for (int64_t r = 0; r < group.rows; ++r, row += kScoreStride) {
      const KeyRange keys = group.tile_keys[r / kTileRows<P>];
      if (!group.row_keys[r].empty())
        group.stats[r].l = weights_of_row<P, Unit>(p, chunks_of(r), group.stats[r].m, scale, row);
      else  // seen by other rows of the register tile
        for (int64_t j = keys.begin / M::kDepth; j < units_of<M>(keys.end); ++j)
          reinterpret_cast<Unit*>(row)[j] = 0;
    }
  }

  /// The weighted values of few rows, merged into the accumulators.
  TW_INLINE void merge_tiles(P p, const Rows& group) const {
    const MergeFactors factors = merge_stats(p, group, states() + group.first);
    for (int64_t t = 0; t < group.tiles(); ++t) merge_tile(p, group, t, result(t), factors);
  }
  /// Those of a register tile.
  TW_INLINE void merge_tile(P p, const Rows& group, int64_t t, const float* values,
                            const MergeFactors& factors) const {
    for (int r = 0; r < group.rows_in_tile(t); ++r, values += at.acc_stride) {
      const int64_t row = t * kTileRows<P> + r;
      if (!group.row_keys[row].empty())
        merge_row(p, values, factors.keep[row], factors.add[row], shape.value_dims,
                  accumulator(group.first + row));
    }
  }
  /// The same, left for another task.
  TW_INLINE void leave_tile(int64_t block, const Rows& group, int64_t t, const float* values,
                            const Partials& partials) const {
    for (int r = 0; r < group.rows_in_tile(t); ++r, values += at.acc_stride) {
      const int64_t row = t * kTileRows<P> + r;
      if (group.row_keys[row].empty()) continue;
      const int64_t slot = partials.slot(who, group.first + row, block);
      partials.stats[slot] = group.stats[row];
      float* const to = partials.values + slot * partials.stride;
      for (int64_t c = 0; c < shape.value_dims; c += kN)
        tile::store(to + c, tile::load<typename P::f32>(values + c));
    }
  }
  /// Adds the values of `keys` as they lie to those of a register tile, while `ahead` is fetched.
  TW_INLINE void weigh_piece(P p, int64_t block, const Rows& group, int64_t t, KeyRange keys,
                             const char* ahead, float* values) const {
    const KeyRange seen = group.tile_keys[t];
    if (keys.begin < seen.begin) keys.begin = seen.begin;
    if (keys.end > seen.end) keys.end = seen.end;
    const int64_t start = block * kKeyBlock;
    for_segments(
        v, start + keys.begin, start + keys.end, kKeyBlock,
        [&](const KeySegment<U>& segment, int64_t offset) {
          const KeyRange here{keys.begin + offset, keys.begin + offset + segment.count};
          const auto columns =
              columns_of<P, M>(segment.data, here.begin, here.end, segment.row_stride, ahead);
          weigh(p, group.rows_in_tile(t), weights_at(t, here), columns, shape.value_dims / kN,
                count_of(here), values, at.acc_stride, here.begin > seen.begin);
        });
  }

 private:
  /// Scores, maxima, sums and weights of a group.
  TW_INLINE void score_rows(P p, int64_t block, Rows& group) const {
    if (direct_k)
      score_direct(p, block, group);
    else
      score_panels(p, block, group);
    weigh_scores(p, block, group);
  }

  TW_INLINE void score_panels(P p, int64_t block, const Rows& group) const {
    const int64_t panel_size = depth() * kPanel<P>;
    const KeyRange ahead = keys_ahead(block, group.first, group.rows);
    int64_t fetched = ahead.begin;
    for (int64_t j = group.keys.begin / kPanel<P> * kPanel<P>; j < group.keys.end; j += kPanel<P>) {
      const Panel<P, Unit> panel{units(at.keys) + j / kPanel<P> * panel_size};
      for (const int64_t due =
               ahead.begin + (ahead.end - ahead.begin) * (j + kPanel<P>) / kKeyBlock;
           fetched < due; ++fetched)
        fetch_ahead(fetched, !direct_v);
      score_panel(p, group, j, panel);
    }
  }

  TW_INLINE void score_direct(P p, int64_t block, const Rows& group) const {
    const float* const scale = scales_scores() ? scratch + at.k_scale : nullptr;
    const int64_t begin = group.keys.begin / kN * kN, start = block * kKeyBlock;
    for_segments(k, start + begin, start + group.keys.end, kKeyBlock,
                 [&](const KeySegment<U>& segment, int64_t offset) {
                   const int64_t j = begin + offset;
                   const auto columns =
                       columns_of<P, M>(segment.data, 0, shape.dims, segment.dim_stride,
                                        ahead_of_keys(start + j, segment.data));
                   for (int64_t t = 0; t < group.tiles(); ++t)
                     score(p, group.rows_in_tile(t), query_tile(group, t), columns,
                           (segment.count + kN - 1) / kN, depth(), factor,
                           scale != nullptr ? scale + j : nullptr, score_tile_at(t) + j);
                 });
  }

  TW_INLINE void merge_rows(P p, int64_t block, const Rows& group) const {
    const MergeFactors factors = merge_stats(p, group, states() + group.first);
    if (!direct_v) {
      weigh_panels(p, group, factors);
      return;
    }
    for (int64_t t = 0; t < group.tiles(); ++t) {
      weigh_tile_of(p, block, group, t);
      merge_tile(p, group, t, scratch + at.block, factors);
    }
  }

  TW_INLINE void leave_rows(P p, int64_t block, const Rows& group, const Partials& partials) const {
    for (int64_t t = 0; t < group.tiles(); ++t) {
      weigh_tile_of(p, block, group, t);
      leave_tile(block, group, t, scratch + at.block, partials);
    }
  }

  TW_INLINE void weigh_panels(P p, const Rows& group, const MergeFactors& factors) const {
    for (int64_t c = 0; c < at.acc_stride; c += kPanel<P>) {
      const Unit* const panel = units(at.values) + c / kPanel<P> * kValuePanelStride<P, M>;
      for (int64_t t = 0; t < group.tiles(); ++t) {
        const KeyRange keys = group.tile_keys[t];
        if (keys.empty()) continue;
        const int64_t row = t * kTileRows<P>;
        with_tile_rows(p, group.rows_in_tile(t), [&]<int kRows>() {
          weigh_and_merge_tile<P, kRows, 2>(
              p, weights_at(t, keys), Panel<P, Unit>{panel + keys.begin / M::kDepth * kPanel<P>},
              count_of(keys), accumulator(group.first + row) + c, at.acc_stride, factors.keep + row,
              factors.add + row);
        });
      }
    }
  }

  /// The weighted values of one register tile of rows, in the scratch `block`.
  TW_INLINE void weigh_tile_of(P p, int64_t block, const Rows& group, int64_t t) const {
    float* const result = scratch + at.block;
    const KeyRange keys = group.tile_keys[t];
    if (keys.empty()) return;
    if (!direct_v) {
      const int tile_rows = group.rows_in_tile(t);
      const Unit* const weights = weights_at(t, keys);
      const Unit* panel = units(at.values) + keys.begin / M::kDepth * kPanel<P>;
      with_tile_rows(p, tile_rows, [&]<int kRows>() {
        for (int64_t c = 0; c < at.acc_stride; c += kPanel<P>, panel += kValuePanelStride<P, M>)
          weigh_tile<P, kRows, 2>(p, weights, Panel<P, Unit>{panel}, count_of(keys), result + c,
                                  at.acc_stride, false);
      });
      return;
    }
    // Keys whose values stay in L1 while their columns are walked.
    const int64_t fitting = 8192 / (shape.value_dims * int64_t{sizeof(U)});
    const int64_t longest = fitting > 32 ? fitting / 2 * 2 : 32;
    const int64_t start = block * kKeyBlock;
    for (int64_t j = keys.begin; j < keys.end;) {  // a piece ends before an even key
      const KeySegment<U> segment =
          v.at(start + j, start + (keys.end < j + longest ? keys.end : j / 2 * 2 + longest));
      weigh_piece(p, block, group, t, {j, j + segment.count},
                  ahead_of_values(start + j, segment.data), result);
      j += segment.count;
    }
  }

  TW_INLINE const Unit* weights_at(int64_t t, KeyRange keys) const {
    return reinterpret_cast<const Unit*>(score_tile_at(t)) + keys.begin / M::kDepth;
  }
  TW_INLINE static int64_t count_of(KeyRange keys) {
    return units_of<M>(keys.end) - keys.begin / M::kDepth;
  }

  /// What to fetch while the keys from `key` on are read: their values.
  TW_INLINE const char* ahead_of_keys(int64_t key, const U* here) const {
    const bool close = direct_v && v.is_close(shape.value_dims);
    return reinterpret_cast<const char*>(close ? v.share(key, shape.value_dims) : here);
  }
  /// What to fetch while the values from `key` on are read: keys of the next block.
  TW_INLINE const char* ahead_of_values(int64_t key, const U* here) const {
    const U* to = here;
    if (direct_k && k.is_close(shape.dims)) {
      if (key + kKeyBlock < mask.kv_len)
        to = k.share(key + kKeyBlock, shape.dims);
      else if (next_k)
        to = next_k.share(blocks().begin * kKeyBlock + key % kKeyBlock, shape.dims);
    }
    return reinterpret_cast<const char*>(to);
  }

  TW_INLINE const Unit* query_tile(const Rows& group, int64_t t) const {
    return queries() + (group.first + t * kTileRows<P>)*depth();
  }
  TW_INLINE float* score_tile_at(int64_t t) const {
    return scratch + at.scores + t * kTileRows<P> * kScoreStride;
  }
};

}  // namespace tw::kernels::attention_detail
