// How blocks that share the k of a tile add their sums to out in turn.
#pragma once

#include "tilewright/kernels/gemm_scaled_build_sm90.h"
#include "tilewright/tile/cuda/bulk.h"
#include "tilewright/tile/cuda/fence.h"

namespace tw::kernels {

/// Of a consumer, a warpgroup with a named barrier.
struct ScaledGemmTurn {
  static constexpr int kThreads = 128;
  int* arrived;  // how many parts of the consumer's half of the tile are in out
  int barrier;

  /// Until the parts before are in out.
  TW_PTX void wait(int part) const {
    if (threadIdx.x % kThreads == 0) {
      while (tile::cuda::load_acquire(arrived) < part) {
      }
      tile::cuda::fence_async_global();
    }
    tile::cuda::sync_named(barrier, kThreads);
  }
  /// This one is.
  TW_PTX void pass() const {
    if (threadIdx.x % kThreads == 0) {
      tile::cuda::wait_stores_done<0>();
      tile::cuda::fence_async_global();
    }
    tile::cuda::sync_named(barrier, kThreads);
    if (threadIdx.x % kThreads == 0) tile::cuda::add_release(arrived, 1);
  }
};

}  // namespace tw::kernels
