// How linear_quantized_gpu.h packs tokens: in tiles of eight rows, the columns of the matrix
// instruction, with a record for each block of 32 k.
#pragma once

#include "tilewright/kernels/linear_quantized_format.h"

namespace tw::kernels {

struct QuantizedTile {
  static constexpr int kRows = 8, kElements = kRows * kQuantizedBlock;  // of a record
  static constexpr int kMost = 4;                                       // tiles of a program
  static constexpr int kWarps = 8;                                      // of a program
  static constexpr int kStageBlocks = 4;  // of k, on their way together
  /// Of a program's stages: room for two of the largest, of q8_0 with two tiles of bf16 for each of
  /// four parts of k.
  static constexpr int kRingBytes = 72 << 10;

  /// Of a record: int8 [8][32], f32 d[8] and f32 d * sum(q) [2][8]; or bf16 or f32 [8][32].
  TW_INLINE static constexpr int record_bytes(QuantizedCompute compute) {
    if (compute == QuantizedCompute::kF32) return kElements * 4;
    if (compute == QuantizedCompute::kBf16) return kElements * 2;
    return kElements + kRows * (4 + 2 * 4);
  }
};

}  // namespace tw::kernels
