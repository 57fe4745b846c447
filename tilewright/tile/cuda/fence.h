// Fences between the generic proxy (ordinary loads and stores) and the asynchronous one (TMA,
// wgmma), and the barriers of part of a block.
#pragma once

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

/// Ordinary stores of this thread to shared memory become visible to TMA and wgmma once it and
/// they have met at a barrier.
TW_PTX void fence_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Barrier `id` (1..15; 0 is __syncthreads) of `threads` threads, whole warps.
TW_PTX void sync_named(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
TW_PTX void arrive_named(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace tw::tile::cuda
