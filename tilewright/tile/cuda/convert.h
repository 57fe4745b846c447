// cvt: two float32 to a pair of 16-bit floats in one register, the first in the low half; four to
// e4m3, the first in the low byte.
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

TW_PTX uint32_t pack_e4m3(float x0, float x1, float x2, float x3) {
  uint32_t out;
  asm("{ .reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "mov.b32 %0, {low, high}; }"
      : "=r"(out)
      : "f"(x0), "f"(x1), "f"(x2), "f"(x3));
  return out;
}

}  // namespace tw::tile::cuda
