// What a global function does with a kernel aggregate. Freestanding.
#pragma once

#include "tilewright/tile/cuda/grid_dependency.h"
#include "tilewright/tile/cuda/with_rows.h"

namespace tw::tile::cuda {

/// Runs the instances of one phase that fall to this block, or to its cluster, as programs P.
template <class P, class Kernel>
__device__ __forceinline__ void run_as(const Kernel& kernel, const Launch& launch,
                                       double* reductions, Exchange* exchange) {
  int64_t first = blockIdx.x, step = gridDim.x;
  int rank = 0, ranks = 1, turns = 0;
#if __CUDA_ARCH__ >= 900
  if constexpr (P::kSpans > 0) {
    rank = cluster_rank();
    ranks = cluster_ranks();
    first = blockIdx.x / unsigned(ranks);
    step = gridDim.x / unsigned(ranks);
  }
#endif
  const int64_t slot = first * blockDim.y + threadIdx.y;
  char* const scratch = launch.scratch != nullptr
                            ? static_cast<char*>(launch.scratch) + slot * launch.scratch_bytes
                            : shared_scratch + int64_t{threadIdx.y} * launch.scratch_bytes;
  const int64_t shared = launch.scratch != nullptr ? 0 : launch.scratch_bytes;
  for (int64_t i = slot; i < launch.instances; i += step * blockDim.y) {
    const Program common{i, launch.phase, reductions, launch.workspace, scratch, shared};
    const auto run_program = [&](const auto& program) {
      kernel(program);
      program.sync();  // scratch is the next instance's
    };
    if constexpr (P::kSpans > 0)
      run_program(P{program_t<Kernel>{common, rank, ranks, exchange, &turns}});
    else
      run_program(P{common});
  }
}

/// A kernel's entry for one of its ways.
template <int kWay, class Kernel>
__device__ __forceinline__ void run(const Kernel& kernel, const Launch& launch) {
  using P = program_t<Kernel>;
  __shared__ double reductions[32];
  Exchange* exchange = nullptr;
#if __CUDA_ARCH__ >= 900
  if constexpr (P::kSpans > 0) {
    __shared__ Exchange shared_exchange;
    exchange = &shared_exchange;
    if (cluster_ranks() > 1) {
      if (threadIdx.x < 2) exchange->full[threadIdx.x].init(1);
      fence_barrier_init();
      cluster_sync();
    }
  }
#endif
  wait_for_grids_before();
  launch_grids_after();
  constexpr int kWays = ways_of_variant<Kernel>();
  if constexpr (ways_of<Kernel>() == 1)
    run_as<P>(kernel, launch, reductions, exchange);
  else
    run_as<OnWay<P, kWay % kWays, kWay / kWays>>(kernel, launch, reductions, exchange);
}

}  // namespace tw::tile::cuda
