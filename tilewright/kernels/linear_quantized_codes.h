// Reading a panel of quantised weights (linear_quantized_format.h): codes as bytes ready for 8-bit
// dot products, scales and mins as float32, or whole weights as float32.
#pragma once

#include "tilewright/core/block_formats.h"
#include "tilewright/kernels/linear_quantized_format.h"
#include "tilewright/tile/cpu/dot8.h"
#include "tilewright/tile/cpu/unpack.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// Vectors that hold the 16 rows of a panel, four k each.
template <class P>
inline constexpr int kRowVecs = 64 / P::kVectorBytes;

/// What the values that read_values gives can be.
template <class P>
TW_INLINE constexpr tile::CodeRange value_range(QuantizedFormat f) {
  if (!f.is_signed()) return {f.max_value, false};
  return P::kHasVnni ? tile::CodeRange{255, false} : tile::CodeRange{127, true};
}

/// What is to be taken from them: signed ones are shifted for vpdpbusd.
template <class P>
TW_INLINE constexpr int value_offset(QuantizedFormat f) {
  return f.is_signed() && P::kHasVnni ? 128 : f.offset;
}

/// Vector v of a 64-byte plane.
template <class P>
TW_INLINE tile::Bytes<P> load_plane(const uint8_t* block, int plane, int v) {
  return tile::load_bits<tile::Bytes<P>>(block + 64 * plane + v * P::kVectorBytes);
}

/// The values of k-group g in [0, 8) of a block, rows of vector v, in value_range.
template <class P, QuantizedFormat kF>
TW_INLINE tile::Bytes<P> read_values(const uint8_t* block, int g, int v) {
  using B = tile::Bytes<P>;
  constexpr int kLow = kF.low_bits;
  B code;
  if constexpr (kLow == 8)
    code = load_plane<P>(block, g, v);
  else if constexpr (kLow == 4)
    code = tile::byte_field(load_plane<P>(block, g % 4, v), g / 4 * 4, 4, 0);
  else
    code = tile::byte_field(load_plane<P>(block, g / 4, v), 2 * (g % 4), 2, 0);
  if constexpr (kF.high_bits == 1)
    code |= tile::byte_field(load_plane<P>(block, kLow, v), g, 1, kLow);
  if constexpr (kF.high_bits == 2)
    code |= tile::byte_field(load_plane<P>(block, kLow + g / 4, v), 2 * (g % 4), 2, kLow);

  if constexpr (kF.codes == CodeKind::kIq4Nl) code = tile::lookup(kIq4NlValues, code);
  if constexpr (kF.codes == CodeKind::kMxfp4)
    code = tile::lookup(kMxfp4Values, code) + tile::splat<B>(kF.offset);
  if constexpr (kF.is_signed() && P::kHasVnni) code ^= tile::splat<B>(uint8_t(0x80));
  return code;
}

/// Rows [v * lanes, (v + 1) * lanes) of the scale, and of the min, of one group of k.
template <class P>
struct ScaleAndMin {
  typename P::f32 scale, min;
};

/// Those of group `group` of a chunk, counted from its first k.
template <class P, QuantizedFormat kF>
TW_INLINE ScaleAndMin<P> read_scale(const uint8_t* scales, int group, int v) {
  using F = typename P::f32;
  using I = typename P::i32;
  constexpr int kN = P::template kLanes<float>, kR = kQuantizedRows;
  const f16* half = reinterpret_cast<const f16*>(scales) + v * kN;
  const uint8_t* bytes = scales + v * kN;
  const auto f32 = [](I v32) { return tile::convert<F>(v32); };
  using enum ScaleKind;
  if constexpr (kF.scales == kHalf) {
    return {tile::load<F>(half + kR * group), F{}};
  } else if constexpr (kF.scales == kHalfMin) {
    return {tile::load<F>(half), tile::load<F>(half + kR)};
  } else if constexpr (kF.scales == kSuper32Min) {
    const I scale = tile::widen_u8<I>(bytes + 64 + kR * group);
    const I min = tile::widen_u8<I>(bytes + 64 + 8 * kR + kR * group);
    return {tile::load<F>(half) * f32(scale), tile::load<F>(half + kR) * f32(-min)};
  } else if constexpr (kF.scales == kSuper16Min) {
    const I both = tile::widen_u8<I>(bytes + 64 + kR * group);
    return {tile::load<F>(half) * f32(both & 15), tile::load<F>(half + kR) * f32(-(both >> 4))};
  } else if constexpr (kF.scales == kSuper16 || kF.scales == kSuper32) {
    return {tile::load<F>(half) * f32(tile::widen_i8<I>(bytes + 32 + kR * group)), F{}};
  } else {
    // Half of 2^(e - 127), as e8m0_half: 0 and 1 give a subnormal.
    const I e = tile::widen_u8<I>(bytes + kR * group);
    const I subnormal =
        tile::select(e == 0, tile::splat<I>(0x00200000), tile::splat<I>(0x00400000));
    return {tile::bit_cast<F>(tile::select(e < 2, subnormal, (e - 1) << 23)), F{}};
  }
}

/// Walks the blocks [begin, end) of a panel: f(block codes, chunk scales, block within the chunk).
template <QuantizedFormat kF, class F>
TW_INLINE void for_blocks(const uint8_t* panel, int64_t begin, int64_t end, F&& f) {
  constexpr int64_t kChunk = kF.chunk_blocks;
  const uint8_t* chunk = panel + begin / kChunk * kF.chunk_bytes();
  int64_t first = begin % kChunk;
  for (int64_t b = begin; b < end; chunk += kF.chunk_bytes(), first = 0) {
    const int64_t last = kChunk < first + (end - b) ? kChunk : first + (end - b);
    for (int64_t i = first; i < last; ++i, ++b)
      f(chunk + kF.scale_bytes + i * kF.block_bytes(), chunk, int(i));
  }
}

/// Whether a code takes a whole byte of memory: such panels pass the fastest.
template <QuantizedFormat kF>
inline constexpr bool kByteCodes = kF.block_bytes() >= kQuantizedBlock * kQuantizedRows;

/// Asks for what lies `ahead` bytes after a block and its share of the scales, a part of it with
/// every k-group g in [0, 8), so that requests do not queue. Every line of a panel is asked for
/// once while it is read in order: into the nearest cache, but those of kByteCodes into the second.
template <QuantizedFormat kF>
TW_INLINE void prefetch_ahead(const uint8_t* block, int in_chunk, int g, int64_t ahead) {
  constexpr int kLines = int(kF.block_bytes() / 64), kScales = kF.scale_bytes;
  const auto ask = [&](const uint8_t* line) TW_INLINED {
    if constexpr (kByteCodes<kF>)
      tile::prefetch_l2(line);
    else
      tile::prefetch(line);
  };
  TW_UNROLL
  for (int i = 0; i < kLines; ++i)
    if (i * 8 / kLines == g) ask(block + ahead + 64 * i);
  if (g != 0 || in_chunk != 0) return;
  TW_UNROLL
  for (int i = 0; i < kScales; i += 64) ask(block + ahead - kScales + i);
}

}  // namespace tw::kernels
