// Packing: rows of a matrix become columns of a k-major block, out[u][lane] = row lane at unit u, so
// that the inner loop of mma reads memory in order. A unit is one value of k widened to float32, or
// two bf16 values of consecutive k (a pair) for vdpbf16ps.
#pragma once

#include "tilewright/tile/cpu/program.h"

namespace tw::tile {

// ---- transposition in registers ------------------------------------------------------------

/// v[i][j] <-> v[j][i], eight vectors of eight 32-bit lanes.
template <class V>
TW_INLINE void transpose(V (&v)[8]) {
  V pairs[8], quads[8];
  TW_UNROLL
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = __builtin_shufflevector(v[i], v[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pairs[i + 1] = __builtin_shufflevector(v[i], v[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  TW_UNROLL
  for (int i = 0; i < 8; i += 4) {
    TW_UNROLL
    for (int h = 0; h < 2; ++h) {
      const V lo = pairs[i + h], hi = pairs[i + h + 2];
      quads[i + 2 * h] = __builtin_shufflevector(lo, hi, 0, 1, 8, 9, 4, 5, 12, 13);
      quads[i + 2 * h + 1] = __builtin_shufflevector(lo, hi, 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  TW_UNROLL
  for (int i = 0; i < 4; ++i) {
    v[i] = __builtin_shufflevector(quads[i], quads[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    v[i + 4] = __builtin_shufflevector(quads[i], quads[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

/// v[i][j] <-> v[j][i], sixteen vectors of sixteen 32-bit lanes.
template <class V>
TW_INLINE void transpose(V (&v)[16]) {
  V pairs[16], quads[16];
  TW_UNROLL
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = __builtin_shufflevector(v[i], v[i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25,
                                       12, 28, 13, 29);
    pairs[i + 1] = __builtin_shufflevector(v[i], v[i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11,
                                           27, 14, 30, 15, 31);
  }
  TW_UNROLL
  for (int i = 0; i < 16; i += 4) {
    TW_UNROLL
    for (int h = 0; h < 2; ++h) {
      const V lo = pairs[i + h], hi = pairs[i + h + 2];
      quads[i + 2 * h] = __builtin_shufflevector(lo, hi, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25,
                                                 12, 13, 28, 29);
      quads[i + 2 * h + 1] = __builtin_shufflevector(lo, hi, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11,
                                                     26, 27, 14, 15, 30, 31);
    }
  }
  // Quad q of row group g holds, in its 128-bit lane L, the four rows of g at column 4 L + q.
  TW_UNROLL
  for (int q = 0; q < 4; ++q) {
    V even[2], odd[2];
    TW_UNROLL
    for (int h = 0; h < 2; ++h) {
      const V lo = quads[8 * h + q], hi = quads[8 * h + 4 + q];
      even[h] = __builtin_shufflevector(lo, hi, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25,
                                        26, 27);
      odd[h] = __builtin_shufflevector(lo, hi, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29,
                                       30, 31);
    }
    TW_UNROLL
    for (int lane = 0; lane < 4; ++lane) {
      const V a = lane % 2 ? odd[0] : even[0], b = lane % 2 ? odd[1] : even[1];
      v[4 * lane + q] =
          lane < 2 ? V(__builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24,
                                               25, 26, 27))
                   : V(__builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23,
                                               28, 29, 30, 31));
    }
  }
}

// ---- units ---------------------------------------------------------------------------------

/// Units of one widened value.
template <class T>
struct WidenedUnits {
  using Unit = float;
  static constexpr int kDepth = 1;  // values of k in a unit

  /// Units of one row, from p on; count of them exist (all lanes when kFull).
  template <class V, bool kFull>
  TW_INLINE static V along(const T* p, int count) {
    if constexpr (kFull) return load<V>(p);
    else return load_partial<V>(p, count);
  }
  /// One unit of `rows` rows whose values lie side by side.
  template <class V>
  TW_INLINE static V across(const T* p, int64_t, int rows, bool) {
    return rows == kLanesOf<V> ? load<V>(p) : load_partial<V>(p, rows);
  }
  /// One unit of every row, wherever the values lie.
  template <class V, class Rows>
  TW_INLINE static V scattered(const Rows& rows, int64_t offset, bool) {
    alignas(64) T buffer[kLanesOf<V>] = {};
    for (int i = 0; i < rows.count; ++i) buffer[i] = rows.row[i][offset];
    return load<V>(buffer);
  }
};

/// Units of a bf16 pair; the second half of the last one is zero when k is odd.
struct PairUnits {
  using Unit = uint32_t;
  static constexpr int kDepth = 2;

  template <class V, bool kFull>
  TW_INLINE static V along(const bf16* p, int count) {
    if constexpr (kFull) return load_bits<V>(p);
    alignas(64) bf16 buffer[2 * kLanesOf<V>] = {};
    for (int i = 0; i < 2 * count; ++i) buffer[i] = p[i];
    return load_bits<V>(buffer);
  }
  template <class V>
  TW_INLINE static V across(const bf16* p, int64_t stride, int rows, bool whole) {
    return lanes<V>(p, rows) | (whole ? V(lanes<V>(p + stride, rows) << 16) : V{});
  }
  template <class V, class Rows>
  TW_INLINE static V scattered(const Rows& rows, int64_t offset, bool whole) {
    V out{};
    for (int i = 0; i < rows.count; ++i) {
      const bf16* p = rows.row[i] + offset;
      out[i] = p->bits | (whole ? uint32_t(p[rows.stride].bits) << 16 : 0u);
    }
    return out;
  }

 private:
  template <class V>
  TW_INLINE static V lanes(const bf16* p, int rows) {
    constexpr int kN = kLanesOf<V>;
    using Bits = vec<uint16_t, kN>;
    if (rows == kN) return convert<V>(load_bits<Bits>(p));
    alignas(64) bf16 buffer[kN] = {};
    for (int i = 0; i < rows; ++i) buffer[i] = p[i];
    return convert<V>(load_bits<Bits>(buffer));
  }
};

// ---- blocks --------------------------------------------------------------------------------

/// Up to one vector of rows, k apart by `stride`; lanes past `count` pack as zeros.
template <class P, class T>
struct PackRows {
  static constexpr int kLanes = P::template kLanes<float>;
  const T* row[kLanes];
  int count;
  int64_t stride;

  TW_INLINE bool side_by_side() const {
    for (int i = 1; i < count; ++i)
      if (row[i] != row[0] + i) return false;
    return true;
  }
};

namespace detail {

/// Where packed vectors go: units `pitch` apart, the last of which ends at `end`. With a pitch
/// below the vector's lanes, each store is overwritten in part by the next one.
template <class Unit>
struct PackTarget {
  Unit* to;
  int64_t pitch;
  Unit* end;

  template <class V>
  TW_INLINE void put(int64_t unit, V v) const {
    Unit* at = to + unit * pitch;
    if (at + kLanesOf<V> <= end) [[likely]] store(at, v);
    else {
      alignas(64) Unit buffer[kLanesOf<V>];
      store(buffer, v);
      for (int64_t i = 0; i < pitch; ++i) at[i] = buffer[i];
    }
  }
};

/// Rows that are contiguous in k: square blocks through the registers.
template <class Units, class V, class P, class T, class Unit>
TW_INLINE void pack_along(const PackRows<P, T>& rows, int64_t first, int64_t k,
                          const PackTarget<Unit>& target) {
  constexpr int kN = kLanesOf<V>, kDepth = Units::kDepth;
  int64_t u = 0;
  const int64_t whole = k / kDepth;
  V v[kN];
  for (; u + kN <= whole; u += kN) {
    const int64_t at = first + u * kDepth;
    if (rows.count == kN) {
      TW_UNROLL
      for (int i = 0; i < kN; ++i) v[i] = Units::template along<V, true>(rows.row[i] + at, kN);
    } else {
      TW_UNROLL
      for (int i = 0; i < kN; ++i)
        v[i] = i < rows.count ? Units::template along<V, true>(rows.row[i] + at, kN) : V{};
    }
    transpose(v);
    TW_UNROLL
    for (int i = 0; i < kN; ++i) target.put(u + i, v[i]);
  }
  if (u < whole) {
    const int64_t at = first + u * kDepth;
    const int rest = int(whole - u);
    TW_UNROLL
    for (int i = 0; i < kN; ++i)
      v[i] = i < rows.count ? Units::template along<V, false>(rows.row[i] + at, rest) : V{};
    transpose(v);
    for (int i = 0; i < rest; ++i) target.put(u + i, v[i]);
  }
}

}  // namespace detail

/// to[u * pitch + lane] = the unit of rows.row[lane] that starts at k = first + u * Units::kDepth, for
/// `k` values of k. The pitch is either above kLanes, and then all lanes of a unit are written, or
/// rows.count. Writes nothing from `end` on, which is where the block ends.
template <class Units, class P, class T>
TW_INLINE void pack(P, const PackRows<P, T>& rows, int64_t first, int64_t k,
                    typename Units::Unit* to, int64_t pitch, typename Units::Unit* end) {
  using Unit = typename Units::Unit;
  using V = typename P::template Vec<Unit>;
  constexpr int kN = kLanesOf<V>, kDepth = Units::kDepth;
  const detail::PackTarget<Unit> target{to, pitch, end};
  int64_t done = 0;  // units
  const int64_t whole = k / kDepth;
  if (rows.count > 0 && rows.stride == 1) {
    if (pitch == 1 && kDepth == 1) {  // one row: nothing to interleave
      for (; done + kN <= whole; done += kN)
        store(to + done, Units::template along<V, true>(rows.row[0] + first + done, kN));
    } else {
      detail::pack_along<Units, V>(rows, first, k, target);
      done = whole;
    }
  } else if (rows.side_by_side()) {
    for (; done < whole; ++done)
      target.put(done, Units::template across<V>(rows.row[0] + (first + done * kDepth) * rows.stride,
                                                 rows.stride, rows.count, true));
  }
  for (; done * kDepth < k; ++done) {  // any strides, and the last unit of an odd k
    const bool complete = (done + 1) * kDepth <= k;
    target.put(done, Units::template scattered<V>(rows, (first + done * kDepth) * rows.stride,
                                                  complete));
  }
}

/// A panel's worth of `Format` elements widened to rows of float32, `k` values of k.
template <class T, class P>
TW_INLINE void widen_rows(P, const T* from, int64_t values, float* to) {
  using V = typename P::template Vec<float>;
  constexpr int kN = kLanesOf<V>;
  for (int64_t i = 0; i < values; i += 2 * kN) {
    store(to + i, load<V>(from + i));
    store(to + i + kN, load<V>(from + i + kN));
  }
}

/// bf16 pairs [k / 2][width][2] widened to [k][width].
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
