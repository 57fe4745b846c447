// Attention of bf16 by the tiles of AMX (tile/cpu/mma_tiles.h):
//
//   scores[key][query] = sum over d of k[key][d] q[query][d]
//   sums[query][d]     = sum over keys of weights[query][key] v[key][d]
//
// Left operands are rows, right ones panels of pairs, so keys and values need no turning: keys are
// rows of the first product, and two keys' values side by side are a pair of the second. Softmax
// walks down the keys with a query in each lane and folds nothing across lanes; its weights,
// rounded to bf16, are turned. Everything else, their sum too, is float32. Every task multiplies
// so, however few its rows: they have the same bits.
#pragma once

#include "tilewright/kernels/attention_tile_cpu.h"
#include "tilewright/tile/cpu/mma_tiles.h"

namespace tw::kernels::attention_detail {

/// Queries that are multiplied together, and keys, and dims: two tiles each way.
inline constexpr int64_t kSide = tile::kPanelWidth;
static_assert(kSide == tile::kTileDepth && kSide == 2 * tile::kTileRows);

/// Where a task keeps its temporaries, in floats; every part starts on a cache line.
struct AmxScratch {
  int64_t dims, value_dims;  // in whole sides
  int64_t q, acc, states, keys, values, scores, pairs, weights, sums, k_scale, v_scale, total;

  TW_INLINE AmxScratch(const AttentionShape& shape, int64_t q_rows)
      : dims(round_up(shape.dims, kSide)), value_dims(round_up(shape.value_dims, kSide)) {
    const int64_t padded = round_up(q_rows, kSide);
    int64_t at = 0;
    const auto take = [&](int64_t floats) {
      const int64_t start = at;
      at += round_up(floats, 16);
      return start;
    };
    q = take(padded * dims / 2);  // panels of pairs, [dims / 2][kSide]
    acc = take(padded * value_dims);
    states = take(padded * 2);
    keys = take(kKeyBlock * dims / 2);          // [keys / kSide][dims / kSide][kSide][kSide]
    values = take(kKeyBlock * value_dims / 2);  // panels of pairs, [keys / 2][kSide]
    scores = take(kKeyBlock * kSide);
    pairs = take(kKeyBlock / 2 * kSide);
    weights = take(kKeyBlock / 2 * kSide);  // [keys / kSide][queries][kSide]
    sums = take(kSide * kSide);
    k_scale = take(kKeyBlock);
    v_scale = take(kKeyBlock);
    total = at;
  }
};

/// `count` <= 32 queries from row `first` on as a panel of pairs; columns beyond repeat some.
template <class P>
__attribute__((noinline)) void load_query_panel(P p, const TileRows& who, int64_t first,
                                                int64_t count, const View<const bf16, 3>& q,
                                                int64_t padded_dims, uint32_t* to) {
  const int64_t dims = q.size(2);
  for (int64_t half = 0; half < kSide; half += tile::kTileRows) {
    const int64_t from = first + (half < count ? half : count - 1);
    const tile::PackRows<P, bf16> rows(first + count - from, q.stride(2), 0, [&](int i) {
      return &q(who.query(from + i), who.q_head(from + i), 0);
    });
    tile::pack_wide<tile::PairUnits>(p, rows, 0, dims, to + half, kSide);
  }
  const int64_t pairs = (dims + 1) / 2;
  __builtin_memset(to + pairs * kSide, 0, size_t((padded_dims / 2 - pairs) * kSide) * 4);
}

/// Keys [first, end) of a block that begins at `start`, first a multiple of kSide, into `to`.
template <class P>
__attribute__((noinline)) void pack_key_tiles(P p, const KeySource<bf16>& k, int64_t start,
                                              KeyRange keys, int64_t dims, int64_t padded_dims,
                                              uint32_t* to) {
  const bf16* row[tile::kTileRows];
  int64_t count = 0, at = keys.begin;  // of `row`; the key of row 0
  const auto flush = [&] {
    const tile::PackRows<P, bf16> rows(count, k.dim_stride, 0, [&](int i) { return row[i]; });
    uint32_t* const tiles = to + at / kSide * kSide * padded_dims / 2;
    tile::pack_tile_rows(p, rows, 0, dims, tile::kTileRows, tiles + at % kSide * tile::kTilePairs,
                         kSide * tile::kTilePairs);
    at += count;
    count = 0;
  };
  for_segments(k, start + keys.begin, start + keys.end, kKeyBlock,
               [&](const KeySegment<bf16>& segment, int64_t) {
                 const bf16* key = segment.data;
                 for (int64_t i = 0; i < segment.count; ++i, key += segment.row_stride) {
                   row[count++] = key;
                   if (count == tile::kTileRows) flush();
                 }
               });
  if (count > 0) flush();
}

/// The queries of one vector: the keys of a block that each sees, and what they amount to.
template <class P>
struct QueryLanes {
  using V = typename P::f32;
  using I = tile::with_element<int32_t, V>;
  I begin, end;
  KeyRange all;  // keys that every lane sees
  V m, l;        // of the block: maximum, and sum of the weights

  TW_INLINE I seen() const { return begin < end; }

  /// Scores outside what each query sees become -inf, and all of them what `change` makes of them;
  /// m becomes the maximum. Keys [first, last) of `scores`, a column.
  template <class F>
  TW_INLINE void mask(int64_t first, int64_t last, bool changes, F&& change, float* scores) {
    const V nothing = tile::splat<V>(-__builtin_inff());
    V top[4] = {nothing, nothing, nothing, nothing};
    const auto masked = [&](int64_t from, int64_t to) {
      for (int64_t j = from; j < to; ++j) {
        V s = change(tile::load<V>(scores + j * kSide), j);
        const I at = tile::splat<I>(j);
        s = tile::select((at >= begin) & (at < end), s, nothing);
        tile::store(scores + j * kSide, s);
        top[j % 4] = tile::max(top[j % 4], s);
      }
    };
    const int64_t plain = all.begin / 4 * 4 + (all.begin % 4 > 0 ? 4 : 0), rest = all.end / 4 * 4;
    if (changes || plain >= rest) {
      masked(first, last);
    } else {
      masked(first, plain);
      for (int64_t j = plain; j < rest; j += 4) {
        TW_UNROLL
        for (int u = 0; u < 4; ++u)
          top[u] = tile::max(top[u], tile::load<V>(scores + (j + u) * kSide));
      }
      masked(rest, last);
    }
    m = tile::max(tile::max(top[0], top[1]), tile::max(top[2], top[3]));
  }

  /// 2^((score - m) factor) in pairs of keys, times value_scale[key] where there is one; l becomes
  /// their sum, m the maximum in units of log2 e. ahead(keys) is called on the way.
  template <class F>
  TW_INLINE void weigh(int64_t first, int64_t last, float factor, const float* value_scale,
                       const float* scores, uint32_t* pairs, F&& ahead) {
    const V base = base_of(m);
    V sum[4] = {};
    for (int64_t j = first; j < last; j += 4) {
      V w[4];
      TW_UNROLL
      for (int u = 0; u < 4; ++u) {
        w[u] = tile::exp2_nonpositive((tile::load<V>(scores + (j + u) * kSide) - base) * factor);
        sum[u] += w[u];
      }
      if (value_scale != nullptr) {
        TW_UNROLL
        for (int u = 0; u < 4; ++u) w[u] *= value_scale[j + u];
      }
      tile::store(pairs + j / 2 * kSide, tile::pair_bf16(w[0], w[1]));
      tile::store(pairs + (j / 2 + 1) * kSide, tile::pair_bf16(w[2], w[3]));
      ahead(j + 4 - first);
    }
    l = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    m *= factor;
  }
};

/// A task of attention, as AttentionTile, which knows what it reads.
template <class P>
struct AmxTask {
  using V = typename P::f32;
  static constexpr int kN = P::template kLanes<float>;
  static_assert(kN == tile::kTileRows);

  const AttentionTile<P, bf16>& tile;
  AmxScratch at;
  float factor;  // of scores: units of log2 e, or of the cap
  float* scratch;

  TW_INLINE const TileRows& who() const { return tile.who; }

  /// f(first row, rows) for the groups of rows that are multiplied together.
  template <class F>
  TW_INLINE void for_groups(F&& f) const {
    for (int64_t first = 0; first < who().rows; first += kSide)
      f(first, who().rows - first < kSide ? who().rows - first : kSide);
  }
  TW_INLINE void load_queries(P p, const View<const bf16, 3>& q) const {
    for_groups([&](int64_t first, int64_t count) {
      load_query_panel(p, who(), first, count, q, at.dims, queries(first));
    });
  }

  /// Adds a block of keys to all rows: merged into the accumulators, or left in `partials`.
  __attribute__((noinline)) void process(P p, int64_t block, const Partials* partials) const {
    const KeyRange all = tile.visible(0, who().rows - 1, block);
    if (all.empty()) return;
    if (tile.is_hidden(p, block)) return leave_nothing(partials, who(), block);
    const int64_t start = block * kKeyBlock, there = tile.end_of(block);
    if (tile.k_scale) copy_scales(p, tile.k_scale, start, there, scratch + at.k_scale);
    if (tile.v_scale) copy_scales(p, tile.v_scale, start, there, scratch + at.v_scale);
    pack_key_tiles(p, tile.k, start, {all.begin / kSide * kSide, all.end}, tile.shape.dims, at.dims,
                   units(at.keys));
    pack_value_pairs(p, tile.v, start, all, tile.shape.value_dims, at.value_dims,
                     kKeyBlock / 2 * kSide, units(at.values));
    for_groups([&](int64_t first, int64_t count) {
      const KeyRange seen = tile.visible(first, first + count - 1, block);
      if (seen.empty()) return;
      const KeyRange keys{seen.begin / kSide * kSide, round_up(seen.end, kSide)};
      score(p, keys, first);
      QueryLanes<P> lanes[2];
      for (int64_t half = 0; half < kSide && half < count; half += kN)
        weigh(p, block, keys, first, half, count, lanes[half / kN]);
      if (partials == nullptr)
        merge(p, keys, first, count, lanes);
      else
        leave(p, block, keys, first, count, lanes, *partials);
    });
  }

  /// The state of rows before any key, as start_row.
  TW_INLINE void start(const View<const float, 1>& sinks) const {
    for_groups([&](int64_t first, int64_t) {
      float* const m = states(first);
      for (int64_t i = 0; i < kSide; ++i) {
        m[i] = -__builtin_inff();
        m[kSide + i] = 0;
        if (sinks && first + i < who().rows) {
          m[i] = sinks(who().q_head(first + i)) * kLog2E;
          m[kSide + i] = 1;
        }
      }
      __builtin_memset(accumulator(first), 0, size_t(at.value_dims * kSide) * sizeof(float));
    });
  }
  /// f(first row, rows, their states, their sums in rows `at.value_dims` apart).
  template <class F>
  TW_INLINE void for_results(F&& f) const {
    for_groups([&](int64_t first, int64_t count) {
      BlockStats stats[kSide];
      for (int64_t i = 0; i < count; ++i) stats[i] = {states(first)[i], states(first)[kSide + i]};
      f(first, count, stats, accumulator(first));
    });
  }

 private:
  TW_INLINE uint32_t* units(int64_t part) const {
    return reinterpret_cast<uint32_t*>(scratch + part);
  }
  TW_INLINE uint32_t* queries(int64_t first) const { return units(at.q) + first * at.dims / 2; }
  TW_INLINE float* accumulator(int64_t first) const {
    return scratch + at.acc + first * at.value_dims;
  }
  /// kSide maxima and kSide sums.
  TW_INLINE float* states(int64_t first) const { return scratch + at.states + first * 2; }

  /// c = the columns of a panel for `height` rows of a.
  TW_INLINE static void multiply(P p, int64_t height, const uint32_t* a, const uint32_t* panel,
                                 int64_t k, float* c) {
    tile::mma<tile::Bf16TilePanel>(p, int(height), a, reinterpret_cast<const bf16*>(panel), k, c, 0,
                                   false, reinterpret_cast<const char*>(c));
  }

  __attribute__((noinline)) void score(P p, KeyRange keys, int64_t first) const {
    for (int64_t j = keys.begin; j < keys.end; j += kSide)
      multiply(p, kSide, units(at.keys) + j * at.dims / 2, queries(first), at.dims,
               scratch + at.scores + j * kSide);
  }

  /// Maxima and weights of the queries from `first` + `half` on.
  __attribute__((noinline)) void weigh(P, int64_t block, KeyRange keys, int64_t first, int64_t half,
                                       int64_t count, QueryLanes<P>& lanes) const {
    lanes.all = {0, kKeyBlock};
    for (int i = 0; i < kN; ++i) {
      const int64_t row = first + (half + i < count ? half + i : count - 1);
      const KeyRange mine = tile.visible(row, row, block);
      lanes.begin[i] = int32_t(mine.begin < kKeyBlock ? mine.begin : kKeyBlock);
      lanes.end[i] = int32_t(mine.end > 0 ? mine.end : 0);
      if (mine.begin > lanes.all.begin) lanes.all.begin = mine.begin;
      if (mine.end < lanes.all.end) lanes.all.end = mine.end;
    }
    float* const scores = scratch + at.scores + half;
    const float* const key_scale = tile.k_scale ? scratch + at.k_scale : nullptr;
    const bool changes = tile.softcap > 0 || key_scale != nullptr || !(factor > 0);
    const auto change = [&](V s, int64_t j) {
      if (!changes) return s;
      s *= key_scale != nullptr ? factor * key_scale[j] : factor;
      return tile.softcap > 0 ? tile::tanh(s) * tile.softcap : s;
    };
    lanes.mask(keys.begin, keys.end, changes, change, scores);
    // Meanwhile the next block comes closer, each half of a group its part of it.
    const KeyRange next = tile.keys_ahead(block, first, half == 0 && count > kN ? kN : count);
    int64_t fetched = next.begin;
    lanes.weigh(keys.begin, keys.end, changes ? 1.0f : factor,
                tile.v_scale ? scratch + at.v_scale : nullptr, scores, units(at.pairs) + half,
                [&](int64_t done) {
                  const int64_t due =
                      next.begin + (next.end - next.begin) * done / (keys.end - keys.begin);
                  for (; fetched < due; ++fetched) tile.fetch_ahead(fetched, true);
                });
  }

  /// Calls f(d, sums[query][kSide dims from d on]) for the weights of `count` queries.
  template <class F>
  TW_INLINE void for_sums(P p, KeyRange keys, int64_t count, F&& f) const {
    const int64_t height = count > kN ? kSide : kN, length = keys.end - keys.begin;
    for (int64_t j = 0; j < length; j += kSide)
      for (int64_t half = 0; half < height; half += kN)
        tile::transpose_block(p, units(at.pairs) + (keys.begin + j) / 2 * kSide + half, kSide,
                              units(at.weights) + (j * height + half * kSide) / 2, tile::kTilePairs,
                              kN, tile::kTilePairs);
    float* const sums = scratch + at.sums;
    for (int64_t d = 0; d < at.value_dims; d += kSide) {
      multiply(p, height, units(at.weights),
               units(at.values) + (d * kKeyBlock + keys.begin * kSide) / 2, length, sums);
      f(d, sums);
    }
  }

  __attribute__((noinline)) void merge(P p, KeyRange keys, int64_t first, int64_t count,
                                       const QueryLanes<P> (&lanes)[2]) const {
    float keep[kSide], add[kSide];
    for (int64_t half = 0; half < count; half += kN) {
      const QueryLanes<P>& mine = lanes[half / kN];
      float* const m = states(first) + half;
      const V old_m = tile::load<V>(m), old_l = tile::load<V>(m + kSide);
      const V high = mine.m > old_m ? mine.m : old_m;
      const V base = base_of(high);
      const V old = tile::exp2_nonpositive(old_m - base);
      const V fresh = tile::exp2_nonpositive(mine.m - base);
      const V l = tile::fma(mine.l, fresh, old_l * old);
      tile::store(m, tile::select(mine.seen(), high, old_m));
      tile::store(m + kSide, tile::select(mine.seen(), l, old_l));
      tile::store(keep + half, tile::select(mine.seen(), old, tile::splat<V>(-1.0f)));
      tile::store(add + half, fresh);
    }
    for_sums(p, keys, count, [&](int64_t d, const float* sums) {
      for (int64_t r = 0; r < count; ++r, sums += kSide)
        if (keep[r] >= 0) merge_row(p, sums, keep[r], add[r], kSide, accumulator(first + r) + d);
    });
  }

  __attribute__((noinline)) void leave(P p, int64_t block, KeyRange keys, int64_t first,
                                       int64_t count, const QueryLanes<P> (&lanes)[2],
                                       const Partials& partials) const {
    float* to[kSide];
    for (int64_t r = 0; r < count; ++r) {
      const QueryLanes<P>& mine = lanes[r / kN];
      const int64_t slot = partials.slot(who(), first + r, block);
      const bool seen = mine.begin[r % kN] < mine.end[r % kN];
      to[r] = seen ? partials.values + slot * partials.stride : nullptr;
      if (seen) partials.stats[slot] = {mine.m[r % kN], mine.l[r % kN]};
    }
    for_sums(p, keys, count, [&](int64_t d, const float* sums) {
      const int64_t rest = tile.shape.value_dims - d, dims = rest < kSide ? rest : kSide;
      for (int64_t r = 0; r < count; ++r, sums += kSide)
        if (to[r] != nullptr) __builtin_memcpy(to[r] + d, sums, size_t(dims) * sizeof(float));
    });
  }
};

}  // namespace tw::kernels::attention_detail
