// What the host and the device agree on about matrix multiplication of scaled 8-bit operands on
// Hopper: how a kernel is compiled and what it is given. Neutral.
#pragma once

#include "tilewright/kernels/gemm_scaled_walk_sm90.h"
#include "tilewright/kernels/row_groups.h"
#include "tilewright/tile/cuda/tensor_map.h"

namespace tw::kernels {

/// What is fixed when the kernel is compiled.
struct ScaledGemmBuild {
  int rows, columns;  // of a tile
  int split = 1;      // blocks of a cluster that share the k of one tile

  static constexpr int kSpan = 64;  // columns that have one scale for a block of k

  TW_INLINE constexpr int consumers() const { return rows / 64; }
  TW_INLINE constexpr int threads() const { return 128 * (1 + consumers()); }
  TW_INLINE constexpr int spans() const { return columns / kSpan; }
  /// Bytes in which a consumer stages half of its part of a tile of out.
  TW_INLINE constexpr int staging() const { return 64 * columns / 2 * 4; }
  TW_INLINE constexpr int stages() const {
    constexpr int kMost = 232448 - 1024, kBarriers = 16;  // bytes
    const int stage = (rows + columns) * 128 + scale_bytes() + kBarriers;
    return (kMost - consumers() * staging()) / stage;
  }
  TW_INLINE constexpr int shared_bytes() const {
    constexpr int kAlignment = 1024, kBarriers = 16;
    const int bytes =
        stages() * ((rows + columns) * 128 + scale_bytes() + kBarriers) + consumers() * staging();
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

 private:
  TW_INLINE constexpr int scale_bytes() const { return (rows + 4) * 4; }
};

inline constexpr ScaledGemmBuild kScaledGemmBuilds[] = {
    {128, 192}, {128, 128}, {128, 64}, {128, 64, 2}, {64, 128}, {64, 64}, {64, 64, 2}};
inline constexpr int kScaledGemmBuildCount =
    int(sizeof(kScaledGemmBuilds) / sizeof(kScaledGemmBuilds[0]));

struct ScaledGemmArguments {
  tile::cuda::TensorMap a;    // [1, m, k], boxes of a tile's rows
  tile::cuda::TensorMap b;    // [group, n, k], boxes of a tile's columns
  tile::cuda::TensorMap out;  // [1, m, n], boxes of 64 rows
  View<const float, 2> a_scale;
  View<const float, 3> b_scale;
  RowGroups groups;     // no data: one of all rows
  View<float, 2> rows;  // out
  int column_tiles;
  int k_blocks;  // of 128 bytes
  int k_blocks_per_scale;
  int64_t columns_per_scale;
  bool fetches_four;  // the scales for four blocks of k are 16 aligned bytes
  bool is_long;       // four blocks of k, from a multiple of four on, have the same scales
  bool stores_boxes;  // out is what TMA can address
  ScaledGemmCut cut;
  /// How many parts of each of its tiles are in out: [cut.tiles, consumers], 0 at first.
  int* arrived = nullptr;
  /// What is asked for before the kernel before has ended: so many bytes of each row of a block's
  /// part of b.
  int ahead = 0;
  const char* b_data = nullptr;
  int64_t b_row_stride = 0, b_row_bytes = 0;
};

}  // namespace tw::kernels
