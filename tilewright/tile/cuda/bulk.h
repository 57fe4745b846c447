// Bulk copies of contiguous bytes between shared and global memory, issued by one thread, and what
// orders them between blocks. Addresses and sizes are multiples of 16 bytes.
#pragma once

#include "tilewright/tile/cuda/mbarrier.h"

namespace tw::tile::cuda {

/// Global to shared memory; the bytes count at `full`.
TW_PTX void load_bulk(void* smem, const void* from, int bytes, Mbarrier& full) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(smem)),
      "l"(from), "r"(bytes), "r"(shared_address(&full))
      : "memory");
}
/// Shared to global memory, part of the group that commit_stores() closes (tma.h).
TW_PTX void store_bulk(void* to, const void* smem, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(smem)), "r"(bytes)
               : "memory");
}
/// The same, added to the float32 that are there.
TW_PTX void add_bulk(float* to, const void* smem, int bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
      "r"(shared_address(smem)), "r"(bytes)
      : "memory");
}
/// Waits until at most kPending groups of this thread have not been written.
template <int kPending>
TW_PTX void wait_stores_done() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}
/// Orders bulk copies with ordinary accesses to global memory.
TW_PTX void fence_async_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// A counter that other blocks wait for: what a thread has written before is seen by whoever reads
/// what it added.
TW_PTX int load_acquire(const int* from) {
  int out;
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(out) : "l"(from) : "memory");
  return out;
}
TW_PTX void add_release(int* to, int value) {
  asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

}  // namespace tw::tile::cuda
