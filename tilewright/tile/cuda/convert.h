// cvt: two float32 to a pair of 16-bit floats in one register, the first in the low half.
#pragma once

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

template <class T>
TW_PTX uint32_t pack(float low, float high);

template <>
TW_PTX uint32_t pack<bf16>(float low, float high) {
  uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}
template <>
TW_PTX uint32_t pack<f16>(float low, float high) {
  uint32_t out;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}

}  // namespace tw::tile::cuda
