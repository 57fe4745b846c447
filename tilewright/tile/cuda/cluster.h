// Thread block clusters: barriers and the shared memory of the other blocks.
#pragma once

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

TW_PTX int cluster_rank() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// The two halves of a barrier of all threads of the cluster. Stores before the first half are
/// visible after the second.
TW_PTX void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}
TW_PTX void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
TW_PTX void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

/// Four floats at the place of `local` in the shared memory of block `rank`.
TW_PTX void load_cluster(float (&out)[4], const void* local, int rank) {
  asm volatile(
      "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [remote]; }"
      : "=f"(out[0]), "=f"(out[1]), "=f"(out[2]), "=f"(out[3])
      : "r"(shared_address(local)), "r"(rank)
      : "memory");
}

}  // namespace tw::tile::cuda
