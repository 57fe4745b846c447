// Stands in for tile/cuda/cluster.h: blocks that run at the same time.
#pragma once

#include <cstring>

#include "tilewright/tile/cuda/mbarrier.h"

namespace tw::testing {

struct Cluster {
  std::barrier<> meeting;  // of all threads
  std::vector<char*> shared;
};

}  // namespace tw::testing

inline tw::testing::Cluster* this_cluster = nullptr;  // one at a time

namespace tw::tile::cuda {

inline int cluster_rank() {
  return int(blockIdx.x % this_cluster->shared.size());
}
inline void cluster_sync() {
  this_cluster->meeting.arrive_and_wait();
}
template <class T>
void send_cluster(T* local, const T& value, Mbarrier* barrier, int rank) {
  const auto& shared = this_cluster->shared;
  char* const from = shared[size_t(cluster_rank())];
  const auto there = [&](void* at) {
    return shared[size_t(rank)] + (static_cast<char*>(at) - from);
  };
  std::memcpy(there(local), &value, sizeof value);
  reinterpret_cast<Mbarrier*>(there(barrier))->copied(int(sizeof value));
}

}  // namespace tw::tile::cuda
