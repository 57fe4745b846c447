// mma (mma.h) of signed bytes: exact sums, modulo 2^32.
//
// With VNNI a unit is four values of k, and vpdpbusd multiplies unsigned bytes by signed ones: rows
// of a are packed with 128 added to each value, and 128 times the sum of each column of b is taken
// from the sums. Without it a unit is two values widened to 16 bits, for vpmaddwd, whose products
// cannot overflow as those of vpmaddubsw can.
#pragma once

#include "tilewright/tile/cpu/dot8.h"
#include "tilewright/tile/cpu/mma.h"
#include "tilewright/tile/cpu/pack.h"

namespace tw::tile {

/// Adding 128 to a signed byte, which makes it unsigned, turns its highest bit over.
inline constexpr uint32_t kByteBias = 0x80808080u;

/// acc + the products of four unsigned bytes of a and four signed ones of b in each lane.
template <int kN>
TW_INLINE vec<uint32_t, kN> add_byte_products(vec<uint32_t, kN> acc, vec<uint32_t, kN> a,
                                              vec<uint32_t, kN> b) {
  return bit_cast<vec<uint32_t, kN>>(dot_u8s8(bit_cast<vec<int32_t, kN>>(acc),
                                              bit_cast<vec<uint8_t, 4 * kN>>(a),
                                              bit_cast<vec<int8_t, 4 * kN>>(b)));
}

/// acc + the products of two signed words in each lane.
TW_INLINE vec<uint32_t, 8> add_word_products(vec<uint32_t, 8> acc, vec<uint32_t, 8> a,
                                             vec<uint32_t, 8> b) {
  return acc + (vec<uint32_t, 8>)_mm256_madd_epi16((__m256i)a, (__m256i)b);
}
#if defined(__AVX512BW__)
TW_INLINE vec<uint32_t, 16> add_word_products(vec<uint32_t, 16> acc, vec<uint32_t, 16> a,
                                              vec<uint32_t, 16> b) {
  return acc + (vec<uint32_t, 16>)_mm512_madd_epi16((__m512i)a, (__m512i)b);
}
#endif

namespace detail {

/// What the units of bytes share. A unit takes its values, first the lowest bits.
template <class Self, int kValues>
struct ByteUnits {
  using Unit = uint32_t;
  using Sum = uint32_t;
  static constexpr int kDepth = kValues;

  template <class V, class Rows>
  TW_INLINE static V scattered(const Rows& rows, int64_t offset, int64_t left) {
    alignas(64) uint32_t buffer[kLanesOf<V>] = {};
    const int count = left < kDepth ? int(left) : kDepth;
    for (int i = 0; i < rows.count; ++i) buffer[i] = unit(rows.row[i] + offset, rows.stride, count);
    return Self::packed(load_bits<V>(buffer));
  }
  template <class V>
  TW_INLINE static V across(const int8_t* p, int64_t stride, int rows, int64_t left) {
    constexpr int kN = kLanesOf<V>;
    const int count = left < kDepth ? int(left) : kDepth;
    if (rows == kN && count == kDepth) [[likely]]
      return Self::packed(Self::template whole_across<V>(p, stride));
    alignas(64) uint32_t buffer[kN] = {};
    for (int i = 0; i < rows; ++i) buffer[i] = unit(p + i, stride, count);
    return Self::packed(load_bits<V>(buffer));
  }

 private:
  TW_INLINE static uint32_t unit(const int8_t* p, int64_t stride, int count) {
    constexpr int kBits = 32 / kDepth;
    constexpr uint32_t kMask = (1u << kBits) - 1;
    uint32_t out = 0;
    for (int i = 0; i < count; ++i) out |= (uint32_t(p[i * stride]) & kMask) << (kBits * i);
    return out;
  }
};

}  // namespace detail

/// Units of four bytes. With kBiased 128 is added to each value, those past the end too.
template <bool kBiased>
struct QuadUnits : detail::ByteUnits<QuadUnits<kBiased>, 4> {
  static constexpr int kBlock = 4, kWideBlock = 16;
  static constexpr uint32_t kBias = kByteBias;  // of the rows of a

  template <class V>
  TW_INLINE static V packed(V v) {
    return kBiased ? v ^ splat<V>(kByteBias) : v;
  }
  template <class V, int kCount>
  TW_INLINE static void block(const int8_t* const* row, int64_t at, V (&v)[kCount]) {
    load_columns<uint32_t>(row, at, v);
    TW_UNROLL
    for (int i = 0; i < kCount; ++i) v[i] = packed(v[i]);
  }
  template <class V>
  TW_INLINE static V add_product(V acc, V a, V b) {
    return add_byte_products<kLanesOf<V>>(acc, a, b);
  }
  /// As many values of a row of b as a vector of units has.
  template <class V>
  TW_INLINE static V along(const int8_t* row) {
    return load_bits<V>(row);
  }
  /// One unit of as many rows as V has lanes.
  template <class V>
  TW_INLINE static V whole_across(const int8_t* p, int64_t stride) {
#if defined(__AVX512VBMI__)
    if constexpr (kLanesOf<V> == 16) {
      constexpr auto kOrder = [] {  // byte i of each of four runs of 16 makes lane i
        vec<uint8_t, 64> out{};
        for (int i = 0; i < 64; ++i) out[i] = uint8_t(i % 4 * 16 + i / 4);
        return out;
      };
      const auto run = [&](int i) { return load_bits<__m128i>(p + i * stride); };
      __m512i all = _mm512_castsi128_si512(run(0));
      all = _mm512_mask_broadcast_i32x4(all, 0x00f0, run(1));
      all = _mm512_mask_broadcast_i32x4(all, 0x0f00, run(2));
      all = _mm512_mask_broadcast_i32x4(all, 0xf000, run(3));
      return (V)_mm512_permutexvar_epi8((__m512i)kOrder(), all);
    }
#endif
    V out{};
    TW_UNROLL
    for (int i = 0; i < 4; ++i)
      out |= convert<V>(load_bits<vec<uint8_t, kLanesOf<V>>>(p + i * stride)) << (8 * i);
    return out;
  }
};

/// Units of two values widened to 16 bits.
struct WordUnits : detail::ByteUnits<WordUnits, 2> {
  static constexpr int kBlock = 8, kWideBlock = 16;

  template <class V>
  TW_INLINE static V packed(V v) {
    return v;
  }
  template <class V, int kCount>
  TW_INLINE static void block(const int8_t* const* row, int64_t at, V (&v)[kCount]) {
    using Words = vec<int16_t, 2 * kLanesOf<V>>;
    V bytes[kCount / 2];
    load_columns<uint32_t>(row, at, bytes);
    TW_UNROLL
    for (int i = 0; i < kCount / 2; ++i) {
      const Words of = bit_cast<Words>(bytes[i]);
      const V even = bit_cast<V>(Words(Words(of << 8) >> 8)), odd = bit_cast<V>(Words(of >> 8));
      v[2 * i] = (even & 0xffffu) | (odd << 16);
      v[2 * i + 1] = (even >> 16) | (odd & 0xffff0000u);
    }
  }
  template <class V>
  TW_INLINE static V add_product(V acc, V a, V b) {
    return add_word_products(acc, a, b);
  }
  template <class V>
  TW_INLINE static V along(const int8_t* row) {
    using Words = vec<int16_t, 2 * kLanesOf<V>>;
    return bit_cast<V>(convert<Words>(load_bits<vec<int8_t, 2 * kLanesOf<V>>>(row)));
  }
  template <class V>
  TW_INLINE static V whole_across(const int8_t* p, int64_t stride) {
    using I = vec<int32_t, kLanesOf<V>>;
    const V low = bit_cast<V>(load<I>(p)), high = bit_cast<V>(load<I>(p + stride));
    return (low & 0xffffu) | (high << 16);
  }
};

/// Panels of such units, b[k / kDepth][j], times rows of a in units of the same depth.
template <class Units, class Value>
struct UnitPanel {
  using Element = Value;
  using Unit = uint32_t;
  using Sum = uint32_t;
  static constexpr int kDepth = Units::kDepth, kUnitDepth = Units::kDepth;

  template <class V, int kRows, int kVecs>
  TW_INLINE static void step(V (&acc)[kRows][kVecs], const uint32_t* a, const Value* b) {
    V w[kVecs];
    TW_UNROLL
    for (int j = 0; j < kVecs; ++j) w[j] = load_bits<V>(b + j * kLanesOf<V> * kDepth);
    TW_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const V x = splat<V>(a[r]);
      TW_UNROLL
      for (int j = 0; j < kVecs; ++j) acc[r][j] = Units::add_product(acc[r][j], x, w[j]);
    }
  }
  template <class V, int kRows, int kVecs>
  TW_INLINE static void half(V (&acc)[kRows][kVecs], const uint32_t* a, const Value* b) {
    step(acc, a, b);
  }
};

using WordPanel = UnitPanel<WordUnits, int16_t>;

/// The rows of a have 128 added to each value: sums start at -128 times those of the columns.
struct QuadPanel : UnitPanel<QuadUnits<false>, int8_t> {
  static constexpr bool kHasStarts = true;

  template <class P>
  __attribute__((noinline)) static void starts(P, const int8_t* b, int64_t k, uint32_t* to) {
    using V = typename P::template Vec<uint32_t>;
    constexpr int kN = kLanesOf<V>, kVecs = kPanelWidth / kN;
    V sums[kVecs] = {};
    for (int64_t i = 0; i < k; i += kDepth, b += kPanelWidth * kDepth) {
      TW_UNROLL
      for (int j = 0; j < kVecs; ++j)
        sums[j] =
            add_byte_products<kN>(sums[j], splat<V>(kByteBias), load_bits<V>(b + j * kN * kDepth));
    }
    TW_UNROLL
    for (int j = 0; j < kVecs; ++j) store(to + j * kN, V{} - sums[j]);
  }
};

// ---- one row of a ----------------------------------------------------------------------------
/// Whether such units of one row of a, which lie as the row does, multiply rows of b as they lie.
template <class Units>
inline constexpr bool kReadsAlong = requires { Units::template along<vec<uint32_t, 8>>(nullptr); };

/// to[j] = a · row_of(j), j < columns: no row is transposed, each sum is added up once.
template <class Units, class P, class F>
TW_INLINE void mma_along(P, const uint32_t* a, F&& row_of, int64_t columns, int64_t k,
                         uint32_t* to) {
  using V = typename P::template Vec<uint32_t>;
  constexpr int kRows = 4, kN = kLanesOf<V>, kValues = kN * Units::kDepth;
  constexpr bool kBiased = requires { Units::kBias; };
  for (int64_t j = 0; j < columns; j += kRows) {
    const int8_t* rows[kRows];
    const int64_t next = j + kRows < columns ? row_of(j + kRows) - row_of(j) : 0;
    for (int r = 0; r < kRows; ++r) rows[r] = row_of(j + r < columns ? j + r : j);
    V sums[kRows] = {}, biases[kRows] = {};
    const auto add = [&](int r, V x, V w) TW_INLINED {
      sums[r] = Units::add_product(sums[r], x, w);
      if constexpr (kBiased) biases[r] = Units::add_product(biases[r], splat<V>(Units::kBias), w);
    };
    int64_t i = 0;
    for (; i + kValues <= k; i += kValues) {
      const V x = load<V>(a + i / Units::kDepth);
      TW_UNROLL
      for (int r = 0; r < kRows; ++r) {
        prefetch_l2(rows[r] + i + next);
        add(r, x, Units::template along<V>(rows[r] + i));
      }
    }
    if (i < k) {
      alignas(64) uint32_t last[kN] = {};
      for (int64_t u = 0; u * Units::kDepth < k - i; ++u) last[u] = a[i / Units::kDepth + u];
      for (int r = 0; r < kRows; ++r) {
        alignas(64) int8_t values[kValues] = {};
        __builtin_memcpy(values, rows[r] + i, size_t(k - i));
        add(r, load<V>(last), Units::template along<V>(values));
      }
    }
    for (int r = 0; r < kRows && j + r < columns; ++r)
      to[j + r] = uint32_t(add_lanes(bit_cast<typename P::i32>(sums[r] - biases[r])));
  }
}

}  // namespace tw::tile
