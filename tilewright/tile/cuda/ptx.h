// What every header of PTX instructions shares. PTX is written in the headers of this folder and
// nowhere else; each is named after a chapter of the PTX manual and holds thin wrappers, one
// instruction each. Freestanding: nvcc and NVRTC read the same text.
#pragma once

#include "tilewright/core/types.h"

#define TW_PTX __device__ __forceinline__

namespace tw::tile::cuda {

/// The 32-bit shared-space address that instructions take instead of a generic pointer.
TW_PTX uint32_t shared_address(const void* pointer) {
  return uint32_t(__cvta_generic_to_shared(pointer));
}

/// One thread of a converged warp, always the same one: the thread that issues TMA instructions.
TW_PTX bool elect_one() {
  uint32_t elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }"
               : "=r"(elected));
  return elected != 0;
}

/// Of the thread, in its warp.
TW_PTX int lane() {
  int out;
  asm("mov.u32 %0, %%laneid;" : "=r"(out));
  return out;
}

/// Tells the compiler that a value is the same in all lanes, so that it may live in a uniform
/// register.
TW_PTX int uniform(int x) {
  return __shfl_sync(0xffffffffu, x, 0);
}

}  // namespace tw::tile::cuda
