// Copies of queries, keys and values as attention's inner products want them: in panels of float32,
// or of pairs of bf16, of two d or two keys.
//
//   queries   [tile of kTileRows rows][d][row]     scaled, if float32
//   keys      [panel of kPanel keys][d][key]       zeros or other keys past the last one
//   values    [panel of kPanel columns][key][column], panels some stride apart; zeros past Dv
#pragma once

#include "tilewright/kernels/attention_partials_cpu.h"
#include "tilewright/kernels/attention_softmax_cpu.h"

namespace tw::kernels::attention_detail {

/// What is multiplied: numbers, widened to float32.
struct Floats {
  using Unit = float;
  static constexpr int64_t kDepth = 1;  // numbers in a unit
  template <class T>
  using Units = tile::WidenedUnits<T>;
};
/// Pairs of bf16, which numbers of 8 bits become.
struct Pairs {
  using Unit = uint32_t;
  static constexpr int64_t kDepth = 2;
  template <class T>
  using Units = tile::Bf16PairUnits<T>;
};
template <class M>
TW_INLINE constexpr int64_t units_of(int64_t numbers) {
  return (numbers + M::kDepth - 1) / M::kDepth;
}

/// Of a query or key: its dims, then its rotated ones.
template <class M>
TW_INLINE constexpr int64_t depth_of(const AttentionShape& shape) {
  return units_of<M>(shape.dims) + units_of<M>(shape.rotated_dims);
}

/// A cache line more than a panel, so that a row of v goes to different sets.
template <class P, class M>
inline constexpr int64_t kValuePanelStride = kKeyBlock / M::kDepth * kPanel<P> + 16;

template <class P>
TW_INLINE constexpr int64_t value_panels(int64_t value_dims) {
  return (value_dims + kPanel<P> - 1) / kPanel<P>;
}

/// Rows up to which a block is not worth copying.
inline constexpr int64_t kDirectRows = 8;

/// Where a tile keeps its temporaries, in floats; every part starts on a cache line. The parts from
/// `own` on hold what is used up at once.
template <class P>
struct TileScratch {
  int64_t q, acc, states, scores, block, block_stats, k_scale, v_scale, own, keys, values, total;
  int64_t acc_stride;

  TW_INLINE TileScratch(const AttentionShape& shape, int64_t rows) {
    const int64_t padded = round_up(rows, kTileRows<P>);
    const int64_t panels = value_panels<P>(shape.value_dims);
    int64_t at = 0;
    const auto take = [&](int64_t floats) {
      const int64_t start = at;
      at += round_up(floats, 16);
      return start;
    };
    acc_stride = panels * kPanel<P>;
    q = take(padded * depth_of<Floats>(shape));
    acc = take(padded * acc_stride);
    states = take(padded * 2);
    scores = take((padded < kScoreRows ? padded : kScoreRows) * kScoreStride);
    block = take(round_up(rows < kDirectRows ? rows : kDirectRows, kTileRows<P>) * acc_stride);
    block_stats = take(2 * kDirectRows);
    k_scale = take(kKeyBlock);
    v_scale = take(kKeyBlock);
    own = at;
    keys = take(kKeyBlock * depth_of<Floats>(shape));
    values = take(panels * kValuePanelStride<P, Floats>);
    total = at;
  }
};

/// kTileRows rows of queries, floats times `scale`.
template <class M, class P, class T>
TW_INLINE void pack_queries(P p, const tile::PackRows<P, T>& rows, int64_t dims, float scale,
                            typename M::Unit* to) {
  using V = typename P::f32;
  constexpr int kN = P::template kLanes<float>;
  auto* const end = to + rows.count * units_of<M>(dims);
  tile::pack_tight<typename M::template Units<T>>(p, rows, 0, dims, to, end);
  if constexpr (tile::same_type<M, Floats>) {
    for (; to + kN <= end; to += kN) tile::store(to, tile::load<V>(to) * scale);
    for (; to < end; ++to) *to *= scale;
  }
}

/// Keys [first, end), first a multiple of kPanel, into panels of `depth` units from `to` on.
template <class M, class P, class U>
__attribute__((noinline)) void pack_keys(P p, const KeySource<U>& k, int64_t first, int64_t end,
                                         int64_t dims, int64_t depth, typename M::Unit* to) {
  using Vec = typename P::template Vec<typename M::Unit>;
  constexpr int kN = P::template kLanes<float>;
  const U* keys[kN];
  int count = 0;       // of `keys`
  int64_t vector = 0;  // of keys: two to a panel
  const auto flush = [&] {
    const tile::PackRows<P, U> rows(count, k.dim_stride, 2 * kN * k.row_stride,
                                    [&](int i) { return keys[i]; });
    tile::pack_wide<typename M::template Units<U>>(
        p, rows, 0, dims, to + vector / 2 * depth * kPanel<P> + vector % 2 * kN, kPanel<P>);
    count = 0;
    ++vector;
  };
  for_segments(k, first, end, kKeyBlock, [&](const KeySegment<U>& segment, int64_t) {
    const U* key = segment.data;
    for (int64_t i = 0; i < segment.count; ++i, key += segment.row_stride) {
      keys[count++] = key;
      if (count == kN) flush();
    }
  });
  if (count > 0) flush();
  if (vector % 2 == 1) {  // the panel's other half holds no key
    auto* const at = to + vector / 2 * depth * kPanel<P> + kN;
    for (int64_t d = 0; d < units_of<M>(dims); ++d) tile::store(at + d * kPanel<P>, Vec{});
  }
}

/// Further dims of keys, or none, of a type that who packs them need not know.
template <class P, class M>
struct RotatedKeys {
  using Unit = typename M::Unit;

  template <class T>
  TW_INLINE static RotatedKeys of(const KeySource<T>& keys) {
    if (!keys) return {};
    return {&keys, [](P p, const void* source, int64_t first, int64_t end, int64_t dims,
                      int64_t depth, Unit* to) {
              pack_keys<M>(p, *static_cast<const KeySource<T>*>(source), first, end, dims, depth,
                           to);
            }};
  }
  TW_INLINE explicit operator bool() const { return source != nullptr; }
  TW_INLINE void pack(P p, int64_t first, int64_t end, int64_t dims, int64_t depth,
                      Unit* to) const {
    pack_source(p, source, first, end, dims, depth, to);
  }

  const void* source = nullptr;
  void (*pack_source)(P, const void* source, int64_t first, int64_t end, int64_t dims,
                      int64_t depth, Unit* to) = nullptr;
};

/// Values of keys [first, end) to rows offset, offset + 1, ... of all panels.
template <class P, class U>
__attribute__((noinline)) void pack_values(P, const KeySource<U>& v, int64_t first, int64_t end,
                                           int64_t value_dims, int64_t offset, float* to) {
  using V = typename P::f32;
  constexpr int kN = P::template kLanes<float>;
  for_segments(v, first, end, kKeyBlock, [&](const KeySegment<U>& segment, int64_t start) {
    const U* row = segment.data;
    float* out = to + (offset + start) * kPanel<P>;
    for (int64_t i = 0; i < segment.count; ++i, row += segment.row_stride, out += kPanel<P>) {
      float* at = out;
      int64_t d = 0;
      if (segment.dim_stride == 1) {
        for (; d + 2 * kN <= value_dims; d += 2 * kN, at += kValuePanelStride<P, Floats>) {
          tile::store(at, tile::load<V>(row + d));
          tile::store(at + kN, tile::load<V>(row + d + kN));
        }
      }
      for (; d < value_dims; d += 2 * kN, at += kValuePanelStride<P, Floats>) {
        const U* from = row + d * segment.dim_stride;
        for (int half = 0; half < 2; ++half, from += kN * segment.dim_stride) {
          const int64_t rest = value_dims - d - half * kN;
          const int count = rest < 0 ? 0 : rest < kN ? int(rest) : kN;
          tile::store(at + half * kN, tile::gather<V>(from, segment.dim_stride, count));
        }
      }
    }
  });
}

/// Values of keys [keys.begin, keys.end) of a block that begins at `start`, into panels of pairs,
/// `panel_stride` apart; zeros fill up 32 keys at both ends.
template <class P, class U>
__attribute__((noinline)) void pack_value_pairs(P, const KeySource<U>& v, int64_t start,
                                                KeyRange keys, int64_t dims, int64_t padded_dims,
                                                int64_t panel_stride, uint32_t* to) {
  using Units = typename P::template Vec<uint32_t>;
  constexpr int kN = tile::kLanesOf<Units>;
  using Bits = tile::vec<bits_of<U>, kN>;
  constexpr int64_t kSide = 32;
  // The pair of keys from `key` on; a row without data is zeros.
  const auto pack_pair = [&](int64_t key, const U* low, const U* high) {
    uint32_t* out = to + key / 2 * kSide;
    for (int64_t d = 0; d < padded_dims; d += kSide, out += panel_stride) {
      TW_UNROLL
      for (int i = 0; i < kSide; i += kN) {
        const auto load = [&](const U* row) -> Bits {
          if (row == nullptr) return Bits{};
          if (d + i + kN <= dims && v.dim_stride == 1) return tile::load_bits<Bits>(row + d + i);
          Bits bits{};
          for (int64_t c = 0; c < kN && d + i + c < dims; ++c)
            bits[c] = __builtin_bit_cast(bits_of<U>, row[(d + i + c) * v.dim_stride]);
          return bits;
        };
        tile::store(out + i, tile::bf16_pairs<U>(load(low), load(high)));
      }
    }
  };
  const int64_t first = keys.begin / kSide * kSide, last = round_up(keys.end, kSide);
  const U* row[kKeyBlock] = {};
  for_segments(v, start + keys.begin, start + keys.end, kKeyBlock,
               [&](const KeySegment<U>& segment, int64_t offset) {
                 for (int64_t i = 0; i < segment.count; ++i)
                   row[keys.begin + offset + i] = segment.data + i * segment.row_stride;
               });
  for (int64_t key = first; key < last; key += 2) pack_pair(key, row[key], row[key + 1]);
}

/// One number per key of [first, end), zeros for the rest of the block.
template <class P>
TW_INLINE void copy_scales(P, const KeySource<float>& scale, int64_t first, int64_t end,
                           float* to) {
  for_segments(scale, first, end, kKeyBlock, [&](const KeySegment<float>& segment, int64_t start) {
    for (int64_t i = 0; i < segment.count; ++i)
      to[start + i] = segment.data[i * segment.row_stride];
  });
  for (int64_t i = end - first; i < kKeyBlock; ++i) to[i] = 0;
}

/// Rows [first, last) of keys or values, the first of which is at `data`, as they lie.
template <class P, class M, class U>
TW_INLINE auto columns_of(const U* data, int64_t first, int64_t last, int64_t stride,
                          const char* ahead) {
  constexpr int64_t kStep = 2 * P::template kLanes<float>;
  if constexpr (tile::same_type<M, Floats>)
    return Columns<U>{data, stride, kStep, ahead};
  else
    return PairColumns<U>::of(data, first, last, stride, kStep, ahead);
}

template <class U>
TW_INLINE void fetch_key(const KeySource<U>& source, int64_t key, int64_t dims) {
  if (source.dim_stride != 1 && !source.is_close(dims)) return;
  const U* const from =
      source.dim_stride == 1 ? source.at(key, key + 1).data : source.share(key, dims);
  for (int64_t d = 0; d < dims; d += 64 / int64_t{sizeof(U)}) tile::prefetch_l2(from + d);
}

}  // namespace tw::kernels::attention_detail
