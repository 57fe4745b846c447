// mbarrier: arrivals of threads and bytes of asynchronous copies, counted in shared memory.
//
// A barrier alternates between two phases. wait(phase) returns once the phase of that parity has
// completed; on a fresh barrier wait(1) therefore returns at once.
#pragma once

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

struct alignas(8) Mbarrier {
  uint64_t state;

  /// Before any use; make it visible with fence_barrier_init() and a barrier of the block.
  TW_PTX void init(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)),
                 "r"(arrivals)
                 : "memory");
  }
  TW_PTX void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
  }
  /// Arrives when this thread's copies so far (copy_async.h) have.
  TW_PTX void arrive_after_copies() {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(this))
                 : "memory");
  }
  /// Arrives at the barrier at the same place in the shared memory of block `rank` of the cluster.
  TW_PTX void arrive_at(int rank) {
    asm volatile(
        "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote]; }" ::"r"(shared_address(this)),
        "r"(rank)
        : "memory");
  }
  /// Arrives, and holds the phase open until `bytes` more have been copied.
  TW_PTX void arrive_expect(int bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)),
        "r"(bytes)
        : "memory");
  }
  TW_PTX void wait(uint32_t phase) {
    asm volatile(
        "{ .reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra.uni again;\n"
        "}" ::"r"(shared_address(this)),
        "r"(phase)
        : "memory");
  }
};

/// Makes initialised barriers visible to the copy engine and to the cluster.
TW_PTX void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

}  // namespace tw::tile::cuda
