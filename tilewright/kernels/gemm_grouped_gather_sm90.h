// The producer of a grouped product whose rows are gathered (gemm_grouped_sm90.h,
// gemm_scaled_experts_sm90.h): TMA brings the weights, all threads of the warpgroup copy the rows,
// eight of them 128 bytes of one, and arrive at the stage's barrier with what they copied. Copies
// write as ordinary stores do: who meets them there fences before wgmma reads.
#pragma once

#include "tilewright/kernels/gemm_grouped_build_sm90.h"
#include "tilewright/tile/cuda/copy_async.h"

namespace tw::kernels {

/// Of tiles of up to kMostUnits units of rows.
template <class T, int kMostUnits>
struct GroupedGatherSm90 {
  static constexpr int kThreads = 128, kChunks = 8, kChunk = 16 / int(sizeof(T));
  static constexpr int kUnit = kThreads / kChunks;  // a thread has a row of each

  const GatheredRows<T>& given;
  uint32_t rows[kMostUnits];  // where the thread's rows of a begin, in chunks of 16 bytes

  TW_PTX static int chunk() { return int(threadIdx.x) % kChunks; }
  TW_PTX static int first_row() { return int(threadIdx.x) / kChunks; }

  /// The `units` units of rows of a tile.
  TW_PTX void open(const GroupedGemmPlace& place, int units) {
    const int last = int(given.numbers.size(0)) - 1;
    TW_UNROLL
    for (int u = 0; u < kMostUnits; ++u) {
      if (u >= units) break;
      const int row = place.row + u * kUnit + first_row();
      int number = given.numbers(row < last ? row : last);
      if (uint32_t(number) >= uint32_t(given.rows)) {
        if (row < place.row + place.rows) __trap();
        number = 0;  // of no group: multiplied in vain
      }
      rows[u] = uint32_t(number) * given.row_chunks;
    }
  }
  /// 128 bytes of each, from column k on, to a stage. The thread has yet to arrive.
  TW_PTX void copy(char* stage, int units, int k) const {
    const int column = k + chunk() * kChunk, left = (given.k - column) * int(sizeof(T));
    const int bytes = left < 0 ? 0 : left < 16 ? left : 16;
    const uint4* const from = reinterpret_cast<const uint4*>(given.from + column);
    char* const to = stage + first_row() * 128 + (chunk() ^ first_row() % 8) * 16;
    TW_UNROLL
    for (int u = 0; u < kMostUnits; ++u) {
      if (u < units)
        tile::cuda::copy_async_or_zero<16>(to + u * kUnit * 128, from + rows[u], bytes);
    }
  }
};

}  // namespace tw::kernels
