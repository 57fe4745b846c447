// Numbers of 8 bits as operands of f16.
#pragma once

#include "tilewright/tile/cuda/widen.h"

namespace tw::tile::cuda {

/// Four numbers of 8 bits as pairs of f16 for a matrix instruction. Of offset(), bytes 0 and 1, 2
/// and 3, each number is what a pair has times kUnit, less kOffset; every_other() has them as they
/// are, of bytes 0 and 2, 1 and 3.
template <class U>
struct HalfOperand {
  static constexpr float kUnit = 1, kOffset = 0;
  TW_PTX static void offset(uint32_t bits, uint32_t (&to)[2]) {
    FourNarrow<U, f16>::widen(bits, to);
  }
  TW_PTX static void every_other(uint32_t bits, uint32_t (&to)[2]) {
    FourNarrow<U, f16>::widen(__byte_perm(bits, 0, 0x3120), to);
  }
};
/// A byte alone is a number below the least normal one, which tensor cores take as any other.
template <>
struct HalfOperand<int8_t> {
  static constexpr float kUnit = 0x1p24F, kOffset = 128;
  TW_PTX static void offset(uint32_t bits, uint32_t (&to)[2]) { spread(bits ^ 0x80808080u, 0, to); }
  TW_PTX static void every_other(uint32_t bits, uint32_t (&to)[2]) {
    bits ^= 0x80808080u;
    to[0] = __byte_perm(bits, 0x64646464u, 0x4240);
    to[1] = __byte_perm(bits, 0x64646464u, 0x4341);
    TW_UNROLL
    for (uint32_t& pair : to) subtract_offset(pair);
  }
};

}  // namespace tw::tile::cuda
