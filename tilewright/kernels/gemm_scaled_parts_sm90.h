// How the sums of a tile whose k several blocks share pass to one of them, through memory.
#pragma once

#include "tilewright/kernels/gemm_scaled_build_sm90.h"
#include "tilewright/tile/cuda/bulk.h"
#include "tilewright/tile/cuda/fence.h"

namespace tw::kernels {

/// Of a consumer, a warpgroup with a named barrier; kSums of each thread.
template <int kConsumers, int kSums>
struct ScaledGemmParts {
  static constexpr int kThreads = 128;
  const ScaledGemmArguments& given;
  int consumer, barrier;

  /// For the block with the last part.
  TW_PTX void leave(const float (&sums)[kSums]) const {
    const int index = int(blockIdx.x) * kConsumers + consumer;
    float4* const to = of(index);
    TW_UNROLL
    for (int i = 0; i < kSums / 4; ++i)
      to[i * kThreads] = {sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]};
    tile::cuda::sync_named(barrier, kThreads);
    if (threadIdx.x % kThreads == 0) tile::cuda::add_release(given.arrived + index, 1);
  }
  /// Adds those of the blocks with the parts before.
  TW_PTX void take(float (&sums)[kSums]) const {
    for (int block = int(blockIdx.x) % given.cut.tiles; block < int(blockIdx.x);
         block += given.cut.tiles)
      take(block * kConsumers + consumer, sums);
  }

 private:
  TW_PTX void take(int index, float (&sums)[kSums]) const {
    const float4* const from = of(index);
    if (threadIdx.x % kThreads == 0) {
      while (tile::cuda::load_acquire(given.arrived + index) == 0) {
      }
    }
    tile::cuda::sync_named(barrier, kThreads);
    TW_UNROLL
    for (int i = 0; i < kSums / 4; ++i) {
      const float4 more = from[i * kThreads];
      sums[4 * i] += more.x, sums[4 * i + 1] += more.y;
      sums[4 * i + 2] += more.z, sums[4 * i + 3] += more.w;
    }
  }

  TW_PTX float4* of(int index) const {
    return reinterpret_cast<float4*>(given.part_sums) + int64_t{index} * (kSums / 4 * kThreads) +
           threadIdx.x % kThreads;
  }
};

}  // namespace tw::kernels
