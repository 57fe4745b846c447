// Counters of keys in shared memory, on CUDA: of a stable sort by threads that have parts of what
// is sorted. Freestanding.
#pragma once

#include "tilewright/tile/cuda/combine_before.h"

namespace tw::tile {

/// One more of a key, by any threads of a block at once.
__device__ __forceinline__ void count_key(int* counters, int key) {
  atomicAdd(counters + key, 1);
}
/// The place of a whole warp's keys, which begins at the key's counter, lane after lane; the
/// counter is that of this warp, and moves on. Of a key below 0: -1.
__device__ __forceinline__ int place_key(int* counters, int key) {
  const unsigned same = __match_any_sync(0xffffffffu, key);
  const unsigned lanes_before = (1u << (threadIdx.x & 31u)) - 1;
  const int before = __popc(same & lanes_before);
  const int place = key >= 0 ? counters[key] + before : -1;
  __syncwarp();
  if (key >= 0 && before == 0) counters[key] += __popc(same);
  __syncwarp();
  return place;
}

}  // namespace tw::tile
