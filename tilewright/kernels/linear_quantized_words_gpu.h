// Reading a panel of quantised weights (linear_quantized_format.h) into the first operands of a
// GPU's matrix instructions (tile/cuda/mma.h). Which row of an operand a panel's row is, is free:
// lane l has the rows 2 (l / 4) and 2 (l / 4) + 1, which lie side by side in a plane, and of a
// block's k those of the groups l % 4 and l % 4 + 4.
#pragma once

#include "tilewright/core/block_codes.h"
#include "tilewright/kernels/linear_quantized_tile_gpu.h"
#include "tilewright/tile/cuda/ptx.h"

namespace tw::kernels {

/// Four values of k to a word: the two rows of the first group, then those of the second.
using QuantizedWords = uint32_t[4];

/// Sixteen bytes that codes stand for.
struct CodeTable {
  uint32_t words[4];
};
TW_INLINE constexpr CodeTable code_table(const int8_t (&values)[16]) {
  CodeTable out{};
  for (int i = 0; i < 16; ++i) out.words[i / 4] |= uint32_t(uint8_t(values[i])) << (i % 4 * 8);
  return out;
}

/// A format that the compiler knows, and one that it does not: seldom used products have one text
/// for all.
template <QuantizedFormat kF>
struct KnownFormat {
  TW_PTX static constexpr QuantizedFormat get() { return kF; }
};
struct AnyFormat {
  QuantizedFormat format;
  TW_PTX QuantizedFormat get() const { return format; }
};

/// Bits by which codes are shifted whose offset is what their highest bit stands for: then that bit
/// is a byte's.
TW_PTX constexpr int quantized_shift(const QuantizedFormat& f) {
  return f.codes == CodeKind::kUnsigned && f.offset != 0 ? 8 - f.low_bits - f.high_bits : 0;
}

/// What a shifted code of 1 stands for.
TW_PTX constexpr float quantized_unit(const QuantizedFormat& f) {
  return 1.0f / float(1 << quantized_shift(f));
}

/// What a lane loads of a block.
template <class Format>
struct QuantizedLoads {
  uint2 low[2], high[2];    // of both rows
  uint32_t half, half_min;  // f16 of both rows
  uint16_t bytes[2], min_bytes[2];

  /// Block `i` of those that lie at `weights` (linear_quantized_ring_gpu.h), the first of which is
  /// `begin`; of a chunk that is longer than they are, its scales come first.
  TW_PTX void load(const Format& format, const uint8_t* weights, int begin, int i) {
    const QuantizedFormat f = format.get();
    const int chunk = f.chunk_blocks;
    const int lane = int(threadIdx.x % 32), row = lane / 4 * 2, group = lane % 4;
    const uint8_t* const scales = weights + i / chunk * int(f.chunk_bytes());
    const int in_chunk = chunk > QuantizedTile::kStageBlocks ? (begin + i) % chunk : i % chunk;
    const uint8_t* const block = scales + f.scale_bytes + i % chunk * int(f.block_bytes());
    const auto plane = [&](int p) { return pair<uint2>(block + 64 * p + 4 * row); };
    if (f.low_bits == 4) {
      low[0] = plane(group);
    } else if (f.low_bits == 8) {
      low[0] = plane(group), low[1] = plane(group + 4);
    } else {
      low[0] = plane(0), low[1] = plane(1);
    }
    if (f.high_bits == 1) high[0] = plane(f.low_bits);
    if (f.high_bits == 2) high[0] = plane(f.low_bits), high[1] = plane(f.low_bits + 1);

    using enum ScaleKind;
    constexpr int kR = kQuantizedRows;
    if (f.scales == kHalf)
      half = pair<uint32_t>(scales + 2 * (kR * in_chunk + row));
    else if (f.scales != kExponent)
      half = pair<uint32_t>(scales + 2 * row);
    if (f.has_min) half_min = pair<uint32_t>(scales + 2 * (kR + row));
    const int first = f.scales == kExponent ? 0 : f.has_min ? 64 : 32;
    if (f.scales != kHalf && f.scales != kHalfMin) {
      TW_UNROLL
      for (int h = 0; h < 2; ++h) {
        const int of_k = f.groups() == 2 ? h : 0;
        const uint8_t* const from = scales + first + kR * (in_chunk * f.groups() + of_k) + row;
        bytes[h] = pair<uint16_t>(from);
        if (f.scales == kSuper32Min) min_bytes[h] = pair<uint16_t>(from + 8 * kR);
      }
    }
  }

  /// The values as signed bytes, less their offset, times 2^quantized_shift(): a code whose highest
  /// bit is the sign's is its value once that bit is turned, where a subtraction takes three
  /// instructions.
  TW_PTX void values(const Format& format, QuantizedWords& to) const {
    const QuantizedFormat f = format.get();
    const int group = int(threadIdx.x % 4);
    TW_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int half = i / 2;  // of k
      const auto row_of = [&](const uint2& rows) { return i % 2 == 0 ? rows.x : rows.y; };
      uint32_t code;
      if (f.low_bits == 8)
        code = row_of(low[half]);
      else if (f.low_bits == 4)
        code = field(row_of(low[0]), 4 * half, 15);
      else
        code = field(row_of(low[half]), 2 * group, 3);
      if (f.high_bits == 1) code |= field(row_of(high[0]), 4 * half + group, 1) << f.low_bits;
      if (f.high_bits == 2) code |= field(row_of(high[half]), 2 * group, 3) << f.low_bits;
      to[i] = value(f, code);
    }
  }

  /// The scale of the values, which are not shifted there, and what is then added, of one of the
  /// two rows.
  TW_PTX float scale(const Format& format, int h, int row) const {
    const QuantizedFormat f = format.get();
    using enum ScaleKind;
    if (f.scales == kExponent) return e8m0_half(uint8_t(byte(bytes[h], row)));
    const float d = f16_of(half, row);
    if (f.scales == kSuper32Min) return d * float(byte(bytes[h], row));
    if (f.scales == kSuper16Min) return d * float(byte(bytes[h], row) & 15);
    if (f.scales == kSuper16 || f.scales == kSuper32) return d * float(int8_t(byte(bytes[h], row)));
    return d;
  }
  TW_PTX float min(const Format& format, int h, int row) const {
    const QuantizedFormat f = format.get();
    using enum ScaleKind;
    if (f.scales == kSuper32Min)
      return f16_of(half_min, row) * -float(byte(min_bytes[h], row));
    else if (f.scales == kSuper16Min)
      return f16_of(half_min, row) * -float(byte(bytes[h], row) >> 4);
    else
      return f16_of(half_min, row);
  }

 private:
  template <class V>
  TW_PTX static V pair(const uint8_t* from) {
    return *reinterpret_cast<const V*>(from);
  }
  TW_PTX static uint32_t field(uint32_t bytes, int shift, uint32_t mask) {
    return (bytes >> shift) & (mask * 0x01010101u);
  }
  TW_PTX static uint32_t byte(uint16_t both, int row) {
    return (uint32_t(both) >> (8 * row)) & 255;
  }
  TW_PTX static float f16_of(uint32_t both, int row) {
    return float(__builtin_bit_cast(f16, uint16_t(both >> (16 * row))));
  }

  /// Four entries of a table.
  TW_PTX static uint32_t looked_up(const CodeTable& table, uint32_t code) {
    const uint32_t close = code | code >> 4;  // nibbles 0 and 1 in byte 0, 2 and 3 in byte 2
    const uint32_t nibbles = (close & 0xff) | (close >> 8 & 0xff00);
    const uint32_t below = __byte_perm(table.words[0], table.words[1], nibbles & 0x7777);
    const uint32_t above = __byte_perm(table.words[2], table.words[3], nibbles & 0x7777);
    const uint32_t is_above = (code >> 3 & 0x01010101u) * 255;
    return (below & ~is_above) | (above & is_above);
  }
  TW_PTX static uint32_t value(const QuantizedFormat& f, uint32_t code) {
    constexpr uint32_t kOnes = 0x01010101u;
    using enum CodeKind;
    if (f.codes == kIq4Nl || f.codes == kMxfp4) {
      constexpr CodeTable kIq4NlTable = code_table(kIq4NlValues);
      constexpr CodeTable kMxfp4Table = code_table(kMxfp4Values);
      return f.codes == kIq4Nl ? looked_up(kIq4NlTable, code) : looked_up(kMxfp4Table, code);
    }
    return quantized_shift(f) == 0 ? code : (code << quantized_shift(f)) ^ 0x80 * kOnes;
  }
};

}  // namespace tw::kernels
