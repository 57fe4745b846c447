// The register tile of linear_quantized on AMX: 16 tokens times the 16 rows of a panel. Its sums
// are the integers of dot_tile and are scaled in the same order, so bits are the same.
//
// A product of tiles takes 16 cycles per block of 32 k, and storing its sums 16 more beside it; the
// rest scales them. While tiles are in use one port alone multiplies or converts 512-bit floats:
// integers become floats by additions. A store right behind its product would hold up the next one,
// so products run a block ahead.
#pragma once

#include "tilewright/kernels/linear_quantized_dot.h"
#include "tilewright/tile/cpu/amx_tiles.h"

namespace tw::kernels {

/// Whether tiles beat vpdpbusd. A block fills half of a product's k and costs the time of about
/// three products; a scale every 16 k would double that. Fewer tokens leave rows of a tile unused.
TW_INLINE bool prefers_tiles(const Machine& machine, QuantizedFormat f, int64_t tokens) {
  return f.groups() == 1 && tokens >= tile::kTileRows &&
         machine.int8_tile_gops > 2 * 3 * machine.int8_dot_gops;
}

/// Tiles 0 and 1 take sums, tile 2 the codes of tokens and tile 3 those of weights.
TW_INLINE tile::TileConfig quantized_tiles() {
  tile::TileConfig config;
  config.row_bytes[2] = kQuantizedBlock;
  config.rows[3] = kQuantizedBlock / 4;
  return config;
}

/// Bytes that tiles may read past the last token.
inline constexpr int64_t kTileOverrun = tile::kTileRows * kQuantizedBlock;

/// float32 of integers below 2^22 in size.
template <class F, class I>
TW_INLINE F convert_small(I v) {
  return tile::bit_cast<F>(v + tile::splat<I>(0x4b400000)) - tile::splat<F>(0x1.8p23f);
}

/// dot_tile with quantized_tiles() and signed codes. Where kTokens is less than 16, the other rows
/// multiply whatever follows the tokens, and nobody reads their sums.
template <class P, UnpackedFormat kU, int kTokens>
__attribute__((noinline)) void dot_tile_amx(P, UnpackedPanel panel, const uint8_t* x,
                                            int64_t blocks, float* acc) {
  using F = typename P::f32;
  using I = typename P::i32;
  static_assert(kU.is_signed && kU.groups() == 1);
  constexpr int kScales = (1 + kU.has_min) * kQuantizedRows;
  constexpr int64_t kBlockBytes = kTokens * (kQuantizedBlock + 4 + 4);
  alignas(64) int32_t sums[2][tile::kTileRows * kQuantizedRows];
  TileResults<P, kTokens, kRowVecs<P>, true> results{acc, {}};
  results.load();

  const auto multiply = [&]<int kTile>(int64_t block) TW_INLINED {
    tile::load_tile<2>(x + block * kBlockBytes, kQuantizedBlock);
    tile::load_tile<3>(panel.codes + block * kQuantizedRows * kQuantizedBlock, tile::kTileRowBytes);
    tile::zero_tile<kTile>();
    tile::dot_int8_tiles<true, true, kTile, 2, 3>();
  };
  const auto add = [&]<int kTile>(int64_t block) TW_INLINED {
    tile::store_tile<kTile>(sums[kTile], tile::kTileRowBytes);
    const uint8_t* d = x + block * kBlockBytes + kTokens * kQuantizedBlock;
    const float* scales = panel.scales + block * kScales;
    const F scale = tile::load<F>(scales);
    TW_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      const F dot = convert_small<F>(tile::load<I>(sums[kTile] + t * kQuantizedRows));
      const F factor = scale * tile::splat<F>(tile::load_bits<float>(d + 4 * t));
      results.update(t, 0, [&](F r) {
        r = tile::fma(factor, dot, r);
        if constexpr (kU.has_min)
          r = tile::fma(tile::load<F>(scales + kQuantizedRows),
                        tile::splat<F>(tile::load_bits<float>(d + 4 * (kTokens + t))), r);
        return r;
      });
    }
  };

  if (blocks > 0) multiply.template operator()<0>(0);
  for (int64_t b = 0; b < blocks; b += 2) {
    if (b + 1 < blocks) multiply.template operator()<1>(b + 1);
    add.template operator()<0>(b);
    if (b + 1 == blocks) break;
    if (b + 2 < blocks) multiply.template operator()<0>(b + 2);
    add.template operator()<1>(b + 1);
  }
  results.store();
}

}  // namespace tw::kernels
