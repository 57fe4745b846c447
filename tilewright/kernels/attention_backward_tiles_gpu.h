// Gradients of attention on a GPU in tiles: how the work is cut. In phase 0 a program has 64 rows
// of queries of a kv head, stacked, and goes over the keys they see, in phase 1 it has 64 keys and
// goes over the rows that see them: of either 64 dims of the gradients, for which weights are
// computed again. attention_backward_tile_gpu.h is the schedule.
#pragma once

#include "tilewright/kernels/attention_tiles_gpu.h"

namespace tw::kernels {

template <class K>
struct AttentionBackwardTiles : AttentionTileSizes {
  using T = typename K::Element;
  using E = attention_operand_t<T, T>;
  static constexpr int kUnit = 16 / int(sizeof(E));  // elements of a word
  static constexpr int kThreads = 128, kKeys = 32;   // of a block of the other side
  static constexpr int kWeightPitch = kKeys + 4;
  static constexpr int64_t kLeastRows = 16;

  AttentionShape shape;
  int64_t batch, queries, keys;  // of each sequence

  TW_INLINE explicit AttentionBackwardTiles(const K& kernel)
      : shape(kernel.shape()),
        batch(kernel.q.size(0)),
        queries(kernel.q.size(1)),
        keys(kernel.k.size(1)) {}

  TW_INLINE int64_t rows() const { return queries * shape.group(); }  // of a kv head
  /// Where a program has so many bytes of shared memory: 98 KiB, which every GPU has, are enough
  /// for 128 dims.
  TW_INLINE bool pay(int64_t shared_bytes) const {
    return rows() >= kLeastRows && keys >= kLeastRows && scratch_bytes() <= shared_bytes;
  }
  TW_INLINE static int64_t padded(int64_t dims) {
    return (dims + kColumns - 1) / kColumns * kColumns;
  }
  TW_INLINE static int64_t pitch(int64_t dims) { return padded(dims) + kUnit; }
  /// Of products.
  TW_INLINE static int64_t depth(int64_t dims) { return AttentionTiles<T, T>::padded(dims); }
  TW_INLINE int64_t most_dims() const {
    return shape.dims > shape.value_dims ? shape.dims : shape.value_dims;
  }

  TW_INLINE int64_t tiles(int phase) const {
    return ((phase == 0 ? rows() : keys) + kRows - 1) / kRows;
  }
  TW_INLINE int64_t slices(int phase) const {
    return padded(phase == 0 ? shape.dims : most_dims()) / kColumns;
  }

  /// A row of queries, or a key, or none: operands of scores and of their gradients, the keys that
  /// it sees, or itself as `first`.
  struct Row {
    const T *of_scores, *of_values;
    int64_t first, end;
    float lse, delta;
  };
  struct Call;
  TW_INLINE int64_t operand_elements() const {
    return kRows * (pitch(shape.dims) + pitch(shape.value_dims)) + kKeys * pitch(most_dims());
  }
  TW_INLINE int64_t scratch_bytes() const {
    return int64_t{sizeof(Call)} + operand_elements() * int64_t{sizeof(E)} +
           (kRows + 2 * kKeys) * int64_t{sizeof(Row)} +
           kRows * kWeightPitch * int64_t{sizeof(float)};
  }
  TW_INLINE tile::Plan plan() const {
    tile::Plan out = tile::plan_of(0, scratch_bytes()).over_threads(kThreads);
    out.phases = 2;
    for (int phase = 0; phase < 2; ++phase)
      out.grid[phase] = batch * shape.kv_heads * tiles(phase) * slices(phase);
    out.workspace_bytes = batch * shape.q_heads * queries * int64_t{sizeof(float)};
    return out;
  }
};

/// What the threads of a program share, in shared memory: registers are the sums'.
template <class K>
struct alignas(16) AttentionBackwardTiles<K>::Call {
  AttentionBackwardTiles tiles;
  K kernel;
  AttentionMask mask;
  float scale;
  float* deltas;  // grad · output of the sequence's rows, by heads
  int64_t batch, kv_head, first_row;
  int first_dim;
};

}  // namespace tw::kernels
