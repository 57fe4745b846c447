// Copies from global to shared memory that no register sees and no thread waits for until it says
// so. Freestanding.
#pragma once

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

/// kBytes, 4, 8 or 16, between addresses that are multiples of it.
template <int kBytes>
TW_PTX void copy_async(void* shared, const void* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(shared)),
               "l"(global), "n"(kBytes)
               : "memory");
}
/// The first `bytes` of kBytes, 4 or 16; zeros in place of the others, which are not read. 16 bytes
/// go past L1.
template <int kBytes>
TW_PTX void copy_async_or_zero(void* shared, const void* global, int bytes) {
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
                 "l"(global), "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(shared)),
                 "l"(global), "n"(kBytes), "r"(bytes)
                 : "memory");
}
/// The copies since the last call become a group.
TW_PTX void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits for all groups but the last kPending.
template <int kPending>
TW_PTX void wait_copy_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
/// Waits for the copies of this thread, which then sees what they brought.
TW_PTX void wait_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

/// Begins to bring bytes, of a number and at an address that are multiples of 16, into L2. Nothing
/// is read: they may be asked for before they are written.
TW_PTX void prefetch_l2([[maybe_unused]] const void* global, [[maybe_unused]] int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes) : "memory");
#endif
}
/// The same for the 128 bytes around an address. Of many short pieces it is the quicker one: bulk
/// copies of a multiprocessor go one after the other.
TW_PTX void prefetch_line_l2(const void* global) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(global) : "memory");
}

}  // namespace tw::tile::cuda
