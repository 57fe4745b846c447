// The CUDA program: one thread block works through an instance, lanes are its threads.
// Freestanding: compiles with nvcc and NVRTC.
#pragma once

#include "tilewright/tile/cuda/vector.h"
#include "tilewright/tile/program.h"

namespace tw::tile::cuda {

struct Program {
  /// A thread holds one element of a span.
  template <class C>
  using Vec = C;
  template <class C = float>
  static constexpr int kLanes = 1;

  int64_t index_;
  int phase_;
  double* shared_;  // one per warp, for reductions
  void* scratch_;   // private to the block, in global memory

  TW_INLINE int64_t index() const { return index_; }
  TW_INLINE int phase() const { return phase_; }
  TW_INLINE bool streaming() const { return false; }
  template <class T>
  TW_INLINE T* scratch() const {
    return static_cast<T*>(scratch_);
  }
  __device__ __forceinline__ static int thread() { return int(threadIdx.x); }
  __device__ __forceinline__ static int threads() { return int(blockDim.x); }
};

/// Runs instance blockIdx.x of a kernel aggregate. `scratch` holds scratch_bytes of its plan for
/// each block.
template <class Kernel>
__device__ __forceinline__ void run(const Kernel& kernel, int phase, char* scratch = nullptr,
                                    int64_t scratch_bytes = 0) {
  __shared__ double shared[32];
  kernel(Program{int64_t(blockIdx.x), phase, shared, scratch + blockIdx.x * scratch_bytes});
}

}  // namespace tw::tile::cuda
