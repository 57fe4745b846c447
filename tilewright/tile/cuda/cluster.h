// Thread block clusters: barriers and the shared memory of the other blocks.
#pragma once

#include "tilewright/tile/cuda/mbarrier.h"

namespace tw::tile::cuda {

TW_PTX int cluster_rank() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

TW_PTX int cluster_ranks() {
  int ranks;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(ranks));
  return ranks;
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

/// Stores 4, 8 or 16 bytes at the place of `local` in the shared memory of block `rank`, and counts
/// them on the barrier there: no fence, which would wait for all stores to memory.
template <class T>
TW_PTX void send_cluster(T* local, const T& value, Mbarrier* barrier, int rank) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
  if constexpr (sizeof(T) == 4)
    asm volatile(
        "{ .reg .b32 remote, full;\n"
        "mapa.shared::cluster.u32 remote, %0, %2; mapa.shared::cluster.u32 full, %1, %2;\n"
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [remote], %3, [full]; }" ::
            "r"(shared_address(local)),
        "r"(shared_address(barrier)), "r"(rank), "r"(__builtin_bit_cast(uint32_t, value))
        : "memory");
  else if constexpr (sizeof(T) == 16) {
    const auto words = __builtin_bit_cast(ulonglong2, value);
    asm volatile(
        "{ .reg .b32 remote, full;\n"
        "mapa.shared::cluster.u32 remote, %0, %2; mapa.shared::cluster.u32 full, %1, %2;\n"
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [remote], {%3, %4}, "
        "[full]; }" ::"r"(shared_address(local)),
        "r"(shared_address(barrier)), "r"(rank), "l"(words.x), "l"(words.y)
        : "memory");
  } else
    asm volatile(
        "{ .reg .b32 remote, full;\n"
        "mapa.shared::cluster.u32 remote, %0, %2; mapa.shared::cluster.u32 full, %1, %2;\n"
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [remote], %3, [full]; }" ::
            "r"(shared_address(local)),
        "r"(shared_address(barrier)), "r"(rank), "l"(__builtin_bit_cast(uint64_t, value))
        : "memory");
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
