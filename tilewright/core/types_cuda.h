// A GPU's own instructions for the 16-bit floats of types.h, which differ in the bits of a NaN.
// Freestanding.
#pragma once

namespace tw::detail {

__device__ __forceinline__ float decode_f16(uint16_t bits) {
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(bits));
  return out;
}
__device__ __forceinline__ uint16_t encode_f16(float value) {
  uint16_t out;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out) : "f"(value));
  return out;
}
__device__ __forceinline__ uint16_t encode_bf16(float value) {
  uint16_t out;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out) : "f"(value));
  return out;
}

}  // namespace tw::detail
