// What the host and the device agree on about matrix multiplication on Hopper: how a kernel is
// compiled and what it is given. Neutral.
#pragma once

#include "tilewright/core/types.h"
#include "tilewright/kernels/gemm_epilogue.h"
#include "tilewright/kernels/row_groups.h"
#include "tilewright/tile/cuda/tensor_map.h"

namespace tw::kernels {

/// What is fixed when the kernel is compiled.
struct GemmBuild {
  int tile_m, tile_n;
  int stages;                   // of the ring
  int staging;                  // bytes per consumer in which out is staged
  bool ping_pong = false;       // or cooperative
  int multicast = 1;            // blocks of a cluster, one above the other, that share b
  int split = 1;                // blocks of a cluster that share the k of one tile
  bool transposed_a = false;    // m runs along the rows of a in memory
  bool transposed_b = false;    // n runs along those of b
  bool transposed_out = false;  // m runs along those of out; needed by split
  bool grouped_k = false;       // see GemmArguments::k_groups; cooperative, both transposed

  /// In ping-pong, sums leave no registers for it.
  TW_INLINE constexpr bool may_adjust() const { return !ping_pong; }
  TW_INLINE constexpr int cluster() const { return multicast * split; }
  TW_INLINE constexpr int consumers() const { return tile_m > 64 || ping_pong ? 2 : 1; }
  TW_INLINE constexpr int threads() const { return 128 * (1 + consumers()); }
  TW_INLINE constexpr int shared_bytes() const {
    constexpr int kAlignment = 1024, kBarriers = 16;                // bytes; two barriers a stage
    const int of_consumer = staging + tile_n * int(sizeof(float));  // and terms of columns
    const int bytes = stages * ((tile_m + tile_n) * 128 + kBarriers) + consumers() * of_consumer;
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  /// Rows of transposed out that a block of the split has: blocks of eight.
  TW_INLINE constexpr int share() const { return tile_n / 8 > split ? tile_n / 8 / split * 8 : 8; }
  /// Rows of transposed out that are stored at once.
  TW_INLINE constexpr int box() const {
    return split == 1 ? tile_n : share() % 64 == 0 ? 64 : share();
  }
};

struct GemmPlace {
  int row, column, batch;  // counted in tiles
};

/// Columns of tiles within bands of `band` rows: the blocks running at one time then cover a region
/// about as high as wide, and both operands' parts of it stay in L2.
struct GemmOrder {
  int rows, columns;  // of tiles
  int band;
  int tiles;  // of all batches

  TW_INLINE GemmPlace place(int tile) const {
    const int per_batch = rows * columns, batch = tile / per_batch;
    const int in_batch = tile - batch * per_batch;
    const int first = in_batch / (band * columns) * band;
    const int high = rows - first < band ? rows - first : band;
    const int in_band = in_batch - first * columns;
    return {first + in_band % high, in_band / high, batch};
  }
};

/// Out where TMA cannot address it: rows that start at no multiple of 16 bytes, or columns apart.
template <class Out>
struct GemmScatter {
  Out* data = nullptr;  // null: out goes through its tensor map
  int64_t rows = 0, columns = 0;
  int64_t row_stride = 0, column_stride = 0, batch_stride = 0;
};

/// What of a is asked for before the kernel before has ended: the first bytes of each block's part
/// of its rows, [batch, m, k] with k innermost.
struct GemmAhead {
  const char* data = nullptr;
  int64_t row_stride = 0, batch_stride = 0;  // in bytes
  int rows = 0, row_bytes = 0;               // of a matrix
  int most = 0;                              // bytes of a row; 0: nothing
};

/// The part of k that a tile is the product of: whole blocks, of the last of which `last` values.
struct GemmDepth {
  int begin, blocks, last;
};

template <class Out, GemmEpilogue Epilogue>
struct GemmArguments {
  tile::cuda::TensorMap a;    // [batch, m, k]; k innermost, m if transposed
  tile::cuda::TensorMap b;    // [batch, n, k]; k innermost, n if transposed
  tile::cuda::TensorMap out;  // [batch, m, n]; n innermost, m if transposed
  GemmOrder order;
  int k_blocks;          // of 128 bytes
  int a_batch, b_batch;  // 1, or 0 if one matrix serves every batch
  /// If k is grouped: of each batch, the part of k that it multiplies, which only the device knows.
  RowGroups k_groups;
  int k;  // in all
  GemmScatter<Out> scatter;
  bool adds;  // to what out has; both are rounded before
  GemmAhead ahead;
  Epilogue epilogue;
};

}  // namespace tw::kernels
