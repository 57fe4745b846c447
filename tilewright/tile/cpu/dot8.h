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

/// Ends an expression here, in a register: g++ otherwise gathers long integer sums at their end,
/// and spills every addend until then.
template <class V>
TW_INLINE void settle(V& v) {
#if defined(__AVX512VL__)
  __asm__("" : "+v"(v));
#else
  __asm__("" : "+x"(v));
#endif
}

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
TW_INLINE u8x32 abs_i8(u8x32 a) {
  return (u8x32)_mm256_abs_epi8((__m256i)a);
}
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
TW_INLINE u8x64 abs_i8(u8x64 a) {
  return (u8x64)_mm512_abs_epi8((__m512i)a);
}
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

  /// Products of pairs that fit into 16 bits when the other side is in [-127, 127], rounded down to
  /// a power of two.
  TW_INLINE constexpr int pairs() const {
    int fit = 1;
    while (2 * fit * 2 * 127 * max_code <= 32767) fit *= 2;
    return fit;
  }
};

/// How w[k] * x[k] is summed over k per 32-bit lane, four k a step: w in kRange, x in [-127, 127].
/// Steps add up in a Part, kSteps of them at most, and Parts are widened to 32-bit sums. All of it
/// is exact.
template <class P, CodeRange kRange>
struct DotSteps {
  using I32 = typename P::i32;
  static constexpr bool kNarrow = !P::kHasVnni && !kRange.is_signed;  // Parts hold 16-bit sums
  static constexpr int kSteps = kNarrow ? kRange.pairs() : 1 << 14;
  template <bool kIsNarrow, class = void>
  struct PartOf {
    using type = I32;
  };
  template <class Unused>
  struct PartOf<true, Unused> {
    using type = Words16<P>;
  };
  using Part = typename PartOf<kNarrow>::type;

  /// part + the products of one step.
  TW_INLINE static Part add(Part part, Bytes<P> w, Bytes<P> x) {
    if constexpr (P::kHasVnni) {
      static_assert(!kRange.is_signed, "vpdpbusd takes unsigned codes: add 128 and take it back");
      return dot_u8s8(part, w, bit_cast<typename P::template Vec<int8_t>>(x));
    } else {
      if constexpr (kNarrow)
        part += dot_pairs(w, x);
      else
        part += add_pairs(dot_pairs(abs_i8(w), apply_sign(x, w)));
      settle(part);
      return part;
    }
  }
  TW_INLINE static I32 widen(Part part) {
    if constexpr (kNarrow)
      return add_pairs(part);
    else
      return part;
  }
};

// ---- float32 to codes ----------------------------------------------------------------------
TW_INLINE int32_t add_lanes(i32x8 v) {
  __m128i x =
      _mm_add_epi32(_mm256_castsi256_si128((__m256i)v), _mm256_extracti128_si256((__m256i)v, 1));
  x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
}
TW_INLINE int32_t max_lanes(i32x8 v) {
  __m128i x =
      _mm_max_epi32(_mm256_castsi256_si128((__m256i)v), _mm256_extracti128_si256((__m256i)v, 1));
  x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
}
#if defined(__AVX512F__)
TW_INLINE int32_t add_lanes(i32x16 v) {
  return _mm512_reduce_add_epi32((__m512i)v);
}
TW_INLINE int32_t max_lanes(i32x16 v) {
  return _mm512_reduce_max_epi32((__m512i)v);
}
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
