// Loads of 16 bytes that a lane may leave out: its registers then keep what they held, so that
// zeros need not be written again, and nothing branches.
#pragma once

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

/// From global memory, what one block reads once.
TW_PTX void load_once_if(bool wanted, uint4& to, const void* from) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %5, 0;\n"
      "@p ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4]; }"
      : "+r"(to.x), "+r"(to.y), "+r"(to.z), "+r"(to.w)
      : "l"(from), "r"(int(wanted)));
}
/// From shared memory.
TW_PTX void load_shared_if(bool wanted, uint4& to, uint32_t from) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %5, 0;\n"
      "@p ld.shared.v4.u32 {%0, %1, %2, %3}, [%4]; }"
      : "+r"(to.x), "+r"(to.y), "+r"(to.z), "+r"(to.w)
      : "r"(from), "r"(int(wanted)));
}

/// Begins to bring the 128 bytes around an address into L2. Nothing is read.
TW_PTX void prefetch_line(const void* at) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at) : "memory");
}

}  // namespace tw::tile::cuda
