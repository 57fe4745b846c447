// What the host and the device agree on about the products of experts of a layer, of scaled e4m3
// operands, on Hopper: how a kernel is compiled and what it is given. Neutral.
#pragma once

#include "tilewright/kernels/gemm_grouped_build_sm90.h"
#include "tilewright/kernels/gemm_scaled_build_sm90.h"
#include "tilewright/kernels/row_groups.h"
#include "tilewright/tile/cuda/tensor_map.h"

namespace tw::kernels {

/// What is fixed when the kernel is compiled.
struct ScaledExpertsBuild {
  int rows;       // of a tile
  bool gated;     // a tile has the same columns of two matrices, which become half as many of out
  bool gathered;  // a row of the product has the row of a whose number is given
  bool wide;      // out is float32, otherwise bf16

  static constexpr int kColumns = 128;  // of b
  static constexpr ScaledGemmBuild tile(int rows) { return {rows, kColumns}; }

  TW_INLINE constexpr int threads() const { return 128 * (1 + rows / 64); }
  TW_INLINE constexpr int out_columns() const { return gated ? kColumns / 2 : kColumns; }
  /// Rows of b that are loaded at once.
  TW_INLINE constexpr int box_columns() const { return out_columns(); }
  TW_INLINE constexpr int stages() const {
    constexpr int kMost = 232448 - kEnd;  // bytes
    return kMost / stage_bytes();
  }
  TW_INLINE constexpr int shared_bytes() const {
    return (stages() * stage_bytes() + kEnd - 1) / kEnd * kEnd;
  }

 private:
  static constexpr int kEnd = 1024;  // bytes, a multiple of which memory is
  TW_INLINE constexpr int stage_bytes() const {
    constexpr int kBarriers = 16;
    return (rows + kColumns) * 128 + (rows + 4) * int(sizeof(float)) + kBarriers;
  }
};

/// A pair for each kind: for groups of many rows, and of few.
inline constexpr ScaledExpertsBuild kScaledExpertsBuilds[] = {
    {128, false, true, true},   {64, false, true, true},  {128, true, false, false},
    {64, true, false, false},   {128, true, true, false}, {64, true, true, false},
    {128, false, false, false}, {64, false, false, false}};
inline constexpr int kScaledExpertsBuildCount =
    int(sizeof(kScaledExpertsBuilds) / sizeof(kScaledExpertsBuilds[0]));

/// The build of a kind for `m` rows of so many groups; -1: none.
constexpr int choose_scaled_experts_sm90(bool gated, bool gathered, bool wide, int64_t m,
                                         int64_t groups) {
  const int rows = m <= 64 * groups ? 64 : 128;
  for (int i = 0; i < kScaledExpertsBuildCount; ++i) {
    const ScaledExpertsBuild& one = kScaledExpertsBuilds[i];
    if (one.rows == rows && one.gated == gated && one.gathered == gathered && one.wide == wide)
      return i;
  }
  return -1;
}

template <class Q, class Out>
struct ScaledExpertsArguments {
  tile::cuda::TensorMap a;  // [1, m, k], boxes of a tile's rows; unused if rows are gathered
  tile::cuda::TensorMap b;  // [group, n, k], or 2 n if gated
  View<const float, 2> a_scale;
  View<const float, 3> b_scale;
  RowGroups groups;  // no data: one of all rows
  GatheredRows<Q> gathered;
  ScatteredRows scattered;
  View<Out, 2> out;
  int column_tiles;
  int k_blocks;  // of 128 bytes
  int k_blocks_per_scale;
  int64_t columns_per_scale;
  int activation;      // a GatedActivation, if gated
  bool stores_eights;  // rows of out start at multiples of 8 bytes
};

}  // namespace tw::kernels
