// Additions to memory that the threads of an instance share: of whole numbers, whose sums are the
// same in any order. Freestanding.
#pragma once

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

/// Adds to a word of shared memory.
TW_PTX void add_shared(uint32_t* word, uint32_t value) {
  asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(shared_address(word)), "r"(value) : "memory");
}
/// The same; what it was before.
TW_PTX uint32_t fetch_add_shared(uint32_t* word, uint32_t value) {
  uint32_t before;
  asm volatile("atom.shared.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(shared_address(word)), "r"(value)
               : "memory");
  return before;
}

}  // namespace tw::tile::cuda

namespace tw::tile {

/// Adds to a number in an instance's scratch, which is shared memory or not; what it was before.
template <class P>
__device__ __forceinline__ uint32_t fetch_add(P p, uint32_t* to, uint32_t value) {
  return p.shared_scratch() > 0 ? cuda::fetch_add_shared(to, value) : atomicAdd(to, value);
}
template <class P>
__device__ __forceinline__ void add_to(P p, uint32_t* to, uint32_t value) {
  if (p.shared_scratch() > 0)
    cuda::add_shared(to, value);
  else
    atomicAdd(to, value);
}
/// Of 64 bits by halves: shared memory adds up words.
template <class P>
__device__ __forceinline__ void add_to(P p, uint64_t* to, uint64_t value) {
  uint32_t* const halves = reinterpret_cast<uint32_t*>(to);
  const uint32_t low = uint32_t(value), sum = fetch_add(p, halves, low) + low;
  const uint32_t high = uint32_t(value >> 32) + (sum < low ? 1u : 0u);
  if (high != 0) add_to(p, halves + 1, high);
}

}  // namespace tw::tile
