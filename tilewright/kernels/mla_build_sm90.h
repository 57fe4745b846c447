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
  static constexpr int kUnit = 16;  // latents of 8 bits that are widened at a time
  /// Scales of what is about to be widened, where latents have 8 bits; behind everything else.
  static constexpr int kScaleBytes = 4096;

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
  uint32_t page_stride, row_stride, head_stride;  // pages: or batch entries
  int dims;

  template <class V>
  TW_INLINE const V* at(int page, int row, int head) const {
    const uint32_t units =
        uint32_t(page) * page_stride + uint32_t(row) * row_stride + uint32_t(head) * head_stride;
    return reinterpret_cast<const V*>(reinterpret_cast<const char*>(data) + uint64_t(units) * 16);
  }
};

/// What latents of 8 bits are multiplied with: one for each key, head and part of the dims. Strides
/// count elements.
struct MlaScales {
  const float* data;                              // null: 1
  uint32_t page_stride, row_stride, head_stride;  // as MlaRows
  uint32_t part_stride;
  int unit_shift;  // units of a part: a power of two

  TW_INLINE const float* at(int page, int row, int head, uint32_t unit) const {
    return data + (uint32_t(page) * page_stride + uint32_t(row) * row_stride +
                   uint32_t(head) * head_stride + (unit >> unit_shift) * part_stride);
  }
};

/// Whether all warps load, each lane parts of rows: latents are to be widened, or pages are too
/// small for boxes.
TW_INLINE constexpr bool mla_gathers(int latent_bytes, bool paged, int64_t page_keys) {
  return latent_bytes == 1 || (paged && page_keys < kAttentionLeastBox);
}

/// `q` and `k` are the latent dims, the keys' of type U; they are values, so that there are no
/// others.
template <class T, class U = T>
struct MlaArguments : AttentionArguments<T> {
  tile::cuda::TensorMap q_pe, k_pe;  // the rotated dims, as q and k
  MlaRows<U> latent;                 // the keys again
  MlaRows<T> rotated;
  MlaScales scales;
  // Where latents are widened: row r of a block is in the page r >> page_shift of its pages, and
  // there r & row_mask after the first.
  int page_shift;
  uint32_t row_mask;

  TW_INLINE bool gathers() const {
    return mla_gathers(sizeof(U), bool(this->table), this->page_keys);
  }
};

}  // namespace tw::kernels
