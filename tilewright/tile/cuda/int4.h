// Pairs of 4-bit numbers as pairs of 16-bit floats: lop3 and a subtraction.
//
// A 16-bit float of 2^7 (bf16) or 2^10 (f16) has its last bit at 1: with a number in its low bits
// it is that much larger, exactly. After Kim et al., arXiv:2211.10017.
#pragma once

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

template <class T>
struct Int4Float;
template <>
struct Int4Float<bf16> {
  static constexpr uint32_t kBits = 0x4300, kBase = 128;  // the bits of 128
  TW_PTX static uint32_t subtract(uint32_t a, uint32_t b) {
    uint32_t out;
    asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
  }
};
template <>
struct Int4Float<f16> {
  static constexpr uint32_t kBits = 0x6400, kBase = 1024;
  TW_PTX static uint32_t subtract(uint32_t a, uint32_t b) {
    uint32_t out;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
  }
};

/// Two numbers, in the low four bits of each half, less the zero point, of which `zero` holds two
/// with kBase added. Other bits are ignored.
template <class T>
TW_PTX uint32_t int4_pair(uint32_t halves, uint32_t zero) {
  constexpr uint32_t kMask = 0x000f000f, kBits = Int4Float<T>::kBits << 16 | Int4Float<T>::kBits;
  constexpr int kAndOr = 0xea;  // of (a & b) | c, in one instruction
  uint32_t floats;
  asm("lop3.b32 %0, %1, %2, %3, %4;"
      : "=r"(floats)
      : "r"(halves), "n"(kMask), "r"(kBits), "n"(kAndOr));
  return Int4Float<T>::subtract(floats, zero);
}
/// The two numbers of byte `byte`, the low one first, as int4_pair takes them.
TW_PTX uint32_t int4_of_byte(uint32_t word, int byte) {
  return __byte_perm(word, word >> 4, uint32_t(byte) | uint32_t(byte + 4) << 8);
}

}  // namespace tw::tile::cuda
