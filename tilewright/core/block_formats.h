// The block formats of GGUF: how each lies in memory, and the plain conversion from and to float32.
//
// A row is a sequence of blocks of 32 or 256 consecutive weights ("elements" in core/dtype.h), each
// with its own scales. The layouts are those of ggml (github.com/ggml-org/ggml, MIT licence); the
// K formats are its "k-quants", MXFP4 is the OCP Microscaling 1.0 format with E8M0 scales.
// Everything is little-endian. No struct has padding or needs more than two-byte alignment.
#pragma once

#include <bit>
#include <cstdint>

#include "tilewright/core/block_codes.h"
#include "tilewright/core/dtype.h"
#include "tilewright/core/types.h"

namespace tw {

static_assert(std::endian::native == std::endian::little, "GGUF blocks are read in place");

/// One block of the block format kType, as it lies in memory.
template <DType kType>
struct Block;

// The 32-element formats keep element j in the low nibble of qs[j] and element j + 16 in the high
// nibble, for j in [0, 16).

/// w = d * (q - 8), q in [0, 16).
template <>
struct Block<DType::kQ4_0> {
  f16 d;
  uint8_t qs[16];
};

/// w = d * q + m, q in [0, 16).
template <>
struct Block<DType::kQ4_1> {
  f16 d;
  f16 m;
  uint8_t qs[16];
};

/// w = d * (q - 16), q in [0, 32); the fifth bit of element j is bit j of the 32 bits in qh.
template <>
struct Block<DType::kQ5_0> {
  f16 d;
  uint8_t qh[4];
  uint8_t qs[16];
};

/// w = d * q + m, q in [0, 32); the fifth bit of element j is bit j of the 32 bits in qh.
template <>
struct Block<DType::kQ5_1> {
  f16 d;
  f16 m;
  uint8_t qh[4];
  uint8_t qs[16];
};

/// w = d * q.
template <>
struct Block<DType::kQ8_0> {
  f16 d;
  int8_t qs[32];
};

/// w = d * kIq4NlValues[q], q in [0, 16).
template <>
struct Block<DType::kIq4Nl> {
  f16 d;
  uint8_t qs[16];
};

/// w = e8m0_half(e) * kMxfp4Values[q], q in [0, 16).
template <>
struct Block<DType::kMxfp4> {
  uint8_t e;
  uint8_t qs[16];
};

/// w = d * (scale & 15) * q - dmin * (scale >> 4), q in [0, 4), one scale byte per 16 elements.
/// Element 128 h + 32 s + j is bits [2 s, 2 s + 2) of qs[32 h + j], for h < 2, s < 4, j < 32.
template <>
struct Block<DType::kQ2K> {
  uint8_t scales[16];
  uint8_t qs[64];
  f16 d;
  f16 dmin;
};

/// w = d * scale * (q - 4), q in [0, 8), one six-bit scale (q3_k_scale) per 16 elements.
/// The low two bits lie as in q2_k; the third bit of element 128 h + 32 s + j is bit 4 h + s of
/// hmask[j].
template <>
struct Block<DType::kQ3K> {
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];
  f16 d;
};

/// w = d * scale * q - dmin * min, q in [0, 16), scale and min (k_scale_min) per 32 elements.
/// Sub-blocks 2 i and 2 i + 1 are the low and the high nibbles of qs[32 i .. 32 i + 32).
template <>
struct Block<DType::kQ4K> {
  f16 d;
  f16 dmin;
  uint8_t scales[12];
  uint8_t qs[128];
};

/// As q4_k with q in [0, 32): the fifth bit of element 32 i + j is bit i of qh[j].
template <>
struct Block<DType::kQ5K> {
  f16 d;
  f16 dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
};

/// w = d * scale * (q - 32), q in [0, 64), one scale per 16 elements. In each half h of 128,
/// element 32 s + j has its low four bits in nibble s / 2 of ql[64 h + 32 (s % 2) + j] and its high
/// two in bits [2 s, 2 s + 2) of qh[32 h + j].
template <>
struct Block<DType::kQ6K> {
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  f16 d;
};

/// w = d * (scale - 32) * kIq4NlValues[q], one six-bit scale per 32 elements: low four bits in
/// nibble i % 2 of scales_l[i / 2], high two in bits [2 i, 2 i + 2) of scales_h. Each run of 16
/// bytes of qs holds one sub-block as iq4_nl does.
template <>
struct Block<DType::kIq4Xs> {
  f16 d;
  uint16_t scales_h;
  uint8_t scales_l[4];
  uint8_t qs[128];
};

#define TW_CHECK_BLOCK(id, name, elements, bytes)         \
  static_assert(sizeof(Block<DType::id>) == bytes, name); \
  static_assert(alignof(Block<DType::id>) <= 2, name);
TW_FOR_EACH_BLOCK_DTYPE(TW_CHECK_BLOCK)
#undef TW_CHECK_BLOCK

struct ScaleMin {
  uint8_t scale;
  uint8_t min;
};

/// Scale and min of sub-block i in [0, 8) of q4_k and q5_k, both in [0, 64). Bytes 0-3 and 4-7
/// hold those of i < 4; the others have their low bits in bytes 8-11, their high bits on top.
constexpr ScaleMin k_scale_min(const uint8_t (&scales)[12], int i) {
  if (i < 4) return {uint8_t(scales[i] & 63), uint8_t(scales[i + 4] & 63)};
  return {uint8_t((scales[i + 4] & 15) | ((scales[i - 4] >> 6) << 4)),
          uint8_t((scales[i + 4] >> 4) | ((scales[i] >> 6) << 4))};
}

/// Scale of sub-block i in [0, 16) of q3_k, in [-32, 32). Nibble i / 8 of byte i % 8 holds the low
/// bits, bits [2 (i / 4), +2) of byte 8 + i % 4 the high bits.
constexpr int q3_k_scale(const uint8_t (&scales)[12], int i) {
  const int low = (scales[i % 8] >> (4 * (i / 8))) & 15;
  const int high = (scales[8 + i % 4] >> (2 * (i / 4))) & 3;
  return (low | (high << 4)) - 32;
}

/// Converts n elements of any dtype at `blocks` (any alignment) to float32 at `out`. For block
/// formats n is a multiple of the block's elements; integers and f64 round to nearest.
/// Throws kInvalidArgument when n is negative or no whole number of blocks.
TW_API void dequantize(DType dtype, const void* blocks, float* out, int64_t n);

/// Rounds n float32 values to q4_0, q4_1 or q8_0 at `blocks` (any alignment) as ggml's reference
/// does: the scale is the exact range of each block, the codes round to nearest. A block with a
/// NaN or Inf gives meaningless codes. Throws kUnsupported for any other dtype and
/// kInvalidArgument when n is negative or no whole number of blocks.
TW_API void quantize(DType dtype, const float* x, void* blocks, int64_t n);

}  // namespace tw
