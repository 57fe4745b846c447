// The global function around a kernel aggregate. Freestanding.
#pragma once

#include "tilewright/tile/cuda/grid_dependency.h"
#include "tilewright/tile/cuda/program.h"

namespace tw::tile::cuda {

/// Runs the instances of one phase that fall to this block, or to its cluster.
template <class Kernel>
__device__ __forceinline__ void run(const Kernel& kernel, const Launch& launch) {
  using P = program_t<Kernel>;
  __shared__ double reductions[32];
  int64_t first = blockIdx.x, step = gridDim.x;
  int rank = 0, ranks = 1, turns = 0;
  Exchange* exchange = nullptr;
#if __CUDA_ARCH__ >= 900
  if constexpr (P::kSpans > 0) {
    __shared__ Exchange shared_exchange;
    exchange = &shared_exchange;
    rank = cluster_rank();
    ranks = cluster_ranks();
    first = blockIdx.x / unsigned(ranks);
    step = gridDim.x / unsigned(ranks);
    if (ranks > 1) {
      if (threadIdx.x < 2) exchange->full[threadIdx.x].init(1);
      fence_barrier_init();
      cluster_sync();
    }
  }
#endif
  const int64_t slot = first * blockDim.y + threadIdx.y;
  char* const scratch = launch.scratch != nullptr
                            ? static_cast<char*>(launch.scratch) + slot * launch.scratch_bytes
                            : shared_scratch + int64_t{threadIdx.y} * launch.scratch_bytes;
  wait_for_grids_before();
  launch_grids_after();
  const int64_t shared = launch.scratch != nullptr ? 0 : launch.scratch_bytes;
  for (int64_t i = slot; i < launch.instances; i += step * blockDim.y) {
    const Program common{i, launch.phase, reductions, launch.workspace, scratch, shared};
    const auto run_as = [&](const auto& program) {
      kernel(program);
      program.sync();  // scratch is the next instance's
    };
    if constexpr (P::kSpans > 0)
      run_as(P{common, rank, ranks, exchange, &turns});
    else
      run_as(common);
  }
}

}  // namespace tw::tile::cuda
