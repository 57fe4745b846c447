// Packing: rows of a matrix become columns of a k-major block, out[u][lane] = row lane at unit u,
// so that the inner loop of mma reads memory in order. A unit is one value of k widened to float32,
// or two bf16 values of consecutive k (a pair) for vdpbf16ps.
#pragma once

#include "tilewright/tile/cpu/program.h"
#include "tilewright/tile/cpu/quads.h"

namespace tw::tile {

// ---- units ---------------------------------------------------------------------------------

namespace detail {

/// The lower halves of all lanes, widened, and the upper ones.
template <class T, class V, class Bits>
TW_INLINE void widen_halves(Bits lanes, V& lower, V& upper) {
  if constexpr (same_type<T, bf16>) {
    lower = bit_cast<V>(lanes << 16);
    upper = bit_cast<V>(lanes & 0xffff0000u);
  } else {
    constexpr int kN = kLanesOf<V>;
    vec<uint16_t, kN> apart[2];
    const auto sorted = even_halves_first(lanes);
    __builtin_memcpy(apart, &sorted, sizeof(apart));
    lower = widen_f16(apart[0]);
    upper = widen_f16(apart[1]);
  }
}

}  // namespace detail

/// Units of one widened value.
template <class T>
struct WidenedUnits {
  using Unit = float;
  static constexpr int kDepth = 1;                       // values of k in a unit
  static constexpr int kBlock = sizeof(T) == 2 ? 8 : 4;  // units transposed at once
  /// The same where a vector has 16 rows.
  static constexpr int kWideBlock = sizeof(T) == 1 ? kBlock : 2 * kBlock;

  /// The kCount units from element `at` on, of one row in each lane.
  template <class V, int kCount>
  TW_INLINE static void block(const T* const* row, int64_t at, V (&v)[kCount]) {
    constexpr int kN = kLanesOf<V>;
    if constexpr (same_type<T, f16> && kCount == 16) {
      vec<uint16_t, kN> halves[kCount];
      load_turned_halves(row, at, halves);
      TW_UNROLL
      for (int i = 0; i < kCount; ++i) v[i] = widen_f16(halves[i]);
    } else if constexpr (sizeof(T) == 2) {  // transposed as pairs, of which there are half as many
      vec<uint32_t, kN> pairs[kCount / 2];
      load_columns<uint32_t>(row, at, pairs);
      TW_UNROLL
      for (int i = 0; i < kCount / 2; ++i)
        detail::widen_halves<T>(pairs[i], v[2 * i], v[2 * i + 1]);
    } else if constexpr (sizeof(T) == sizeof(float)) {
      load_columns<float>(row, at, v);
    } else {
      TW_UNROLL
      for (int r = 0; r < 4; ++r) {
        const auto bits = load_quads<bits_of<T>, kN>(row + r, at);
        v[r] = load<V>(reinterpret_cast<const T*>(&bits));
      }
      transpose_quads(v);
    }
  }
  /// One unit of `rows` rows whose values lie side by side; of k, `left` values are left.
  template <class V>
  TW_INLINE static V across(const T* p, int64_t, int rows, int64_t) {
    return rows == kLanesOf<V> ? load<V>(p) : load_partial<V>(p, rows);
  }
  /// One unit of every row, wherever the values lie.
  template <class V, class Rows>
  TW_INLINE static V scattered(const Rows& rows, int64_t offset, int64_t) {
    alignas(64) T buffer[kLanesOf<V>] = {};
    for (int i = 0; i < rows.count; ++i) buffer[i] = rows.row[i][offset];
    return load<V>(buffer);
  }
};

/// Units of a bf16 pair; the second half of the last one is zero when k is odd.
struct PairUnits {
  using Unit = uint32_t;
  static constexpr int kDepth = 2, kBlock = 4, kWideBlock = 8;

  template <class V, int kCount>
  TW_INLINE static void block(const bf16* const* row, int64_t at, V (&v)[kCount]) {
    load_columns<uint32_t>(row, at, v);
  }
  template <class V>
  TW_INLINE static V across(const bf16* p, int64_t stride, int rows, int64_t left) {
    return lanes<V>(p, rows) | (left > 1 ? V(lanes<V>(p + stride, rows) << 16) : V{});
  }
  template <class V, class Rows>
  TW_INLINE static V scattered(const Rows& rows, int64_t offset, int64_t left) {
    alignas(64) uint32_t buffer[kLanesOf<V>] = {};
    for (int i = 0; i < rows.count; ++i) {
      const bf16* p = rows.row[i] + offset;
      buffer[i] = p->bits | (left > 1 ? uint32_t(p[rows.stride].bits) << 16 : 0u);
    }
    return load_bits<V>(buffer);
  }

 private:
  template <class V>
  TW_INLINE static V lanes(const bf16* p, int rows) {
    constexpr int kN = kLanesOf<V>;
    using Bits = vec<uint16_t, kN>;
    if (rows == kN) return convert<V>(load_bits<Bits>(p));
#if defined(__AVX512F__)
    if constexpr (kN == 16)
      return convert<V>((Bits)_mm256_maskz_loadu_epi16(__mmask16((1u << rows) - 1u), p));
#endif
    alignas(64) bf16 buffer[kN] = {};
    for (int i = 0; i < rows; ++i) buffer[i] = p[i];
    return convert<V>(load_bits<Bits>(buffer));
  }
};

/// Calls f.template operator()<kCount>(u) for blocks of kCount units from u on that end at `end` or
/// before; returns the first unit that is in none.
template <class Units, class V, class F>
TW_INLINE int64_t for_blocks(int64_t u, int64_t end, F&& f) {
  constexpr int kBlock = Units::kBlock, kWide = Units::kWideBlock;
  if constexpr (kLanesOf<V> == 16 && kWide > kBlock)
    for (; u + kWide <= end; u += kWide) f.template operator()<kWide>(u);
  for (; u + kBlock <= end; u += kBlock) f.template operator()<kBlock>(u);
  return u;
}

// ---- blocks --------------------------------------------------------------------------------

/// Up to one vector of rows, values of k apart by `stride`. `row` is set for all lanes: those from
/// `count` on repeat a valid row, and what they pack is never used.
template <class P, class T>
struct PackRows {
  static constexpr int kLanes = P::template kLanes<float>;
  const T* row[kLanes];
  int count;
  int64_t stride;
  int64_t ahead;  // elements from what is packed now to what will be packed soon; 0: nothing

  /// pointer_of(i) for each of `valid` >= 1 rows.
  template <class F>
  TW_INLINE PackRows(int64_t valid, int64_t k_stride, int64_t distance, F&& pointer_of)
      : count(int(valid < kLanes ? valid : kLanes)), stride(k_stride), ahead(distance) {
    for (int i = 0; i < kLanes; ++i) row[i] = i < count ? pointer_of(i) : row[0];
  }
  TW_INLINE bool side_by_side() const {
    for (int i = 1; i < count; ++i)
      if (row[i] != row[0] + i) return false;
    return true;
  }
};

namespace detail {

/// Where packed vectors go: units `pitch` apart, the last of which ends at `end`. With a pitch
/// below the vector's lanes, each store is overwritten in part by the next one.
template <class Unit, bool kWide>
struct PackTarget {
  Unit* to;
  int64_t pitch;
  Unit* end;

  template <class V>
  TW_INLINE void put(int64_t unit, V v) const {
    Unit* at = to + unit * pitch;
    if (kWide || at + kLanesOf<V> <= end) [[likely]] {
      store(at, v);
    } else {
      alignas(64) Unit buffer[kLanesOf<V>];
      store(buffer, v);
      for (int64_t i = 0; i < pitch; ++i) at[i] = buffer[i];
    }
  }
};

template <class Units, bool kWide, class P, class T>
TW_INLINE void pack(const PackRows<P, T>& rows, int64_t first, int64_t k,
                    const PackTarget<typename Units::Unit, kWide>& target) {
  using V = typename P::template Vec<typename Units::Unit>;
  constexpr int kDepth = Units::kDepth, kLine = 64 / int(sizeof(T)) / kDepth;
  const int64_t whole = k / kDepth;
  int64_t u = 0;
  if (rows.stride == 1) {  // contiguous in k: blocks of units through the registers
    u = for_blocks<Units, V>(0, whole, [&]<int kCount>(int64_t from) {
      const int64_t at = first + from * kDepth;
      if (rows.ahead != 0 && from % kLine == 0)
        for (int i = 0; i < rows.count; ++i) prefetch_l2(rows.row[i] + at + rows.ahead);
      V v[kCount];
      Units::block(rows.row, at, v);
      TW_UNROLL
      for (int i = 0; i < kCount; ++i) target.put(from + i, v[i]);
    });
  } else if (rows.side_by_side()) {
    for (; u < whole; ++u) {
      const T* at = rows.row[0] + (first + u * kDepth) * rows.stride;
      prefetch_l2(at + rows.ahead);
      target.put(u, Units::template across<V>(at, rows.stride, rows.count, kDepth));
    }
  }
  for (; u * kDepth < k; ++u) {  // any strides, the rest, and the last unit of an odd k
    target.put(
        u, Units::template scattered<V>(rows, (first + u * kDepth) * rows.stride, k - u * kDepth));
  }
}

}  // namespace detail

/// to[u * pitch + lane] = the unit of rows.row[lane] that starts at k = first + u * Units::kDepth,
/// for `k` values of k: rows.count = pitch rows, tightly. The block ends at `end`.
template <class Units, class P, class T>
TW_INLINE void pack_tight(P, const PackRows<P, T>& rows, int64_t first, int64_t k,
                          typename Units::Unit* to, typename Units::Unit* end) {
  using Unit = typename Units::Unit;
  using V = typename P::template Vec<Unit>;
  constexpr int kN = kLanesOf<V>;
  int64_t done = 0;
  if constexpr (Units::kDepth == 1) {
    if (rows.count == 1 && rows.stride == 1)  // nothing to interleave
      for (; done + kN <= k; done += kN) store(to + done, load<V>(rows.row[0] + first + done));
  }
  detail::pack<Units, false>(rows, first + done, k - done,
                             detail::PackTarget<Unit, false>{to + done, rows.count, end});
}

/// The same with units `pitch` apart, a pitch no smaller than a vector, all of which is written.
template <class Units, class P, class T>
TW_INLINE void pack_wide(P, const PackRows<P, T>& rows, int64_t first, int64_t k,
                         typename Units::Unit* to, int64_t pitch) {
  using Unit = typename Units::Unit;
  detail::pack<Units, true>(rows, first, k, detail::PackTarget<Unit, true>{to, pitch, nullptr});
}

// ---- packed panels, widened ----------------------------------------------------------------

/// `values` elements, a multiple of 32, widened.
template <class T, class P>
TW_INLINE void widen(P, const T* from, int64_t values, float* to) {
  using V = typename P::template Vec<float>;
  constexpr int kN = kLanesOf<V>;
  for (int64_t i = 0; i < values; i += 2 * kN) {
    store(to + i, load<V>(from + i));
    store(to + i + kN, load<V>(from + i + kN));
  }
}

/// bf16 pairs [k / 2][width][2] widened to [k][width], width a multiple of the lanes.
template <class P>
TW_INLINE void widen_pairs(P, const bf16* from, int64_t k, int64_t width, float* to) {
  using V = typename P::template Vec<float>;
  constexpr int kN = kLanesOf<V>;
  using Bits = vec<uint32_t, kN>;
  for (int64_t i = 0; i < k; i += 2) {
    for (int64_t j = 0; j < width; j += kN) {
      const Bits bits = load_bits<Bits>(from + i * width + 2 * j);
      store(to + i * width + j, bit_cast<V>(bits << 16));
      if (i + 1 < k) store(to + (i + 1) * width + j, bit_cast<V>(bits & 0xffff0000u));
    }
  }
}

}  // namespace tw::tile
