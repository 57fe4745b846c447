// Transposition of a block of elements of 1, 2, 4 or 8 bytes, all but the last through registers.
#pragma once

#include "tilewright/tile/cpu/primitives.h"
#include "tilewright/tile/cpu/quads.h"

namespace tw::tile {

namespace detail {

/// The 16 bytes at p, p + step, p + 2 step ..., one for each 128-bit lane of V.
template <class V, class U>
TW_INLINE V load_16_byte_lanes(const U* p, int64_t step) {
  using Half = vec<uint64_t, 2>;
  const Half a = load_bits<Half>(p), b = load_bits<Half>(p + step);
  const auto ab = __builtin_shufflevector(a, b, 0, 1, 2, 3);
  if constexpr (sizeof(V) == 32) {
    return bit_cast<V>(ab);
  } else {
    const Half c = load_bits<Half>(p + 2 * step), d = load_bits<Half>(p + 3 * step);
    const auto cd = __builtin_shufflevector(c, d, 0, 1, 2, 3);
    return bit_cast<V>(__builtin_shufflevector(ab, cd, 0, 1, 2, 3, 4, 5, 6, 7));
  }
}

/// The first four units of a tile from pairs of rows that lie as 32-bit values in each 128-bit lane
/// of `low`, the next four from `high`.
template <class U, class V>
TW_INLINE void store_pairs(V (&low)[4], V (&high)[4], U* to, int64_t to_stride) {
  transpose_quads(low);
  transpose_quads(high);
  TW_UNROLL
  for (int i = 0; i < 4; ++i) {
    __builtin_memcpy(to + i * to_stride, &low[i], sizeof(V));
    __builtin_memcpy(to + (i + 4) * to_stride, &high[i], sizeof(V));
  }
}

/// Sizes of the tile that goes through the registers at once.
template <class P, class U>
inline constexpr int kTileUnits = 16 / int(sizeof(U));
template <class P, class U>
inline constexpr int kTileRows = P::kVectorBytes / int(sizeof(U));

/// to[u * to_stride + v] = from[v * from_stride + u] for u < kTileUnits, v < kTileRows.
template <class P, class U>
TW_INLINE void transpose_tile(P, const U* from, int64_t from_stride, U* to, int64_t to_stride) {
  using V = typename P::template Vec<uint32_t>;
  if constexpr (sizeof(U) == 4) {  // lane L of v[i]: row 4 L + i
    V v[4];
    TW_UNROLL
    for (int i = 0; i < 4; ++i)
      v[i] = load_16_byte_lanes<V>(from + i * from_stride, 4 * from_stride);
    transpose_quads(v);
    TW_UNROLL
    for (int i = 0; i < 4; ++i) __builtin_memcpy(to + i * to_stride, &v[i], sizeof(V));
  } else if constexpr (sizeof(U) == 1) {  // lane L of v[i]: row 16 L + i
    V v[16];
    TW_UNROLL
    for (int i = 0; i < 16; ++i)
      v[i] = load_16_byte_lanes<V>(from + i * from_stride, 16 * from_stride);
    const auto store_half = [&]<bool kUpper>() TW_INLINED {  // eight of the units
      V low[4], high[4];
      TW_UNROLL
      for (int i = 0; i < 4; ++i) {
        const V a = interleave<uint8_t, kUpper>(v[4 * i], v[4 * i + 1]);
        const V b = interleave<uint8_t, kUpper>(v[4 * i + 2], v[4 * i + 3]);
        low[i] = interleave<uint16_t, false>(a, b);
        high[i] = interleave<uint16_t, true>(a, b);
      }
      store_pairs(low, high, to + 8 * kUpper * to_stride, to_stride);
    };
    store_half.template operator()<false>();
    store_half.template operator()<true>();
  } else {  // lane L of pair i: rows 8 L + 2 i and 8 L + 2 i + 1, their values side by side
    V low[4], high[4];
    TW_UNROLL
    for (int i = 0; i < 4; ++i) {
      const U* const row = from + 2 * i * from_stride;
      const V a = load_16_byte_lanes<V>(row, 8 * from_stride);
      const V b = load_16_byte_lanes<V>(row + from_stride, 8 * from_stride);
      low[i] = interleave<uint16_t, false>(a, b);
      high[i] = interleave<uint16_t, true>(a, b);
    }
    store_pairs(low, high, to, to_stride);
  }
}

/// A whole line of each row at once, so that rows whose lines share a set of the nearest cache need
/// not stay there: to[u * to_stride + v] = from[v * from_stride + u] for u < kLineUnits, v < 16.
template <class U>
inline constexpr int kLineUnits = 64 / int(sizeof(U));
inline constexpr int kLineRows = 16;

#if defined(__AVX512F__)
template <class P>
TW_INLINE void transpose_lines(P, const uint32_t* from, int64_t from_stride, uint32_t* to,
                               int64_t to_stride) {
  using V = typename P::template Vec<uint32_t>;
  V v[kLineRows];
  TW_UNROLL
  for (int i = 0; i < kLineRows; ++i) v[i] = load_bits<V>(from + i * from_stride);
  transpose_square(v);
  TW_UNROLL
  for (int i = 0; i < kLineRows; ++i) store(to + i * to_stride, v[i]);
}

template <class P>
TW_INLINE void transpose_lines(P, const uint16_t* from, int64_t from_stride, uint16_t* to,
                               int64_t to_stride) {
  using V = typename P::template Vec<uint32_t>;
  // [k][j], lane L: column 8 L + j (upper: + 4) of rows 8 k to 8 k + 7
  V lower[2][4], upper[2][4];
  TW_UNROLL
  for (int k = 0; k < 2; ++k) {
    TW_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint16_t* const row = from + (8 * k + 2 * i) * from_stride;
      const V a = load_bits<V>(row), b = load_bits<V>(row + from_stride);
      lower[k][i] = interleave<uint16_t, false>(a, b);
      upper[k][i] = interleave<uint16_t, true>(a, b);
    }
    transpose_quads(lower[k]);
    transpose_quads(upper[k]);
  }
  const auto store_columns = [&](const V& a, const V& b, int first) TW_INLINED {
    // Lanes of both side by side: 16 rows of a column are 32 bytes.
    const V even = every_other_quad<false>(a, b), odd = every_other_quad<true>(a, b);
    const auto put = [&](const auto& column_rows, int column) TW_INLINED {
      __builtin_memcpy(to + (first + column) * to_stride, &column_rows, sizeof(column_rows));
    };
    const auto put_two = [&](V v, int column) TW_INLINED {
      put(__builtin_shufflevector(v, v, 0, 1, 2, 3, 8, 9, 10, 11), column);
      put(__builtin_shufflevector(v, v, 4, 5, 6, 7, 12, 13, 14, 15), column + 16);
    };
    put_two(even, 0);
    put_two(odd, 8);
  };
  TW_UNROLL
  for (int j = 0; j < 4; ++j) {
    store_columns(lower[0][j], lower[1][j], j);
    store_columns(upper[0][j], upper[1][j], 4 + j);
  }
}
#endif

/// Of kLineRows rows, as many whole lines of units as there are; returns how many units.
template <class P, class U>
TW_INLINE int64_t transpose_row_lines([[maybe_unused]] P p, [[maybe_unused]] const U* from,
                                      [[maybe_unused]] int64_t from_stride, [[maybe_unused]] U* to,
                                      [[maybe_unused]] int64_t to_stride,
                                      [[maybe_unused]] int64_t units) {
  int64_t done = 0;
#if defined(__AVX512F__)
  if constexpr (sizeof(U) == 2 || sizeof(U) == 4)
    for (; done + kLineUnits<U> <= units; done += kLineUnits<U>)
      transpose_lines(p, from + done, from_stride, to + done * to_stride, to_stride);
#endif
  return done;
}

/// Of kTileRows rows, as many units as go through the registers; returns how many.
template <class P, class U>
TW_INLINE int64_t transpose_rows(P p, const U* from, int64_t from_stride, U* to, int64_t to_stride,
                                 int64_t units) {
  int64_t done = 0;
  if constexpr (sizeof(U) <= 4) {
    for (int v = 0; v < kTileRows<P, U>; v += kLineRows)
      done = transpose_row_lines(p, from + v * from_stride, from_stride, to + v, to_stride, units);
    constexpr int kUnits = kTileUnits<P, U>;
    for (; done + kUnits <= units; done += kUnits)
      transpose_tile(p, from + done, from_stride, to + done * to_stride, to_stride);
  }
  return done;
}

}  // namespace detail

/// to[u * to_stride + v] = from[v * from_stride + u] for u < units, v < rows.
template <class P, class U>
TW_INLINE void transpose_block(P p, const U* from, int64_t from_stride, U* to, int64_t to_stride,
                               int64_t units, int64_t rows) {
  constexpr bool kInRegisters = sizeof(U) <= 4;
  constexpr int64_t kRows = kInRegisters ? detail::kTileRows<P, U> : 8;
  for (int64_t begin = 0, count = 0; begin < rows; begin += count) {
    const U* const source = from + begin * from_stride;
    U* const target = to + begin;
    count = rows - begin;
    int64_t done = 0;
    if (count >= kRows) {
      count = kRows;
      done = detail::transpose_rows(p, source, from_stride, target, to_stride, units);
    } else if (count >= detail::kLineRows) {
      count = detail::kLineRows;
      done = detail::transpose_row_lines(p, source, from_stride, target, to_stride, units);
    }
    for (int64_t v = 0; v < count; ++v)
      for (int64_t u = done; u < units; ++u)
        target[u * to_stride + v] = source[v * from_stride + u];
  }
}

/// What a GPU's programs have instead (tile/cuda/transpose.h), so that the host can plan them.
template <class P, class U>
void turn_block(P p, const U* from, int64_t from_step, U* to, int64_t to_unit, int64_t to_step,
                int64_t units, int64_t rows);

}  // namespace tw::tile
