// The global function around a kernel aggregate. Freestanding.
#pragma once

#include "tilewright/tile/cuda/grid_dependency.h"
#include "tilewright/tile/cuda/program.h"

namespace tw::tile::cuda {

/// Runs the instances of one phase that fall to this block.
template <class Kernel>
__device__ __forceinline__ void run(const Kernel& kernel, const Launch& launch) {
  __shared__ double reductions[32];
  const int64_t slot = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  char* const scratch = launch.scratch != nullptr
                            ? static_cast<char*>(launch.scratch) + slot * launch.scratch_bytes
                            : shared_scratch + int64_t{threadIdx.y} * launch.scratch_bytes;
  wait_for_grids_before();
  launch_grids_after();
  const int64_t shared = launch.scratch != nullptr ? 0 : launch.scratch_bytes;
  for (int64_t i = slot; i < launch.instances; i += int64_t{gridDim.x} * blockDim.y) {
    const Program program{i, launch.phase, reductions, launch.workspace, scratch, shared};
    kernel(program);
    program.sync();  // scratch is the next instance's
  }
}

}  // namespace tw::tile::cuda
