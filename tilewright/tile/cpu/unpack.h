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

/// table[index] per byte, index in [0, 16).
TW_INLINE u8x32 lookup(const int8_t (&table)[16], u8x32 index) {
  const __m128i values = _mm_loadu_si128((const __m128i*)table);
  return (u8x32)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), (__m256i)index);
}
/// Bytes p[0 .. lanes) as 32-bit integers.
template <class V>
TW_INLINE V widen_u8(const uint8_t* p)
  requires(kLanesOf<V> == 8)
{
  return (V)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p));
}
template <class V>
TW_INLINE V widen_i8(const uint8_t* p)
  requires(kLanesOf<V> == 8)
{
  return (V)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p));
}

/// The halves of p[0 .. lanes / 2), the low one first, as 32-bit integers.
template <class V>
TW_INLINE V widen_u4(const uint8_t* p)
  requires(kLanesOf<V> == 8)
{
  uint32_t bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  const V place = {0, 4, 8, 12, 16, 20, 24, 28};
  return (V)_mm256_srlv_epi32(_mm256_set1_epi32(int(bits)), (__m256i)place) & 15;
}

#if defined(__AVX512BW__)
template <class V>
TW_INLINE V widen_u4(const uint8_t* p)
  requires(kLanesOf<V> == 16)
{
  uint64_t bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  const __m512i words =
      _mm512_inserti64x4(_mm512_set1_epi32(int(bits)), _mm256_set1_epi32(int(bits >> 32)), 1);
  const V place = {0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28};
  return (V)_mm512_srlv_epi32(words, (__m512i)place) & 15;
}
TW_INLINE u8x64 lookup(const int8_t (&table)[16], u8x64 index) {
  const __m128i values = _mm_loadu_si128((const __m128i*)table);
  return (u8x64)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), (__m512i)index);
}
/// table[index] per lane, of which the lowest four bits count.
TW_INLINE f32x16 lookup(f32x16 table, i32x16 index) {
  return (f32x16)_mm512_permutexvar_ps((__m512i)index, (__m512)table);
}
template <class V>
TW_INLINE V widen_u8(const uint8_t* p)
  requires(kLanesOf<V> == 16)
{
  return (V)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p));
}
template <class V>
TW_INLINE V widen_i8(const uint8_t* p)
  requires(kLanesOf<V> == 16)
{
  return (V)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p));
}
#endif

}  // namespace tw::tile
