// Numbers of 8 bits to 16-bit floats, sixteen at a time, times a factor.
#pragma once

#include "tilewright/tile/cuda/convert.h"

namespace tw::tile::cuda {

/// Four numbers of 8 bits as float32.
template <class U>
struct FourNarrow;

template <>
struct FourNarrow<int8_t> {
  /// By their place in the fraction of 2^23, which is exact and needs no conversion.
  TW_PTX static void widen(uint32_t bits, float (&to)[4]) {
    constexpr uint32_t kTwo23 = 0x4b000000;
    constexpr float kOffset = 8388608.0f + 128.0f;
    bits ^= 0x80808080u;
    to[0] = __uint_as_float(__byte_perm(bits, kTwo23, 0x7440)) - kOffset;
    to[1] = __uint_as_float(__byte_perm(bits, kTwo23, 0x7441)) - kOffset;
    to[2] = __uint_as_float(__byte_perm(bits, kTwo23, 0x7442)) - kOffset;
    to[3] = __uint_as_float(__byte_perm(bits, kTwo23, 0x7443)) - kOffset;
  }
};
template <>
struct FourNarrow<f8_e4m3fn> {
  TW_PTX static void widen(uint32_t bits, float (&to)[4]) {
    TW_UNROLL
    for (int i = 0; i < 2; ++i) {
      asm("{ .reg .b32 pair; .reg .b16 low, high;\n"
          "cvt.rn.f16x2.e4m3x2 pair, %2;\n"
          "mov.b32 {low, high}, pair;\n"
          "cvt.f32.f16 %0, low;\n"
          "cvt.f32.f16 %1, high; }"
          : "=f"(to[2 * i]), "=f"(to[2 * i + 1])
          : "h"(uint16_t(bits >> 16 * i)));
    }
  }
};

template <class T, class U>
TW_PTX void widen16(const uint4& from, float scale, uint4 (&to)[2]) {
  const uint32_t words[4] = {from.x, from.y, from.z, from.w};
  uint32_t pairs[8];
  TW_UNROLL
  for (int i = 0; i < 4; ++i) {
    float four[4];
    FourNarrow<U>::widen(words[i], four);
    pairs[2 * i] = pack<T>(four[0] * scale, four[1] * scale);
    pairs[2 * i + 1] = pack<T>(four[2] * scale, four[3] * scale);
  }
  to[0] = {pairs[0], pairs[1], pairs[2], pairs[3]};
  to[1] = {pairs[4], pairs[5], pairs[6], pairs[7]};
}

}  // namespace tw::tile::cuda
