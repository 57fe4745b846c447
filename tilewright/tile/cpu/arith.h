// Arithmetic that the vector extension cannot spell: fused multiply-add, rounding, square root,
// extrema, integer dot products.
#pragma once

#include <immintrin.h>

#include "tilewright/tile/cpu/vector.h"

namespace tw::tile {

// ---- 32-byte vectors (AVX2 + FMA) ----------------------------------------------------------
TW_INLINE f32x8 fma(f32x8 a, f32x8 b, f32x8 c) {
  return (f32x8)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
TW_INLINE vec<double, 4> fma(vec<double, 4> a, vec<double, 4> b, vec<double, 4> c) {
  return (vec<double, 4>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
TW_INLINE f32x8 sqrt(f32x8 a) {
  return (f32x8)_mm256_sqrt_ps((__m256)a);
}
TW_INLINE vec<double, 4> sqrt(vec<double, 4> a) {
  return (vec<double, 4>)_mm256_sqrt_pd((__m256d)a);
}
// max and min below, which g++ 12 would spell as a comparison and a blend.
TW_INLINE f32x8 max(f32x8 a, f32x8 b) {
  return (f32x8)_mm256_max_ps((__m256)a, (__m256)b);
}
TW_INLINE f32x8 min(f32x8 a, f32x8 b) {
  return (f32x8)_mm256_min_ps((__m256)a, (__m256)b);
}
/// To the nearest integer, ties to even.
TW_INLINE f32x8 round(f32x8 a) {
  return (f32x8)_mm256_round_ps((__m256)a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
TW_INLINE vec<double, 4> round(vec<double, 4> a) {
  return (vec<double, 4>)_mm256_round_pd((__m256d)a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// ---- 64-byte vectors (AVX-512 F/BW/DQ/VL) --------------------------------------------------
#if defined(__AVX512F__)
TW_INLINE f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
  return (f32x16)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
TW_INLINE vec<double, 8> fma(vec<double, 8> a, vec<double, 8> b, vec<double, 8> c) {
  return (vec<double, 8>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
TW_INLINE f32x16 sqrt(f32x16 a) {
  return (f32x16)_mm512_sqrt_ps((__m512)a);
}
TW_INLINE vec<double, 8> sqrt(vec<double, 8> a) {
  return (vec<double, 8>)_mm512_sqrt_pd((__m512d)a);
}
TW_INLINE f32x16 max(f32x16 a, f32x16 b) {
  return (f32x16)_mm512_max_ps((__m512)a, (__m512)b);
}
TW_INLINE f32x16 min(f32x16 a, f32x16 b) {
  return (f32x16)_mm512_min_ps((__m512)a, (__m512)b);
}
TW_INLINE f32x16 round(f32x16 a) {
  return (f32x16)_mm512_roundscale_ps((__m512)a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
TW_INLINE vec<double, 8> round(vec<double, 8> a) {
  return (vec<double, 8>)_mm512_roundscale_pd((__m512d)a,
                                              _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#endif

/// Whether scale(p, n) = p * 2^n is one instruction for V.
template <class V>
inline constexpr bool kHasScale = false;
#if defined(__AVX512F__)
template <>
inline constexpr bool kHasScale<f32x16> = true;
TW_INLINE f32x16 scale(f32x16 p, f32x16 n) {
  return (f32x16)_mm512_scalef_ps((__m512)p, (__m512)n);
}
#endif

/// Whether the hardware computes 2^x for V.
template <class V>
inline constexpr bool kHasExp2Unit = false;

// ---- any width, scalars included -----------------------------------------------------------
TW_INLINE float fma(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
TW_INLINE double fma(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}
TW_INLINE float sqrt(float a) {
  return __builtin_sqrtf(a);
}
TW_INLINE double sqrt(double a) {
  return __builtin_sqrt(a);
}

/// The larger lane; where a or b is NaN or both are zero, b.
template <class V>
TW_INLINE V max(V a, V b) {
  return a > b ? a : b;
}
/// The smaller lane; where a or b is NaN or both are zero, b.
template <class V>
TW_INLINE V min(V a, V b) {
  return a < b ? a : b;
}
template <class V>
TW_INLINE V abs(V a) {
  return a < V{} ? -a : a;
}
/// 1 / sqrt(a), correctly rounded in each step.
template <class V>
TW_INLINE V rsqrt(V a) {
  return 1 / sqrt(a);
}

/// acc + a * b; where lanes of a and b are pairs of bf16, both products of each (vdpbf16ps).
template <class V>
TW_INLINE V multiply_add(V a, V b, V acc) {
  return fma(a, b, acc);
}
#if defined(__AVX512BF16__)
TW_INLINE f32x16 multiply_add(vec<uint32_t, 16> a, vec<uint32_t, 16> b, f32x16 acc) {
  return (f32x16)_mm512_dpbf16_ps((__m512)acc, (__m512bh)a, (__m512bh)b);
}
#endif

/// acc[i] += sum over j < 4 of a[4 i + j] * b[4 i + j], a unsigned, b signed.
/// Without VNNI the pairs of products are added in 16 bits: exact while |a| <= 127 or |b| <= 63.
TW_INLINE i32x8 dot_u8s8(i32x8 acc, u8x32 a, vec<int8_t, 32> b) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
  return (i32x8)_mm256_dpbusd_epi32((__m256i)acc, (__m256i)a, (__m256i)b);
#else
  const __m256i pairs = _mm256_maddubs_epi16((__m256i)a, (__m256i)b);
  return acc + (i32x8)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#endif
}
#if defined(__AVX512BW__)
TW_INLINE i32x16 dot_u8s8(i32x16 acc, u8x64 a, vec<int8_t, 64> b) {
#if defined(__AVX512VNNI__)
  return (i32x16)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)a, (__m512i)b);
#else
  const __m512i pairs = _mm512_maddubs_epi16((__m512i)a, (__m512i)b);
  return acc + (i32x16)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
#endif
}
#endif

}  // namespace tw::tile
