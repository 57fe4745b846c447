// What builds of the matrix multiplication of float32 for any GPU there are, and what the host
// gives them and those of 16 bits (gemm_mma_build.h). Neutral host code.
#pragma once

#include "tilewright/core/view.h"
#include "tilewright/kernels/matmul_scale.h"
#include "tilewright/kernels/row_groups.h"

namespace tw::kernels {

/// A block computes tile_m x tile_n elements of out, a thread thread_m x thread_n of them, from
/// `stages` panels of `depth` values of k.
struct GemmStridedBuild {
  int tile_m, tile_n, thread_m, thread_n, depth, stages;
  int resident;  // blocks that a multiprocessor is to hold at once

  /// A row of a panel, in floats: threads that store neighbours along k meet different banks.
  static constexpr int pitch(int tile) { return tile + 4; }
  constexpr int threads() const { return tile_m / thread_m * (tile_n / thread_n); }
  constexpr int stage_bytes() const { return depth * (pitch(tile_m) + pitch(tile_n)) * 4; }
  constexpr int shared_bytes() const { return stages * stage_bytes() + (tile_m + tile_n) * 8; }
};

/// How an operand is read.
enum class GemmStridedLoads : int {
  kVectors,    // its rows are neighbours in memory: four of them, 16 bytes, at once
  kAlongK,     // by elements; its columns, k, are neighbours, and so are threads along it
  kAlongRows,  // by elements, by threads next to each other along its rows
};

/// Whether all rows of a batch begin at multiples of kCount elements.
template <int kCount, class T>
TW_INLINE bool starts_at_words(const Rows<T>& rows, int64_t batch_stride) {
  bool all = reinterpret_cast<uint64_t>(rows.data) % (kCount * sizeof(T)) == 0 &&
             batch_stride % kCount == 0;
  for (int d = 0; d < rows.lead; ++d) all = all && rows.lead_strides[d] % kCount == 0;
  return all;
}

template <class T>
struct GemmStridedOperand {
  Rows<const T> rows;  // of k elements
  int64_t batch_stride;
  GemmStridedLoads loads = GemmStridedLoads::kAlongRows;

  /// Whether rows are neighbours in memory, and columns are not.
  TW_INLINE bool lies_across() const {
    return rows.lead == 1 && rows.lead_strides[0] == 1 && rows.col_stride != 1;
  }
  /// Whether it can be read along memory in words of 16 bytes.
  TW_INLINE bool is_in_words() const {
    constexpr int kWord = 16 / int(sizeof(T));  // elements
    if (!lies_across()) return rows.col_stride == 1 && starts_at_words<kWord>(rows, batch_stride);
    return reinterpret_cast<uint64_t>(rows.data) % 16 == 0 && batch_stride % kWord == 0 &&
           rows.col_stride % kWord == 0;
  }
  /// The loads that suit the strides.
  TW_INLINE void choose() {
    if (lies_across() && is_in_words())
      loads = GemmStridedLoads::kVectors;
    else
      loads = rows.col_stride == 1 ? GemmStridedLoads::kAlongK : GemmStridedLoads::kAlongRows;
  }
};

template <class T>
struct GemmStridedArguments {
  GemmStridedOperand<T> a, b;         // [m, k], [n, k]
  Rows<const T> residual;             // [m, n], or absent; of matmul its addend
  int64_t residual_batch;             // stride of the batch
  View<const T, 1> bias;              // [n], or absent
  Rows<const float> row_scale;        // [m], or absent
  View<const float, 1> column_scale;  // [n], or absent
  Rows<T> out;                        // [m, n], may alias residual
  int64_t out_batch;                  // stride of the batch
  int64_t batch, k;
  int64_t k_part;  // values of k of a block: blockIdx.z of them come before; a multiple of `depth`
  float* parts;  // [gridDim.z, batch, m, parts_pitch()] sums of parts of k; absent if there is one
  MatmulScale scale;
  int activation;      // an Activation
  RowGroups k_groups;  // the part of k of each batch, or none: all; parts of it are not divided

  /// The values of k of a block.
  TW_INLINE RowGroups::Stretch part(int64_t group, int64_t z) const {
    if (k_groups.ends) return k_groups.group_inside(group, k);
    const int64_t end = (z + 1) * k_part;
    return {z * k_part, end < k ? end : k};
  }
  TW_INLINE int64_t parts_pitch() const { return (out.cols + 3) / 4 * 4; }
};

}  // namespace tw::kernels
