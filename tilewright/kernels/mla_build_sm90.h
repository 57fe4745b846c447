// What the host and the device agree on about multi-head latent attention on Hopper. Neutral.
#pragma once

#include "tilewright/kernels/attention_build_sm90.h"

namespace tw::kernels {

/// What is fixed when the kernel is compiled.
struct MlaBuild {
  static constexpr int kRows = 64;     // of a tile: queries, or queries times heads
  static constexpr int kKeys = 64;     // of a block
  static constexpr int kColumns = 64;  // of a piece, 128 bytes
  static constexpr int kThreads = 384;

  int values;  // latent dims; what is missing reads as zero

  /// Pieces of a row: latent ones, and one of rotated dims.
  TW_INLINE constexpr int pieces() const { return values / kColumns + 1; }
  TW_INLINE constexpr int shared_bytes() const {
    constexpr int kPieceBytes = kKeys * kColumns * 2, kRest = 2048;
    return 3 * pieces() * kPieceBytes + kRest;
  }
};

inline constexpr MlaBuild kMlaBuilds[] = {{.values = 256}, {.values = 512}};
inline constexpr int kMlaBuildCount = int(sizeof(kMlaBuilds) / sizeof(kMlaBuilds[0]));

/// Keys in memory; the elements of a row are adjacent. Strides are in units of 16 bytes.
template <class T>
struct MlaRows {
  const T* data;
  uint32_t page_stride, row_stride, head_stride;
  int dims;
};

/// `q` and `k` are the latent dims; keys are values, so that there are no others.
template <class T>
struct MlaArguments : AttentionArguments<T> {
  tile::cuda::TensorMap q_pe, k_pe;  // the rotated dims, as q and k
  MlaRows<T> latent, rotated;        // the keys again

  /// Whether pages are too small for boxes.
  TW_INLINE bool gathers() const { return this->table && this->page_keys < kAttentionLeastBox; }
};

}  // namespace tw::kernels
