// Dot products of 8-bit codes, four to a 32-bit lane, and the way from float32 to such codes.
//
// Below VNNI the products are added in 16 bits as long as the largest code allows (DotSum), so that
// the widening to 32 bits is paid once for several of them.
#pragma once

#include <immintrin.h>

#include "tilewright/tile/cpu/arith.h"
#include "tilewright/tile/cpu/memory.h"

namespace tw::tile {

template <class P>
using Bytes = typename P::template Vec<uint8_t>;
template <class P>
using Words16 = typename P::template Vec<int16_t>;

/// The four bytes at p in every 32-bit lane.
template <class P>
TW_INLINE Bytes<P> splat4(const void* p) {
  return bit_cast<Bytes<P>>(splat<typename P::i32>(load_bits<int32_t>(p)));
}

// ---- 32-byte vectors -----------------------------------------------------------------------
/// a[2 i] * b[2 i] + a[2 i + 1] * b[2 i + 1] in 16 bits, saturating; a unsigned, b signed.
TW_INLINE vec<int16_t, 16> dot_pairs(u8x32 a, u8x32 b) {
  return (vec<int16_t, 16>)_mm256_maddubs_epi16((__m256i)a, (__m256i)b);
}
/// a[2 i] + a[2 i + 1] in 32 bits.
TW_INLINE i32x8 add_pairs(vec<int16_t, 16> a) {
  return (i32x8)_mm256_madd_epi16((__m256i)a, _mm256_set1_epi16(1));
}
/// |a| of signed bytes, as unsigned ones.
TW_INLINE u8x32 abs_i8(u8x32 a) { return (u8x32)_mm256_abs_epi8((__m256i)a); }
/// b with the sign of `sign`, per signed byte.
TW_INLINE u8x32 apply_sign(u8x32 b, u8x32 sign) {
  return (u8x32)_mm256_sign_epi8((__m256i)b, (__m256i)sign);
}

// ---- 64-byte vectors -----------------------------------------------------------------------
#if defined(__AVX512BW__)
TW_INLINE vec<int16_t, 32> dot_pairs(u8x64 a, u8x64 b) {
  return (vec<int16_t, 32>)_mm512_maddubs_epi16((__m512i)a, (__m512i)b);
}
TW_INLINE i32x16 add_pairs(vec<int16_t, 32> a) {
  return (i32x16)_mm512_madd_epi16((__m512i)a, _mm512_set1_epi16(1));
}
TW_INLINE u8x64 abs_i8(u8x64 a) { return (u8x64)_mm512_abs_epi8((__m512i)a); }
TW_INLINE u8x64 apply_sign(u8x64 b, u8x64 sign) {
  const __mmask64 negative = _mm512_movepi8_mask((__m512i)sign);
  return (u8x64)_mm512_mask_sub_epi8((__m512i)b, negative, _mm512_setzero_si512(), (__m512i)b);
}
#endif

// ---- sums of products ----------------------------------------------------------------------
/// What the codes on the weights' side may be.
struct CodeRange {
  int max_code = 255;      // of unsigned codes
  bool is_signed = false;  // signed bytes in [-128, 127] instead

  /// Products of pairs that fit into 16 bits when the other side is in [-127, 127].
  constexpr int pairs() const {
    const int fit = 32767 / (2 * 127 * max_code);
    return fit < 1 ? 1 : fit;
  }
};

/// A sum over k of w[k] * x[k] per 32-bit lane, four k at a time: w in kRange, x in [-127, 127].
/// Exact for up to 2^31 / (4 * 255 * 127) additions. Meant for fully unrolled loops, in which the
/// counter is a constant.
template <class P, CodeRange kRange>
struct DotSum {
  using I32 = typename P::i32;

  I32 sum;
  Words16<P> part;
  int parts = 0;

  /// Starts from `start`.
  TW_INLINE explicit DotSum(I32 start) : sum(start), part() {}

  TW_INLINE void add(Bytes<P> w, Bytes<P> x) {
    if constexpr (P::kHasVnni) {
      static_assert(!kRange.is_signed, "vpdpbusd takes unsigned codes: add 128 and take it back");
      sum = dot_u8s8(sum, w, bit_cast<typename P::template Vec<int8_t>>(x));
    } else if constexpr (kRange.is_signed) {
      sum += add_pairs(dot_pairs(abs_i8(w), apply_sign(x, w)));
    } else {
      const Words16<P> pairs = dot_pairs(w, x);
      part = parts == 0 ? pairs : part + pairs;
      if (++parts == kRange.pairs()) flush();
    }
  }
  TW_INLINE I32 total() {
    if (parts > 0) flush();
    return sum;
  }

 private:
  TW_INLINE void flush() {
    sum += add_pairs(part);
    parts = 0;
  }
};

// ---- float32 to codes ----------------------------------------------------------------------
TW_INLINE int32_t add_lanes(i32x8 v) {
  __m128i x = _mm_add_epi32(_mm256_castsi256_si128((__m256i)v),
                            _mm256_extracti128_si256((__m256i)v, 1));
  x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
}
TW_INLINE int32_t max_lanes(i32x8 v) {
  __m128i x = _mm_max_epi32(_mm256_castsi256_si128((__m256i)v),
                            _mm256_extracti128_si256((__m256i)v, 1));
  x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
}
#if defined(__AVX512F__)
TW_INLINE int32_t add_lanes(i32x16 v) { return _mm512_reduce_add_epi32((__m512i)v); }
TW_INLINE int32_t max_lanes(i32x16 v) { return _mm512_reduce_max_epi32((__m512i)v); }
#endif

/// 32 integers in [-128, 127] as bytes, in order. P decides the width of the vectors alone.
TW_INLINE void store_i8(int8_t* out, const i32x8 (&v)[4]) {
  const __m256i low = _mm256_packs_epi32((__m256i)v[0], (__m256i)v[1]);
  const __m256i high = _mm256_packs_epi32((__m256i)v[2], (__m256i)v[3]);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // undoes the packing by halves
  const __m256i bytes = _mm256_packs_epi16(low, high);
  _mm256_storeu_si256((__m256i*)out, _mm256_permutevar8x32_epi32(bytes, order));
}
#if defined(__AVX512F__)
TW_INLINE void store_i8(int8_t* out, const i32x16 (&v)[2]) {
  _mm_storeu_si128((__m128i*)out, _mm512_cvtsepi32_epi8((__m512i)v[0]));
  _mm_storeu_si128((__m128i*)(out + 16), _mm512_cvtsepi32_epi8((__m512i)v[1]));
}
#endif

}  // namespace tw::tile
