// Quads: the four 32-bit lanes of each 128-bit part of a vector.
#pragma once

#include "tilewright/tile/cpu/memory.h"

namespace tw::tile {

/// The 128-bit chunks of 32-bit lanes in a, b side by side.
template <class A>
TW_INLINE auto concat(A a, A b) {
  constexpr int kN = kLanesOf<A>;
  if constexpr (kN == 4)
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
  else
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

/// Four elements from each of row[0], row[4], row[8] ..., at `at`, side by side.
template <class E, int kLanes, class T>
TW_INLINE auto load_quads(const T* const* row, int64_t at) {
  using Quad = vec<E, 4>;
  const auto quad = [&](int i) { return load_bits<Quad>(row[i] + at); };
  if constexpr (kLanes == 8)
    return concat(quad(0), quad(4));
  else
    return concat(concat(quad(0), quad(4)), concat(quad(8), quad(12)));
}

/// Transposes the 4 x 4 blocks of 32-bit lanes that the 128-bit lanes of v hold.
template <class V>
TW_INLINE void transpose_quads(V (&v)[4]) {
  const auto lo = [](V a, V b) {
    if constexpr (kLanesOf<V> == 8)
      return V(__builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13));
    else
      return V(
          __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29));
  };
  const auto hi = [](V a, V b) {
    if constexpr (kLanesOf<V> == 8)
      return V(__builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15));
    else
      return V(__builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15,
                                       31));
  };
  // Lanes interleave as 0 2, then as 01 23: two rounds of unpacking.
  const V a = lo(v[0], v[2]), b = lo(v[1], v[3]), c = hi(v[0], v[2]), d = hi(v[1], v[3]);
  v[0] = lo(a, b);
  v[1] = hi(a, b);
  v[2] = lo(c, d);
  v[3] = hi(c, d);
}

/// Interleaves the lower (kHigh: the upper) halves of each 128-bit lane of a and b, in elements E
/// of one byte or two.
template <class E, bool kHigh, class V>
TW_INLINE V interleave(V a, V b) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) {
    const __m512i x = (__m512i)a, y = (__m512i)b;
    if constexpr (sizeof(E) == 1)
      return (V)(kHigh ? _mm512_unpackhi_epi8(x, y) : _mm512_unpacklo_epi8(x, y));
    else
      return (V)(kHigh ? _mm512_unpackhi_epi16(x, y) : _mm512_unpacklo_epi16(x, y));
  }
#endif
  if constexpr (sizeof(V) == 32) {
    const __m256i x = (__m256i)a, y = (__m256i)b;
    if constexpr (sizeof(E) == 1)
      return (V)(kHigh ? _mm256_unpackhi_epi8(x, y) : _mm256_unpacklo_epi8(x, y));
    else
      return (V)(kHigh ? _mm256_unpackhi_epi16(x, y) : _mm256_unpacklo_epi16(x, y));
  }
}

/// The lower 16 bits of every 32-bit lane side by side, then the upper ones.
template <class V>
TW_INLINE auto even_halves_first(V v) {
  const auto h = bit_cast<vec<uint16_t, 2 * kLanesOf<V>>>(v);
  if constexpr (kLanesOf<V> == 8)
    return __builtin_shufflevector(h, h, 0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  else
    return __builtin_shufflevector(h, h, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
                                   1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}

/// Quads 0 and 2 (kOdd: 1 and 3) of a, then those of b.
template <bool kOdd, class V>
TW_INLINE V every_other_quad(V a, V b) {
  if constexpr (kOdd)
    return V(
        __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31));
  else
    return V(
        __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27));
}

/// The sum of all quads of v.
template <class V>
TW_INLINE auto add_quads(V v) {
  const auto half = [](auto all) TW_INLINED {
    return __builtin_shufflevector(all, all, 0, 1, 2, 3) +
           __builtin_shufflevector(all, all, 4, 5, 6, 7);
  };
  if constexpr (kLanesOf<V> == 8)
    return half(v);
  else
    return half(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
}

/// Lanes kFirst, kFirst + 2 ... of a, then of b.
template <int kFirst, class V>
TW_INLINE V every_other(V a, V b) {
  constexpr int k = kFirst;
  if constexpr (kLanesOf<V> == 4)
    return V(__builtin_shufflevector(a, b, k, k + 2, k + 4, k + 6));
  else if constexpr (kLanesOf<V> == 8)
    return V(__builtin_shufflevector(a, b, k, k + 2, k + 4, k + 6, k + 8, k + 10, k + 12, k + 14));
  else
    return V(__builtin_shufflevector(a, b, k, k + 2, k + 4, k + 6, k + 8, k + 10, k + 12, k + 14,
                                     k + 16, k + 18, k + 20, k + 22, k + 24, k + 26, k + 28,
                                     k + 30));
}

/// Eight 32-bit lanes of each of 16 rows, at `at`, turned: v[i] has element i of all rows. Half as
/// many loads as by quads.
template <class E, class V, class T>
TW_INLINE void load_turned(const T* const* row, int64_t at, V (&v)[8]) {
  static_assert(kLanesOf<V> == 16);
  using Half = vec<E, 8>;
  const auto halves = [&](int i, int j) {
    return V(concat(load_bits<Half>(row[i] + at), load_bits<Half>(row[j] + at)));
  };
  V low[4], high[4];  // of each of four rows, two quads, then those of the fourth row after it
  TW_UNROLL
  for (int i = 0; i < 4; ++i) low[i] = halves(i, i + 4), high[i] = halves(i + 8, i + 12);
  transpose_quads(low);
  transpose_quads(high);
  TW_UNROLL
  for (int i = 0; i < 4; ++i) {
    v[i] = every_other_quad<false>(low[i], high[i]);
    v[i + 4] = every_other_quad<true>(low[i], high[i]);
  }
}

/// Sixteen elements of two bytes of each of 16 rows, at `at`, turned: v[i] has element i of all
/// rows.
template <class T>
TW_INLINE void load_turned_halves(const T* const* row, int64_t at, vec<uint16_t, 16> (&v)[16]) {
  using V = vec<uint32_t, 16>;
  const auto load = [&](int i) {  // of rows i and i + 8
    using Half = vec<uint32_t, 8>;
    return V(concat(load_bits<Half>(row[i] + at), load_bits<Half>(row[i + 8] + at)));
  };
  V low[4], high[4];
  TW_UNROLL
  for (int i = 0; i < 4; ++i) {
    const V a = load(2 * i), b = load(2 * i + 1);
    low[i] = interleave<uint16_t, false>(a, b);
    high[i] = interleave<uint16_t, true>(a, b);
  }
  transpose_quads(low);
  transpose_quads(high);
  const auto put = [&](V quads, int i) TW_INLINED {  // of elements i, i + 8, i, i + 8
    quads =
        __builtin_shufflevector(quads, quads, 0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15);
    __builtin_memcpy(&v[i], &quads, sizeof(v[i]));
    __builtin_memcpy(&v[i + 8], reinterpret_cast<const char*>(&quads) + sizeof(v[i]), sizeof(v[i]));
  };
  TW_UNROLL
  for (int i = 0; i < 4; ++i) put(low[i], i), put(high[i], i + 4);
}

/// Transposes 16 x 16 32-bit lanes.
template <class V>
TW_INLINE void transpose_square(V (&v)[16]) {
  static_assert(kLanesOf<V> == 16);
  V quads[4][4];  // [g][i], quad q: lane 4 q + i of vectors 4 g to 4 g + 3
  TW_UNROLL
  for (int g = 0; g < 4; ++g) {
    TW_UNROLL
    for (int i = 0; i < 4; ++i) quads[g][i] = v[4 * g + i];
    transpose_quads(quads[g]);
  }
  TW_UNROLL
  for (int i = 0; i < 4; ++i) {
    const auto put = [&]<bool kOdd>() TW_INLINED {
      const V a = every_other_quad<kOdd>(quads[0][i], quads[1][i]);
      const V b = every_other_quad<kOdd>(quads[2][i], quads[3][i]);
      v[4 * kOdd + i] = every_other_quad<false>(a, b);
      v[4 * kOdd + 8 + i] = every_other_quad<true>(a, b);
    };
    put.template operator()<false>();
    put.template operator()<true>();
  }
}

/// 32-bit lanes from `at` on, of a row for each lane of V: v[i] has lane i of all of them.
template <class E, class V, int kCount, class T>
TW_INLINE void load_columns(const T* const* row, int64_t at, V (&v)[kCount]) {
  if constexpr (kCount == 16) {
    TW_UNROLL
    for (int r = 0; r < 16; ++r) v[r] = load_bits<V>(row[r] + at);
    transpose_square(v);
  } else if constexpr (kCount == 8) {
    load_turned<E>(row, at, v);
  } else {
    TW_UNROLL
    for (int r = 0; r < 4; ++r) v[r] = load_quads<E, kLanesOf<V>>(row + r, at);
    transpose_quads(v);
  }
}

/// One value for each quad of V, value_of(i), in all of its lanes.
template <class V, class F>
TW_INLINE V splat_quads(F&& value_of) {
  using Quad = vec<typename vector_traits<V>::scalar, 4>;
  const auto quad = [&](int i) { return splat<Quad>(value_of(i)); };
  if constexpr (kLanesOf<V> == 8)
    return concat(quad(0), quad(1));
  else
    return concat(concat(quad(0), quad(1)), concat(quad(2), quad(3)));
}

/// Each quad of v to where it belongs, to_of(i).
template <class V, class F>
TW_INLINE void store_quads(V v, F&& to_of) {
  store(to_of(0), __builtin_shufflevector(v, v, 0, 1, 2, 3));
  store(to_of(1), __builtin_shufflevector(v, v, 4, 5, 6, 7));
  if constexpr (kLanesOf<V> == 16) {
    store(to_of(2), __builtin_shufflevector(v, v, 8, 9, 10, 11));
    store(to_of(3), __builtin_shufflevector(v, v, 12, 13, 14, 15));
  }
}

}  // namespace tw::tile
