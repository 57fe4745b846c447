// linear_quantized with operands rounded to bf16, by the tiles of AMX: 32 tokens times the 32 rows
// of two panels, products that take 16 cycles per 16 x 16 x 32 and nothing beside them, where int8
// has to scale a sum of every 32 k. Taking weights apart costs five times as much as a product, so
// a piece of the panels serves many tokens.
//
// Tokens lie in groups of 32, the last one of 16 or 32: [k / 32][rows][32]; weights as pairs,
// [k / 2][32][2]. See tile/cpu/mma_tiles.h.
#pragma once

#include "tilewright/kernels/linear_quantized_dot.h"
#include "tilewright/tile/cpu/amx_tiles.h"
#if defined(__AMX_BF16__)
#include "tilewright/tile/cpu/mma_tiles.h"
#endif

namespace tw::kernels {

inline constexpr int kPairTokens = 2 * tile::kTileRows;

/// Rows of tiles for `tokens` of them. Those that fill up the last tile hold anything: a row's
/// results depend on it alone.
TW_INLINE constexpr int64_t pair_rows(int64_t tokens) {
  return (tokens + tile::kTileRows - 1) / tile::kTileRows * tile::kTileRows;
}

/// Rows of the group that begins with token `first` of `tokens`.
TW_INLINE constexpr int rows_of_group(int64_t first, int64_t tokens) {
  const int64_t rows = pair_rows(tokens - first);
  return rows < kPairTokens ? int(rows) : kPairTokens;
}

#if defined(__AMX_BF16__)
/// The blocks [begin, end) of token `token`.
template <class P, class T>
TW_INLINE void pack_token_pairs(P, const View<const T, 1>& row, int64_t token, int64_t tokens,
                                int64_t begin, int64_t end, int64_t token_bytes, uint8_t* to) {
  const int64_t first = token / kPairTokens * kPairTokens;
  const int64_t pitch = rows_of_group(first, tokens) * tile::kTileRowBytes;
  to += first * token_bytes + begin * pitch + (token - first) * tile::kTileRowBytes;
  for (int64_t b = begin; b < end; ++b, to += pitch) {
    typename P::f32 x[2];
    detail::load_block(row, b * kQuantizedBlock, x);
    tile::store(reinterpret_cast<uint32_t*>(to), tile::join_bf16(x[0], x[1]));
  }
}

/// The blocks [begin, end) of a panel, as half of every row of pairs.
template <class P, QuantizedFormat kF>
__attribute__((noinline)) void pack_panel_pairs(P, const uint8_t* panel, int64_t begin, int64_t end,
                                                uint32_t* to) {
  using F = typename P::f32;
  constexpr int kGroups = kF.groups(), kPitch = 2 * kQuantizedRows;
  constexpr int64_t kAhead = 8192;  // the next piece arrives while this one is multiplied
  static_assert(kRowVecs<P> == 1 && !value_range<P>(kF).is_signed);
  // Lanes are pairs of k, of rows 0 to 7 and 8 to 15: as they are joined. All products are exact.
  const auto pair_of = [](const F& scale, const F& rest, auto codes)
                           TW_INLINED { return tile::fma(scale, tile::convert<F>(codes), rest); };
  for_blocks<kF>(panel, begin, end, [&](const uint8_t* block, const uint8_t* chunk, int b) {
    TW_UNROLL
    for (int h = 0; h < kGroups; ++h) {
      const auto w = read_scale<P, kF>(chunk, b * kGroups + h, 0);
      const F scales[] = {tile::double_lanes<0>(w.scale), tile::double_lanes<1>(w.scale)};
      F rest[2];
      TW_UNROLL
      for (int i = 0; i < 2; ++i)
        rest[i] = kF.has_min ? i == 0 ? tile::double_lanes<0>(w.min) : tile::double_lanes<1>(w.min)
                             : scales[i] * -float(value_offset<P>(kF));
      TW_UNROLL
      for (int g = h * kF.group / 4; g < (h + 1) * kF.group / 4; ++g) {
        prefetch_ahead<kF>(block, b, g, kAhead);
        const auto codes = read_values<P, kF>(block, g, 0);
        const auto store_pair = [&]<int kFirst>() TW_INLINED {
          tile::store(to, tile::join_bf16(
                              pair_of(scales[0], rest[0], tile::pairs_of_bytes<0, kFirst>(codes)),
                              pair_of(scales[1], rest[1], tile::pairs_of_bytes<1, kFirst>(codes))));
          to += kPitch;
        };
        store_pair.template operator()<0>();
        store_pair.template operator()<2>();
      }
    }
  });
}

/// sums[rows][32] += the blocks [begin, end) of the group that begins with token `first`, times
/// their weights; the first blocks begin the sums.
template <class P>
TW_INLINE void multiply_pair_tile(P p, const uint8_t* packed, int64_t token_bytes, int64_t tokens,
                                  int64_t first, int64_t begin, int64_t end,
                                  const uint32_t* weights, float* sums) {
  const int rows = rows_of_group(first, tokens);
  packed += first * token_bytes + begin * rows * tile::kTileRowBytes;
  tile::mma<tile::Bf16TilePanel>(
      p, rows, reinterpret_cast<const uint32_t*>(packed), reinterpret_cast<const bf16*>(weights),
      (end - begin) * kQuantizedBlock, sums, 0, begin > 0, reinterpret_cast<const char*>(sums));
}
#endif

}  // namespace tw::kernels
