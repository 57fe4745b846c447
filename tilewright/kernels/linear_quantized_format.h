// The layout of weights packed for linear_quantized. It is the same on every instruction set.
//
//   header   64 bytes (QuantizedHeader)
//   panels   of 16 output features ("rows"), the last ones padded with zeros, each a sequence of
//   chunks   of 32 .. 256 consecutive k (QuantizedFormat::chunk_blocks): scales, then
//   blocks   of 32 k: bit planes of 64 bytes
//
// A plane holds a bit field of every code of some k-groups. Group g of a block is its k in
// [4 g, 4 g + 4) of all 16 rows, one byte each, byte 4 r + i being row r, k = 4 g + i: the operand
// of an 8-bit dot product on one 64-byte vector or two of 32 bytes. Planes of a block, in order:
//
//   low_bits 4    4 planes, plane p: group p in bits 0-3, group p + 4 in bits 4-7
//   low_bits 2    2 planes, plane p: group 4 p + i in bits [2 i, 2 i + 2)
//   low_bits 8    8 planes, one group each
//   high_bits 1   1 plane: group g in bit g
//   high_bits 2   2 planes, as low_bits 2
//
// A weight is scale * (value(code) - offset) + min, value() by CodeKind, scale and min per row and
// `group` consecutive k: exactly the block formats of core/block_formats.h, whose products of
// scales are exact in float32. Freestanding.
#pragma once

#include "tilewright/core/dtype_list.h"
#include "tilewright/core/types.h"

namespace tw::kernels {

inline constexpr int kQuantizedRows = 16;   // of a panel
inline constexpr int kQuantizedBlock = 32;  // k that share the scale of an activation
inline constexpr int kResultStride = 32;    // float32 results of one token for a pair of panels

/// What a call multiplies.
enum class QuantizedCompute : uint8_t {
  kInt8,   // activations rounded to int8 per 32 k
  kBf16,   // activations and weights rounded to bf16
  kF32,    // activations and weights as they are
  kInt16,  // activations rounded to two digits of int8 per 32 k, which are two rows of int8
};

struct QuantizedHeader {
  static constexpr uint32_t kMagic = 0x51505754;  // "TWPQ", little-endian
  static constexpr uint16_t kVersion = 1;

  uint32_t magic;
  uint16_t version;
  uint8_t dtype;         // a DType, of a block format
  uint8_t is_gated;      // panels alternate between the two halves of the rows
  int64_t rows, k;       // the weight's sizes; rows counts both halves
  int64_t total_bytes;   // of header and panels
  uint8_t reserved[32];  // zero
};
static_assert(sizeof(QuantizedHeader) == 64);

enum class CodeKind : uint8_t {
  kUnsigned,  // the code itself
  kSigned,    // a signed byte
  kIq4Nl,     // kIq4NlValues[code]
  kMxfp4,     // kMxfp4Values[code] + 12
};

/// What a chunk's scales are. "[16]" is one value per row; d and m are f16.
enum class ScaleKind : uint8_t {
  kHalf,        // d[2 blocks][16]
  kHalfMin,     // d[16], m[16]; min = m
  kSuper32Min,  // d[16], dmin[16], u8 scale[8][16], u8 min[8][16]; d * scale, -dmin * min
  kSuper16Min,  // d[16], dmin[16], u8 both[16][16]; d * (both & 15), -dmin * (both >> 4)
  kSuper16,     // d[16], i8 scale[16][16]; d * scale
  kSuper32,     // d[16], i8 scale[8][16]; d * scale
  kExponent,    // u8 e[4 blocks][16]; half of 2^(e - 127)
};

struct QuantizedFormat {
  uint8_t low_bits, high_bits;
  CodeKind codes;
  ScaleKind scales;
  uint8_t group;  // k per scale: 16 or 32
  bool has_min;
  uint8_t offset;        // taken from every value
  uint8_t max_value;     // of value(code), where it is not negative
  uint8_t chunk_blocks;  // blocks of a chunk; the last one of a row may have fewer
  uint16_t scale_bytes;  // of a chunk, a multiple of 64

  TW_INLINE constexpr bool is_signed() const {
    return codes == CodeKind::kSigned || codes == CodeKind::kIq4Nl;
  }
  TW_INLINE constexpr int groups() const {
    return kQuantizedBlock / group;
  }  // scale groups per block
  TW_INLINE constexpr int64_t block_bytes() const { return 64 * (low_bits + high_bits); }
  TW_INLINE constexpr int64_t chunk_bytes() const {
    return scale_bytes + chunk_blocks * block_bytes();
  }
  /// Bytes of a panel of `blocks` blocks.
  TW_INLINE constexpr int64_t panel_bytes(int64_t blocks) const {
    return (blocks + chunk_blocks - 1) / chunk_blocks * scale_bytes + blocks * block_bytes();
  }
};

TW_INLINE constexpr QuantizedFormat quantized_format(DType dtype) {
  using enum CodeKind;
  using enum ScaleKind;
  switch (dtype) {
    //                          low high codes   scales      group min offset max chunk bytes
    case DType::kQ4_0:
      return {4, 0, kUnsigned, kHalf, 32, false, 8, 15, 2, 64};
    case DType::kQ4_1:
      return {4, 0, kUnsigned, kHalfMin, 32, true, 0, 15, 1, 64};
    case DType::kQ5_0:
      return {4, 1, kUnsigned, kHalf, 32, false, 16, 31, 2, 64};
    case DType::kQ5_1:
      return {4, 1, kUnsigned, kHalfMin, 32, true, 0, 31, 1, 64};
    case DType::kQ8_0:
      return {8, 0, kSigned, kHalf, 32, false, 0, 0, 2, 64};
    case DType::kQ2K:
      return {2, 0, kUnsigned, kSuper16Min, 16, true, 0, 3, 8, 320};
    case DType::kQ3K:
      return {2, 1, kUnsigned, kSuper16, 16, false, 4, 7, 8, 320};
    case DType::kQ4K:
      return {4, 0, kUnsigned, kSuper32Min, 32, true, 0, 15, 8, 320};
    case DType::kQ5K:
      return {4, 1, kUnsigned, kSuper32Min, 32, true, 0, 31, 8, 320};
    case DType::kQ6K:
      return {4, 2, kUnsigned, kSuper16, 16, false, 32, 63, 8, 320};
    case DType::kIq4Nl:
      return {4, 0, kIq4Nl, kHalf, 32, false, 0, 0, 2, 64};
    case DType::kIq4Xs:
      return {4, 0, kIq4Nl, kSuper32, 32, false, 0, 0, 8, 192};
    case DType::kMxfp4:
      return {4, 0, kMxfp4, kExponent, 32, false, 12, 24, 4, 64};
    default:
      return {};
  }
}

TW_INLINE constexpr QuantizedHeader quantized_header(DType dtype, int64_t rows, int64_t k,
                                                     bool is_gated, int64_t total_bytes) {
  QuantizedHeader header{};
  header.magic = QuantizedHeader::kMagic;
  header.version = QuantizedHeader::kVersion;
  header.dtype = static_cast<uint8_t>(dtype);
  header.is_gated = is_gated;
  header.rows = rows;
  header.k = k;
  header.total_bytes = total_bytes;
  return header;
}

/// Output features from one panel of a gated pair to the next are 16, so that 16 gates and their 16
/// factors lie side by side; without gating, rows follow each other.
TW_INLINE constexpr int64_t quantized_panels(int64_t rows, bool is_gated) {
  constexpr int64_t kR = kQuantizedRows;
  return is_gated ? (rows / 2 + kR - 1) / kR * 2 : (rows + kR - 1) / kR;
}

}  // namespace tw::kernels
