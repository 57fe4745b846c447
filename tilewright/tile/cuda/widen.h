// Numbers of 8 bits to 16-bit floats, eight or sixteen at a time: as they are, or times a factor.
#pragma once

#include "tilewright/tile/cuda/convert.h"

namespace tw::tile::cuda {

/// Four numbers of 8 bits: to pairs of T, exactly; to float32.
template <class U, class T>
struct FourNarrow;

/// Bytes 0 and 1, 2 and 3 of `bits` become the lower halves of 16-bit numbers, `high` the upper.
TW_PTX void spread(uint32_t bits, uint32_t high, uint32_t (&to)[2]) {
  to[0] = __byte_perm(bits, high, 0x4140);
  to[1] = __byte_perm(bits, high, 0x4342);
}

/// A pair of f16 less 2^10 + 2^7.
TW_PTX void subtract_offset(uint32_t& pair) {
  asm("sub.f16x2 %0, %0, %1;" : "+r"(pair) : "r"(0x64806480u));
}

template <class T>
struct FourNarrow<int8_t, T> {
  /// By their place in a fraction: of 2^10 in f16; of 2^7 in bf16, where the sign chooses whether
  /// 2^7 is subtracted or 2^8.
  TW_PTX static void widen(uint32_t bits, uint32_t (&to)[2]) {
    if constexpr (sizeof(T) == 2 && tile::same_type<T, f16>) {
      spread(bits ^ 0x80808080u, 0x64646464u, to);
      TW_UNROLL
      for (uint32_t& pair : to) subtract_offset(pair);
    } else {
      spread(bits, 0x43434343u, to);
      TW_UNROLL
      for (uint32_t& pair : to)
        asm("sub.bf16x2 %0, %1, %2;"
            : "=r"(pair)
            : "r"(pair & 0xff7fff7fu), "r"(pair & 0xff80ff80u));
    }
  }
  /// By their place in the fraction of 2^23, which needs no conversion.
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
template <class T>
struct FourNarrow<f8_e4m3fn, T> {
  TW_PTX static void widen(uint32_t bits, uint32_t (&to)[2]) {
    if constexpr (tile::same_type<T, f16>) {
      asm("{ .reg .b16 low, high;\n"
          "mov.b32 {low, high}, %2;\n"
          "cvt.rn.f16x2.e4m3x2 %0, low;\n"
          "cvt.rn.f16x2.e4m3x2 %1, high; }"
          : "=r"(to[0]), "=r"(to[1])
          : "r"(bits));
    } else {
      float four[4];
      widen(bits, four);
      to[0] = pack<T>(four[0], four[1]);
      to[1] = pack<T>(four[2], four[3]);
    }
  }
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

/// Eight; kScaled: times `scale`.
template <class T, class U, bool kScaled>
TW_PTX uint4 widen8(const uint2& from, float scale) {
  const uint32_t words[2] = {from.x, from.y};
  uint32_t pairs[2][2];
  TW_UNROLL
  for (int i = 0; i < 2; ++i) {
    if constexpr (kScaled) {
      float four[4];
      FourNarrow<U, T>::widen(words[i], four);
      pairs[i][0] = pack<T>(four[0] * scale, four[1] * scale);
      pairs[i][1] = pack<T>(four[2] * scale, four[3] * scale);
    } else {
      FourNarrow<U, T>::widen(words[i], pairs[i]);
    }
  }
  return {pairs[0][0], pairs[0][1], pairs[1][0], pairs[1][1]};
}
/// Sixteen.
template <class T, class U, bool kScaled>
TW_PTX void widen16(const uint4& from, float scale, uint4 (&to)[2]) {
  to[0] = widen8<T, U, kScaled>({from.x, from.y}, scale);
  to[1] = widen8<T, U, kScaled>({from.z, from.w}, scale);
}

}  // namespace tw::tile::cuda
