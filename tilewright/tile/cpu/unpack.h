// From packed bit fields to bytes: the atoms that take quantised weights apart.
#pragma once

#include <immintrin.h>

#include "tilewright/tile/cpu/vector.h"

namespace tw::tile {

/// Bits [from, from + count) of every byte, moved to bit `to` of an otherwise zero byte. Meant for
/// constants, or counters of unrolled loops.
template <class V>
TW_INLINE V byte_field(V bytes, int from, int count, int to) {
  using U16 = vec<uint16_t, int(sizeof(V)) / 2>;
  const U16 wide = bit_cast<U16>(bytes);  // bits that cross into the next byte fall to the mask
  const U16 moved = from > to ? wide >> (from - to) : from < to ? wide << (to - from) : wide;
  return bit_cast<V>(moved) & splat<V>(uint8_t(((1 << count) - 1) << to));
}

/// A table of sixteen bytes, looked up by indices in [0, 16).
struct ByteTable {
  int8_t values[16];

  TW_INLINE u8x32 operator[](u8x32 index) const {
    const __m128i table = _mm_loadu_si128((const __m128i*)values);
    return (u8x32)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), (__m256i)index);
  }
#if defined(__AVX512BW__)
  TW_INLINE u8x64 operator[](u8x64 index) const {
    const __m128i table = _mm_loadu_si128((const __m128i*)values);
    return (u8x64)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), (__m512i)index);
  }
#endif
};

/// Bytes p[0 .. lanes) as float32, signed or not by T.
template <class V, class T>
TW_INLINE V load_bytes_f32(const T* p) {
  static_assert(sizeof(T) == 1);
  constexpr bool kSigned = T(-1) < T(0);
  if constexpr (kLanesOf<V> == 8) {
    const __m128i bytes = _mm_loadl_epi64((const __m128i*)p);
    const __m256i wide = kSigned ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
    return (V)_mm256_cvtepi32_ps(wide);
  }
#if defined(__AVX512F__)
  if constexpr (kLanesOf<V> == 16) {
    const __m128i bytes = _mm_loadu_si128((const __m128i*)p);
    const __m512i wide = kSigned ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
    return (V)_mm512_cvtepi32_ps(wide);
  }
#endif
}

}  // namespace tw::tile
