// wgmma: the matrix instructions of a warpgroup (four warps), asynchronous, operands in swizzled
// shared memory, float32 sums in registers.
//
// A wgmma of m64 x N leaves in thread t of warp w the sums of rows 16 w + t / 4 (+ 8) and columns
// 8 i + 2 (t % 4) (+ 1): d[4 i + 2 * (row + 8) + (column + 1)].
#pragma once

#include "tilewright/tile/cuda/wgmma_shapes.h"

namespace tw::tile::cuda {

/// How the operand lies in shared memory, rows of 128 bytes in the 128-byte swizzle, eight rows
/// (1024 bytes) to an atom. `leading_bytes` separates spans of 128 bytes along m or n of an operand
/// whose m or n runs along the rows (kTransposed); it says nothing for the others.
TW_PTX uint64_t operand(const void* smem, int leading_bytes = 16) {
  constexpr uint64_t kSwizzle128 = uint64_t(1) << 62, kAtomBytes = 1024;
  return kSwizzle128 | (kAtomBytes >> 4) << 32 | uint64_t(leading_bytes >> 4) << 16 |
         ((shared_address(smem) & 0x3ffffu) >> 4);
}
/// The operand `bytes` further on.
TW_PTX uint64_t advance(uint64_t operand, int bytes) {
  return operand + uint64_t(bytes >> 4);
}

/// Before the first wgmma that touches registers ordinary instructions have written.
TW_PTX void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
TW_PTX void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most kPending groups are in flight.
template <int kPending>
TW_PTX void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// Keeps the compiler from moving uses of the sums across a wait.
template <int kCount>
TW_PTX void pin(float (&sums)[kCount]) {
  TW_UNROLL
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}
template <int kCount>
TW_PTX void pin(int32_t (&sums)[kCount]) {
  TW_UNROLL
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(sums[i])::"memory");
}

}  // namespace tw::tile::cuda
