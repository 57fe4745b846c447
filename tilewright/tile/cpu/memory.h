// Loads and stores that convert between a storage type in memory and the arithmetic type in a
// vector register: floats narrower than 32 bits widen to float32, everything else keeps its type.
// Partial forms touch exactly n elements, so that the end of a row may be the end of a page.
#pragma once

#include <immintrin.h>

#include "tilewright/tile/compute_type.h"
#include "tilewright/tile/cpu/vector.h"

namespace tw::tile {

template <class Bits>
TW_INLINE Bits load_bits(const void* p) {
  Bits out;
  __builtin_memcpy(&out, p, sizeof(Bits));
  return out;
}

TW_INLINE f32x8 widen_f16(vec<uint16_t, 8> bits) {
  return (f32x8)_mm256_cvtph_ps((__m128i)bits);
}
TW_INLINE vec<uint16_t, 8> narrow_f16(f32x8 v) {
  return (vec<uint16_t, 8>)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
}
#if defined(__AVX512F__)
TW_INLINE f32x16 widen_f16(vec<uint16_t, 16> bits) {
  return (f32x16)_mm512_cvtph_ps((__m256i)bits);
}
TW_INLINE vec<uint16_t, 16> narrow_f16(f32x16 v) {
  return (vec<uint16_t, 16>)_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT);
}
#endif

// Small integers and bf16 to 32-bit lanes: one instruction each, where g++ 12 splits what
// __builtin_convertvector says into several.
TW_INLINE f32x8 widen_bf16(vec<uint16_t, 8> bits) {
  const __m256i upper =
      _mm256_setr_epi8(-1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1, 6, 7,  //
                       -1, -1, 8, 9, -1, -1, 10, 11, -1, -1, 12, 13, -1, -1, 14, 15);
  return (f32x8)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256((__m128i)bits), upper);
}
TW_INLINE i32x8 widen_i8(vec<int8_t, 8> v) {
  return (i32x8)_mm256_cvtepi8_epi32(_mm_set_epi64x(0, bit_cast<int64_t>(v)));
}
TW_INLINE i32x8 widen_u8(vec<uint8_t, 8> v) {
  return (i32x8)_mm256_cvtepu8_epi32(_mm_set_epi64x(0, bit_cast<int64_t>(v)));
}
#if defined(__AVX512F__)
TW_INLINE f32x16 widen_bf16(vec<uint16_t, 16> bits) {
  return (f32x16)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)bits), 16);
}
TW_INLINE i32x16 widen_i8(vec<int8_t, 16> v) {
  return (i32x16)_mm512_cvtepi8_epi32((__m128i)v);
}
TW_INLINE i32x16 widen_u8(vec<uint8_t, 16> v) {
  return (i32x16)_mm512_cvtepu8_epi32((__m128i)v);
}
#endif

/// The lanes as 16-bit numbers, which they must fit.
template <class V>
TW_INLINE vec<uint16_t, kLanesOf<V>> narrow_u32(V v) {
  if constexpr (sizeof(V) == 32) {  // which g++ 12 splits into halves
    const __m256i twice = _mm256_packus_epi32((__m256i)v, (__m256i)v);
    return (vec<uint16_t, 8>)_mm256_castsi256_si128(_mm256_permute4x64_epi64(twice, 0x08));
  } else {
    return convert<vec<uint16_t, kLanesOf<V>>>(v);
  }
}

/// The lanes as 8-bit numbers, which they must fit.
template <class V>
TW_INLINE vec<uint8_t, kLanesOf<V>> narrow_8(V v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) return (vec<uint8_t, 16>)_mm512_cvtepi32_epi8((__m512i)v);
#endif
  if constexpr (sizeof(V) == 32) {
    const __m256i first = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                           -1, 0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                           -1, -1);  // of the four bytes, in both halves
    const __m256i halves = _mm256_shuffle_epi8((__m256i)v, first);
    const __m128i bytes =
        _mm_unpacklo_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    return bit_cast<vec<uint8_t, 8>>(_mm_cvtsi128_si64(bytes));
  }
  return convert<vec<uint8_t, kLanesOf<V>>>(v);
}

/// The upper halves are those of the nearest even bf16; NaN stays NaN.
template <int kN>
TW_INLINE vec<uint32_t, kN> round_bf16(vec<float, kN> v) {
  using U = vec<uint32_t, kN>;
  const U u = bit_cast<U>(v);
  return select(v == v, u + 0x7fffu + ((u >> 16) & 1u), u | 0x400000u);
}
#if defined(__AVX512BF16__)
/// vcvtneps2bf16 takes subnormal numbers for zeros; all others it rounds as round_bf16.
TW_INLINE __mmask16 subnormal(__m512 v) {
  return _mm512_fpclass_ps_mask(v, 0x20);
}
#endif
template <int kN>
TW_INLINE vec<uint16_t, kN> narrow_bf16(vec<float, kN> v) {
#if defined(__AVX512BF16__)
  if constexpr (kN == 16)
    if (!subnormal((__m512)v)) [[likely]]
      return (vec<uint16_t, 16>)_mm512_cvtneps_pbh((__m512)v);
#endif
  return narrow_u32(round_bf16<kN>(v) >> 16);
}
/// Pairs of them: the first in the lower half.
template <int kN>
TW_INLINE vec<uint32_t, kN> narrow_bf16_pairs(vec<float, kN> first, vec<float, kN> second) {
#if defined(__AVX512BF16__)
  if constexpr (kN == 16)
    if (_kortestz_mask16_u8(subnormal((__m512)first), subnormal((__m512)second))) [[likely]] {
      const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
      const auto turn = iota<vec<uint32_t, 16>>(0) | (iota<vec<uint32_t, 16>>(16) << 16);
      return (vec<uint32_t, 16>)_mm512_permutexvar_epi16((__m512i)turn, halves);
    }
#endif
  return (round_bf16<kN>(first) >> 16) | (round_bf16<kN>(second) & 0xffff0000u);
}

/// Whether the lanes are of 32 bits and fill a register.
template <class V>
inline constexpr bool kIsWide =
    sizeof(V) == 4 * kLanesOf<V> && (sizeof(V) == 32 || sizeof(V) == 64);

/// By way of f16, whose exponents include those of both: e5m2 is the upper half of one, e4m3fn one
/// that is 2^8 times too small and whose largest magnitude, 480, means NaN.
template <class T, int kN>
TW_INLINE vec<float, kN> widen_f8(vec<uint8_t, kN> bytes) {
  const auto bits = convert<vec<uint16_t, kN>>(bytes);
  if constexpr (same_type<T, f8_e5m2>) return widen_f16((vec<uint16_t, kN>)(bits << 8));
  using Bits = vec<uint16_t, kN>;
  const Bits lower = bits << 7, half = lower + (lower & 0x4000);  // the sign moves to the top
  const Bits nan = (Bits)((half & 0x7fff) == 0x3f80) & 0x4180;    // from 0x3f80 to 0x7e00
  return widen_f16(half ^ nan) * splat<vec<float, kN>>(256.0f);
}

/// To nearest even, as the scalar conversion of core/types.h. A float added to a number whose last
/// place is the least subnormal is rounded to those.
template <class T, int kN>
TW_INLINE vec<uint8_t, kN> narrow_f8(vec<float, kN> v) {
  using V = vec<float, kN>;
  using U = vec<uint32_t, kN>;
  constexpr bool kIeee = same_type<T, f8_e5m2>;
  constexpr int kMan = kIeee ? 2 : 3, kBias = kIeee ? 15 : 7, kDropped = 23 - kMan;
  constexpr uint32_t kInf = kIeee ? 0x7c : 0x7f, kNan = kIeee ? 0x7e : 0x7f;
  constexpr uint32_t kLeastNormal = uint32_t(127 + 1 - kBias) << 23;
  constexpr uint32_t kRebias = uint32_t(127 - kBias) << kMan;
  constexpr uint32_t kMagic = uint32_t(127 + 1 - kBias - kMan + 23) << 23;
  const U bits = bit_cast<U>(v), magnitude = bits & 0x7fffffffu;
  const U even = (magnitude >> kDropped) & 1u;
  const U normal = ((magnitude + even + ((1u << (kDropped - 1)) - 1)) >> kDropped) - kRebias;
  const U subnormal =
      bit_cast<U>(bit_cast<V>(magnitude) + splat<V>(bit_cast<float>(kMagic))) - kMagic;
  const U finite = select(magnitude < kLeastNormal, subnormal, normal);
  const U limited = select(finite < kInf, finite, splat<U>(kInf));
  const U known = select(v == v, limited, splat<U>(kNan));
  return narrow_8(known | ((bits >> 24) & 0x80u));
}

/// Lanes from p[0 .. lanes).
template <class V, class T>
TW_INLINE V load(const T* p) {
  constexpr int kN = kLanesOf<V>;
  if constexpr (same_type<T, f16>) {
    return widen_f16(load_bits<vec<uint16_t, kN>>(p));
  } else if constexpr (same_type<T, bf16>) {
    return widen_bf16(load_bits<vec<uint16_t, kN>>(p));
  } else if constexpr (same_type<T, f8_e4m3fn> || same_type<T, f8_e5m2>) {
    return widen_f8<T, kN>(load_bits<vec<uint8_t, kN>>(p));
  } else if constexpr (same_type<T, int8_t> && kIsWide<V>) {
    return convert<V>(widen_i8(load_bits<vec<int8_t, kN>>(p)));
  } else if constexpr (same_type<T, uint8_t> && kIsWide<V>) {
    return convert<V>(widen_u8(load_bits<vec<uint8_t, kN>>(p)));
  } else if constexpr (sizeof(T) == sizeof(V{}[0])) {
    return load_bits<V>(p);
  } else {
    return convert<V>(load_bits<vec<T, kN>>(p));
  }
}

template <class T, class V>
TW_INLINE void store(T* p, V v) {
  constexpr int kN = kLanesOf<V>;
  if constexpr (same_type<T, f16>) {
    const auto bits = narrow_f16(v);
    __builtin_memcpy(p, &bits, sizeof(bits));
  } else if constexpr (same_type<T, bf16>) {
    const auto bits = narrow_bf16<kN>(v);
    __builtin_memcpy(p, &bits, sizeof(bits));
  } else if constexpr (same_type<T, f8_e4m3fn> || same_type<T, f8_e5m2>) {
    const auto bits = narrow_f8<T, kN>(v);
    __builtin_memcpy(p, &bits, sizeof(bits));
  } else if constexpr ((same_type<T, int8_t> || same_type<T, uint8_t>) && kIsWide<V>) {
    const auto bits = narrow_8(convert<vec<int32_t, kN>>(v));
    __builtin_memcpy(p, &bits, sizeof(bits));
  } else if constexpr (sizeof(T) == sizeof(V{}[0])) {
    __builtin_memcpy(p, &v, sizeof(v));
  } else {
    const auto narrow = convert<vec<T, kN>>(v);
    __builtin_memcpy(p, &narrow, sizeof(narrow));
  }
}

/// The same; subnormal numbers may become zero. A single instruction where there is one.
template <class V>
TW_INLINE void store_normal(bf16* p, V v) {
#if defined(__AVX512BF16__)
  if constexpr (sizeof(V) == 64) {
    const auto bits = _mm512_cvtneps_pbh((__m512)v);
    __builtin_memcpy(p, &bits, sizeof(bits));
    return;
  }
#endif
  store(p, v);
}

/// Lanes from p[0 .. n); the others are zero. Reads nothing past p[n - 1].
template <class V, class T>
TW_INLINE V load_partial(const T* p, int n) {
  constexpr int kN = kLanesOf<V>;
#if defined(__AVX512F__)
  if constexpr (same_type<T, float> && kN == 16)
    return (V)_mm512_maskz_loadu_ps(__mmask16((1u << n) - 1u), p);
  if constexpr (sizeof(T) == 2 && kN == 16) {
    const vec<uint16_t, 16> bits =
        (vec<uint16_t, 16>)_mm256_maskz_loadu_epi16(__mmask16((1u << n) - 1u), p);
    return load<V>((const T*)&bits);
  }
#endif
  if constexpr (same_type<T, float> && kN == 8) {
    const i32x8 mask = iota<i32x8>(0) < splat<i32x8>(n);
    return (V)_mm256_maskload_ps(p, (__m256i)mask);
  }
  alignas(64) T buffer[kN];
  __builtin_memset(buffer, 0, sizeof(buffer));
  for (int i = 0; i < n; ++i) buffer[i] = p[i];
  return load<V>(buffer);
}

/// Writes p[0 .. n) and nothing else.
template <class T, class V>
TW_INLINE void store_partial(T* p, V v, int n) {
  constexpr int kN = kLanesOf<V>;
#if defined(__AVX512F__)
  if constexpr (same_type<T, float> && kN == 16) {
    _mm512_mask_storeu_ps(p, __mmask16((1u << n) - 1u), (__m512)v);
    return;
  }
  if constexpr (sizeof(T) == 2 && kN == 16) {
    __m256i bits;
    store((T*)&bits, v);
    _mm256_mask_storeu_epi16(p, __mmask16((1u << n) - 1u), bits);
    return;
  }
#endif
  if constexpr (same_type<T, float> && kN == 8) {
    const i32x8 mask = iota<i32x8>(0) < splat<i32x8>(n);
    _mm256_maskstore_ps(p, (__m256i)mask, (__m256)v);
    return;
  }
  alignas(64) T buffer[kN];
  store(buffer, v);
  for (int i = 0; i < n; ++i) p[i] = buffer[i];
}

/// Non-temporal store: the line goes to memory without being read first and without evicting the
/// working set. p must be aligned to the bytes written.
template <class T, class V>
TW_INLINE void stream(T* p, V v) {
  alignas(64) T buffer[kLanesOf<V>];
  store(buffer, v);
  constexpr int kBytes = int(sizeof(buffer));
#if defined(__AVX512F__)
  if constexpr (kBytes == 64) {
    _mm512_stream_si512((__m512i*)p, load_bits<__m512i>(buffer));
    return;
  }
#endif
  if constexpr (kBytes == 32) {
    _mm256_stream_si256((__m256i*)p, load_bits<__m256i>(buffer));
  } else if constexpr (kBytes == 16) {
    _mm_stream_si128((__m128i*)p, load_bits<__m128i>(buffer));
  } else {
    store(p, v);
  }
}

template <class V, class T>
TW_INLINE V gather(const T* p, int64_t stride, int n = kLanesOf<V>) {
  alignas(64) T buffer[kLanesOf<V>];
  __builtin_memset(buffer, 0, sizeof(buffer));
  for (int i = 0; i < n; ++i) buffer[i] = p[i * stride];
  return load<V>(buffer);
}
template <class T, class V>
TW_INLINE void scatter(T* p, int64_t stride, V v, int n = kLanesOf<V>) {
  alignas(64) T buffer[kLanesOf<V>];
  store(buffer, v);
  for (int i = 0; i < n; ++i) p[i * stride] = buffer[i];
}

// The same where few calls have such rows.
template <class V, class T>
TW_APART V gather_apart(const T* p, int64_t stride, int n) {
  return gather<V>(p, stride, n);
}
template <class T, class V>
TW_APART void scatter_apart(T* p, int64_t stride, V v, int n) {
  scatter(p, stride, v, n);
}
/// to[i] = from[i * stride].
template <class T>
TW_APART void pack_apart(T* to, const T* from, int64_t stride, int64_t n) {
  if (stride == 0) {  // broadcast: whole vectors of it
    const T all = *from;
    for (int64_t i = 0; i < n; ++i) to[i] = all;
  } else if (stride == 2) {  // whole vectors, of which the compiler takes half
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * 2];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
  }
}
/// to[i * stride] = from[i].
template <class T>
TW_APART void unpack_apart(T* to, int64_t stride, const T* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i * stride] = from[i];
}

inline constexpr int64_t kLineBytes = 64;

/// Begins to fetch a line, into the nearest cache.
TW_INLINE void prefetch(const void* p) {
  __builtin_prefetch(p, 0, 3);
}
/// For what is wanted only when the nearest cache has been through something else: into the second.
TW_INLINE void prefetch_l2(const void* p) {
  __builtin_prefetch(p, 0, 2);
}

}  // namespace tw::tile
