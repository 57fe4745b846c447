// Pairs of bf16, or of 8-bit numbers, which bf16 holds exactly: both bytes of each bf16 are looked
// up by the number's magnitude, 64 numbers at a time (vpermi2b).
#pragma once

#include "tilewright/tile/cpu/pack.h"

namespace tw::tile {

/// Whether bf16 holds the numbers of T, which has 8 bits.
template <class T>
inline constexpr bool kIsByteOfBf16 = same_type<T, int8_t> || same_type<T, f8_e4m3fn>;

#if defined(__AVX512VBMI__)
inline constexpr bool kHasBytePairs = true;

namespace detail {

/// The bytes of the bf16 of magnitudes 0 to 127.
template <class T>
struct Bf16Table {
  alignas(64) uint8_t low[128] = {}, high[128] = {};

  constexpr Bf16Table() {
    for (int i = 0; i < 128; ++i) {
      const uint16_t bits = of(uint8_t(i)).bits;
      low[i] = uint8_t(bits), high[i] = uint8_t(bits >> 8);
    }
  }

 private:
  static constexpr bf16 of(uint8_t magnitude) {
    if constexpr (same_type<T, int8_t>)
      return bf16(float(magnitude));
    else
      return bf16(float(T::from_bits(magnitude)));
  }
};
template <class T>
inline constexpr Bf16Table<T> kBf16Table{};

/// Lane i takes the bytes low[first + i step], high[the same], low[second + i step], high[...].
struct PairIndex {
  alignas(64) uint8_t at[64] = {};

  constexpr PairIndex(int first, int second, int step) {
    for (int i = 0; i < 64; ++i)
      at[i] = uint8_t((i % 4 < 2 ? first : second) + i / 4 * step + i % 2 * 64);
  }
};

}  // namespace detail

/// 64 numbers as bf16, their lower bytes and their upper ones.
struct Bf16Bytes {
  __m512i low, high;

  template <class T>
  TW_INLINE static Bf16Bytes of(__m512i numbers) {
    constexpr bool kInteger = same_type<T, int8_t>;
    const auto& table = detail::kBf16Table<T>;
    const __m512i magnitude = kInteger ? _mm512_abs_epi8(numbers) : numbers;
    const auto look_up = [&](const uint8_t* bytes) TW_INLINED {  // the sign's bit plays no part
      return _mm512_permutex2var_epi8(_mm512_load_si512(bytes), magnitude,
                                      _mm512_load_si512(bytes + 64));
    };
    constexpr int kOrAnd = 0xf8;  // a | (b & c)
    const __m512i sign = _mm512_set1_epi8(char(0x80));
    Bf16Bytes out{look_up(table.low),
                  _mm512_ternarylogic_epi32(look_up(table.high), numbers, sign, kOrAnd)};
    if constexpr (kInteger) {  // -128, whose magnitude has no place in the table: 0xc300
      const __mmask64 least = _mm512_cmpeq_epi8_mask(numbers, sign);
      out.high = _mm512_mask_mov_epi8(out.high, least, _mm512_set1_epi8(char(0xc3)));
    }
    return out;
  }
  /// Lane i has the numbers kFirst + i kStep, in its lower half, and kSecond + i kStep.
  template <int kFirst, int kSecond, int kStep>
  TW_INLINE vec<uint32_t, 16> pairs() const {
    static constexpr detail::PairIndex kIndex(kFirst, kSecond, kStep);
    return (vec<uint32_t, 16>)_mm512_permutex2var_epi8(low, _mm512_load_si512(kIndex.at), high);
  }
};

/// Units of a pair, packed from 8-bit numbers; the second half of the last one is zero when k is
/// odd.
template <class T>
struct BytePairUnits {
  using Unit = uint32_t;
  static constexpr int kDepth = 2, kBlock = 8, kWideBlock = 16;

  template <class V, int kCount>
  TW_INLINE static void block(const T* const* row, int64_t at, V (&v)[kCount]) {
    V fours[kCount / 2];  // numbers of each row
    load_columns<uint32_t>(row, at, fours);
    TW_UNROLL
    for (int i = 0; i < kCount / 2; ++i) {
      const auto bytes = Bf16Bytes::of<T>((__m512i)fours[i]);
      v[2 * i] = bytes.template pairs<0, 1, 4>();
      v[2 * i + 1] = bytes.template pairs<2, 3, 4>();
    }
  }
  template <class V>
  TW_INLINE static V across(const T* p, int64_t stride, int rows, int64_t left) {
    return join(bytes_of(p, rows), left > 1 ? bytes_of(p + stride, rows) : Bytes{});
  }
  template <class V, class Rows>
  TW_INLINE static V scattered(const Rows& rows, int64_t offset, int64_t left) {
    alignas(16) T first[16] = {}, second[16] = {};
    for (int i = 0; i < rows.count; ++i) {
      const T* p = rows.row[i] + offset;
      first[i] = *p;
      if (left > 1) second[i] = p[rows.stride];
    }
    return join(load_bits<Bytes>(first), load_bits<Bytes>(second));
  }
  using Bytes = vec<uint8_t, 16>;
  TW_INLINE static vec<uint32_t, 16> join(Bytes low, Bytes high) {
    const __m256i both = _mm256_set_m128i((__m128i)high, (__m128i)low);
    return Bf16Bytes::of<T>(_mm512_castsi256_si512(both)).template pairs<0, 16, 1>();
  }
  TW_INLINE static void join(vec<uint8_t, 32> low, vec<uint8_t, 32> high, vec<uint32_t, 16>* to) {
    const __m512i lower = _mm512_castsi256_si512((__m256i)low);
    const auto bytes = Bf16Bytes::of<T>(_mm512_inserti64x4(lower, (__m256i)high, 1));
    to[0] = bytes.template pairs<0, 32, 1>();
    to[1] = bytes.template pairs<16, 48, 1>();
  }

 private:
  TW_INLINE static Bytes bytes_of(const T* p, int rows) {
    return (Bytes)_mm_maskz_loadu_epi8(__mmask16((1u << rows) - 1u), p);
  }
};
#else
inline constexpr bool kHasBytePairs = false;
template <class T>
struct BytePairUnits;
#endif

namespace detail {
template <class T>
struct PairUnitsOf {
  using type = BytePairUnits<T>;
};
template <>
struct PairUnitsOf<bf16> {
  using type = PairUnits;
};
}  // namespace detail
/// Units of a pair of bf16 made of numbers of T.
template <class T>
using Bf16PairUnits = typename detail::PairUnitsOf<T>::type;

/// Lane i: low[i] and, in its upper half, high[i], both numbers of T as bf16.
template <class T, class Bits>
TW_INLINE auto bf16_pairs(Bits low, Bits high) {
  using Units = with_element<uint32_t, Bits>;
  if constexpr (same_type<T, bf16>)
    return convert<Units>(low) | convert<Units>(high) << 16;
  else
    return BytePairUnits<T>::join(low, high);
}
/// Two vectors of them.
template <class T, class Bits, class Units>
TW_INLINE void bf16_pairs(Bits low, Bits high, Units* to) {
  BytePairUnits<T>::join(low, high, to);
}

}  // namespace tw::tile
