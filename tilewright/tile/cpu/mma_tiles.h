// mma (mma.h) by the tiles of AMX, for bf16 and signed bytes: up to 32 rows by the 32 columns of a
// panel at once, in 2 x 2 tiles.
//
// A panel of bf16 pairs, b[k / 2][kPanelWidth][2], is two right operands side by side as it lies.
// Left operands are rows of 32 values of k, `height` rows together: a[k / 32][height][32]. What is
// left of k is filled with zeros, in a when it is packed and in b here, so that the 32 values which
// one instruction sums follow from k alone: an element sees the same operations whatever the
// blocking, if blocks of k begin at multiples of 32, and whatever the number of rows. Bytes lie in
// quads and rows of 64.
#pragma once

#include "tilewright/tile/cpu/amx_tiles.h"
#include "tilewright/tile/cpu/mma.h"
#include "tilewright/tile/cpu/mma_int8.h"
#include "tilewright/tile/cpu/pack.h"
#include "tilewright/tile/cpu/transpose.h"

namespace tw::tile {

/// Values of k in a row of a tile, and pairs of them: units, of bytes quads.
inline constexpr int kTileDepth = 32, kTilePairs = kTileDepth / 2;

/// What values of T are packed into.
template <class T>
struct TileUnits : PairUnits {};
template <>
struct TileUnits<int8_t> : QuadUnits<false> {};

/// A panel of such units, for mma.
template <class T>
struct TilePanel {
  using Element = T;
  using Unit = uint32_t;
  using Sum = sum_t<TileUnits<T>>;
  static constexpr int kDepth = kTilePairs * TileUnits<T>::kDepth;
};
using Bf16TilePanel = TilePanel<bf16>;

/// The left operand of `height` <= 32 rows: tiles 4 and 5, the rows beyond 16 in the latter. Tiles
/// 0 to 3 are the results by row and column, 6 and 7 the right operand.
TW_INLINE TileConfig product_tiles(int height) {
  TileConfig out;
  const int upper = height < kTileRows ? height : kTileRows, lower = height - upper;
  out.rows[0] = out.rows[1] = out.rows[4] = uint8_t(upper);
  if (lower > 0) out.rows[2] = out.rows[3] = out.rows[5] = uint8_t(lower);
  return out;
}

namespace detail {

template <class T, int kTo, int kA, int kB>
TW_INLINE void dot_tiles() {
  if constexpr (same_type<T, int8_t>)
    dot_int8_tiles<true, true, kTo, kA, kB>();
  else
    dot_bf16_tiles<kTo, kA, kB>();
}

/// Adds the products of the tile pairs at a and b.
template <class T, bool kLower>
TW_INLINE void multiply_tiles(const uint32_t* a, const void* b) {
  constexpr int64_t kPanelBytes = kPanelWidth * int64_t{sizeof(uint32_t)};
  // Loads before products: 8 % quicker than each before the first that wants it.
  load_tile<6>(b, kPanelBytes);
  load_tile<4>(a, kTileRowBytes);
  load_tile<7>(static_cast<const char*>(b) + kTileRowBytes, kPanelBytes);
  if constexpr (kLower) load_tile<5>(a + tile::kTileRows * kTilePairs, kTileRowBytes);
  dot_tiles<T, 0, 4, 6>();
  dot_tiles<T, 1, 4, 7>();
  if constexpr (kLower) {
    dot_tiles<T, 2, 5, 6>();
    dot_tiles<T, 3, 5, 7>();
  }
}

/// From one row of the result to the next.
inline constexpr int64_t kResultBytes = kPanelWidth * int64_t{sizeof(float)};

/// f.operator()<tile>(its first element in c).
template <bool kLower, class Sum, class F>
TW_INLINE void for_result_tiles(Sum* c, F&& f) {
  f.template operator()<0>(c);
  f.template operator()<1>(c + tile::kTileRows);
  if constexpr (kLower) {
    f.template operator()<2>(c + tile::kTileRows * kPanelWidth);
    f.template operator()<3>(c + tile::kTileRows * kPanelWidth + tile::kTileRows);
  }
}

template <bool kLower, class P, class T, class Sum>
__attribute__((noinline)) const char* mma_tiles(P, int height, const uint32_t* a, const T* b,
                                                int64_t k, Sum* c, bool accumulate,
                                                const char* ahead) {
  constexpr int kDepth = TilePanel<T>::kDepth, kOfUnit = TileUnits<T>::kDepth;
  constexpr int kLinesAhead = 8;  // as many for each k as mma fetches
  // There is something ahead: a is in L1 already. Else a comes from L2, and its next rows are
  // fetched: prompts 5 to 8 % quicker.
  const bool fetch = ahead != reinterpret_cast<const char*>(c);
  if (accumulate)
    for_result_tiles<kLower>(c, []<int kTile>(Sum* at) { load_tile<kTile>(at, kResultBytes); });
  else
    for_result_tiles<kLower>(c, []<int kTile>(Sum*) { zero_tile<kTile>(); });
  const int64_t step = height * kTilePairs;
  for (; k >= kDepth; k -= kDepth) {
    if (fetch) {
      TW_UNROLL
      for (int i = 0; i < kLinesAhead; ++i) prefetch_l2(ahead + 64 * i);
      ahead += 64 * kLinesAhead;
    } else {
      TW_UNROLL
      for (int i = 0; i < (kLower ? 2 : 1) * tile::kTileRows; ++i)
        prefetch(a + step + i * kTilePairs);
    }
    multiply_tiles<T, kLower>(a, b);
    a += step;
    b += kDepth * kPanelWidth;
  }
  if (k > 0) {
    alignas(64) T rest[kDepth * kPanelWidth] = {};
    const int64_t values = (k + kOfUnit - 1) / kOfUnit * kOfUnit * kPanelWidth;
    __builtin_memcpy(rest, b, size_t(values) * sizeof(T));
    multiply_tiles<T, kLower>(a, rest);
  }
  for_result_tiles<kLower>(c, []<int kTile>(Sum* at) { store_tile<kTile>(at, kResultBytes); });
  return ahead;
}

}  // namespace detail

/// mma for 1 <= height <= 32 rows within a TileScope of product_tiles(height).
template <class Format, class P>
  requires same_type<Format, TilePanel<typename Format::Element>>
TW_INLINE const char* mma(P p, int height, const uint32_t* a, const typename Format::Element* b,
                          int64_t k, sum_t<Format>* c, int64_t, bool accumulate, const char* ahead,
                          const sum_t<Format>* = nullptr) {
  if (height > kTileRows) return detail::mma_tiles<true>(p, height, a, b, k, c, accumulate, ahead);
  return detail::mma_tiles<false>(p, height, a, b, k, c, accumulate, ahead);
}

/// Rounded to bf16, first the elements of a, then those of b. Denormals become zero, as in
/// products.
TW_INLINE vec<uint32_t, 16> join_bf16(f32x16 a, f32x16 b) {
  return (vec<uint32_t, 16>)_mm512_cvtne2ps_pbh((__m512)b, (__m512)a);
}
/// The same with a in the lower half of each lane and b in the upper.
TW_INLINE vec<uint32_t, 16> pair_bf16(f32x16 a, f32x16 b) {
  constexpr auto kInterleaved = [] {
    vec<uint16_t, 32> out{};
    for (int i = 0; i < 32; ++i) out[i] = uint16_t(i / 2 + i % 2 * 16);
    return out;
  };
  return (vec<uint32_t, 16>)_mm512_permutexvar_epi16((__m512i)kInterleaved(),
                                                     (__m512i)join_bf16(a, b));
}

/// Lanes 8 kHalf, 8 kHalf + 1, ..., each twice.
template <int kHalf>
TW_INLINE f32x16 double_lanes(f32x16 v) {
  constexpr int k = 8 * kHalf;
  return __builtin_shufflevector(v, v, k, k, k + 1, k + 1, k + 2, k + 2, k + 3, k + 3, k + 4, k + 4,
                                 k + 5, k + 5, k + 6, k + 6, k + 7, k + 7);
}
/// Bytes kFirst and kFirst + 1 of each group of four from group 8 kHalf on, widened.
template <int kHalf, int kFirst>
TW_INLINE vec<int32_t, 16> pairs_of_bytes(vec<uint8_t, 64> v) {
  constexpr auto kOrder = [] {
    vec<uint8_t, 64> out{};
    for (int i = 0; i < 16; ++i) out[4 * i] = uint8_t(4 * (8 * kHalf + i / 2) + kFirst + i % 2);
    return out;
  };
  constexpr uint64_t kLowest = 0x1111111111111111;  // bytes of each lane
  return (vec<int32_t, 16>)_mm512_maskz_permutexvar_epi8(kLowest, (__m512i)kOrder(), (__m512i)v);
}

/// Packs `height` <= 16 rows as rows of tiles: to[k / 32][height][32], `pitch` units from one 32 of
/// k to the next, of bytes 64. Rows from rows.count on repeat others.
template <class P, class T>
TW_INLINE void pack_tile_rows(P p, const PackRows<P, T>& rows, int64_t first, int64_t k, int height,
                              uint32_t* to, int64_t pitch) {
  using V = typename P::template Vec<uint32_t>;
  constexpr int64_t kDepth = TilePanel<T>::kDepth;
  for (int64_t at = 0; at < k; at += kDepth, to += pitch) {
    const int64_t count = k - at < kDepth ? k - at : kDepth;
    if (rows.stride == 1 && count == kDepth) {
      for (int i = 0; i < height; ++i)
        store(to + i * kTilePairs, load_bits<V>(rows.row[i] + first + at));
    } else {
      alignas(64) uint32_t units[kTilePairs * kTileRows] = {}, turned[kTileRows * kTilePairs];
      pack_wide<TileUnits<T>>(p, rows, first + at, count, units, kTileRows);
      transpose_block(p, units, kTileRows, turned, kTilePairs, kTilePairs, kTileRows);
      __builtin_memcpy(to, turned, size_t(height) * kTileRowBytes);
    }
  }
}

}  // namespace tw::tile
