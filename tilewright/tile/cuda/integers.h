// Whole numbers of 4 or 8 bits as pairs of 16-bit floats, exactly, without a conversion.
//
// A 16-bit float of 2^7 (bf16) or 2^10 (f16) has its last bit at 1: with a number in its low bits
// it is that much larger. After Kim et al., arXiv:2211.10017. bf16 has room for seven bits: the
// sign of 8 is added by a multiplication.
#pragma once

#include "tilewright/tile/compute_type.h"
#include "tilewright/tile/cuda/convert.h"

namespace tw::tile::cuda {

template <class T>
struct PairMath;
template <>
struct PairMath<bf16> {
  static constexpr uint32_t kRaised = 0x43004300;  // the bits of two kOrigin
  static constexpr int kOrigin = 128;
  TW_PTX static uint32_t subtract(uint32_t a, uint32_t b) {
    uint32_t out;
    asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
  }
  TW_PTX static uint32_t fma(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t out;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
    return out;
  }
};
template <>
struct PairMath<f16> {
  static constexpr uint32_t kRaised = 0x64006400;
  static constexpr int kOrigin = 1024;
  TW_PTX static uint32_t subtract(uint32_t a, uint32_t b) {
    uint32_t out;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
  }
};

/// (a & mask) ^ bits, in one instruction: nvcc makes two of constants.
template <uint32_t kMask, uint32_t kBits>
TW_PTX uint32_t and_xor(uint32_t a) {
  constexpr int kTable = 0x6a;
  uint32_t out;
  asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(out) : "r"(a), "n"(kMask), "r"(kBits), "n"(kTable));
  return out;
}

/// Numbers of kBits bits in 32-bit words, the first one lowest: of 4 bits without sign, of 8 with
/// one. An eight of them, adjacent, is kWords words. Of `base` see raised().
template <class T, int kBits>
struct Integers;

template <class T>
struct Integers<T, 4> {
  static constexpr int kWords = 1;
  static constexpr int kNoZero = 8;  // the zero point where none is given
  /// What a zero point is as one of the halves of `base`.
  TW_PTX static float raised(int zero) { return float(PairMath<T>::kOrigin + zero); }

  /// Four pairs, in the order in which ordered() has operands of 16 bits.
  TW_PTX static void eight(const uint32_t* words, uint32_t base, uint32_t (&pairs)[4]) {
    TW_UNROLL
    for (int i = 0; i < 4; ++i) pairs[i] = pair(words[0] >> (4 * i), base);
  }
  TW_PTX static uint4 ordered(const uint4& x) {  // of 0 1, 2 3, 4 5, 6 7
    constexpr uint32_t kLow = 0x5410, kHigh = 0x7632;
    return {__byte_perm(x.x, x.z, kLow), __byte_perm(x.x, x.z, kHigh), __byte_perm(x.y, x.w, kLow),
            __byte_perm(x.y, x.w, kHigh)};
  }
  /// Numbers 2 i and 2 i + 1 of an eight.
  TW_PTX static uint32_t two(const uint32_t* words, int i, uint32_t base) {
    const uint32_t word = words[0];
    return pair(__byte_perm(word, word >> 4, uint32_t(i) | uint32_t(i + 4) << 8), base);
  }

 private:
  /// Those in the low bits of each half. Other bits are ignored.
  TW_PTX static uint32_t pair(uint32_t halves, uint32_t base) {
    return PairMath<T>::subtract(and_xor<0x000f000f, PairMath<T>::kRaised>(halves), base);
  }
};

template <class T>
struct Integers<T, 8> {
  static constexpr int kWords = 2;
  static constexpr int kNoZero = 0;
  TW_PTX static float raised(int zero) {
    return float(same_type<T, bf16> ? zero : PairMath<T>::kOrigin + kSign + zero);
  }

  TW_PTX static void eight(const uint32_t* words, uint32_t base, uint32_t (&pairs)[4]) {
    TW_UNROLL
    for (int i = 0; i < 4; ++i)
      pairs[i] = pair(__byte_perm(words[i / 2], 0, i % 2 == 0 ? 0x0100 : 0x0302), base);
  }
  TW_PTX static uint4 ordered(const uint4& x) { return x; }
  TW_PTX static uint32_t two(const uint32_t* words, int i, uint32_t base) {
    return pair(__byte_perm(words[0], words[1], uint32_t(2 * i) | uint32_t(2 * i + 1) << 8), base);
  }

 private:
  static constexpr int kSign = 128;
  TW_PTX static uint32_t pair(uint32_t halves, uint32_t base) {
    if constexpr (same_type<T, bf16>) {
      constexpr uint32_t kHalf = 0x3f003f00, kMinus256 = 0xc380c380;  // a half; with a sign, one
      const uint32_t low = and_xor<0x007f007f, PairMath<bf16>::kRaised>(halves);
      const uint32_t sign = and_xor<0x00800080, kHalf>(halves);
      return PairMath<bf16>::subtract(PairMath<bf16>::fma(sign, kMinus256, low), base);
    } else {
      constexpr uint32_t kFlipped = PairMath<f16>::kRaised | kSign << 16 | kSign;
      return PairMath<f16>::subtract(and_xor<0x00ff00ff, kFlipped>(halves), base);
    }
  }
};

}  // namespace tw::tile::cuda
