// Stands in for tile/cuda/widen.h: four numbers of 8 bits as two pairs of f16.
#pragma once

#include "tilewright/tile/cuda/convert.h"

namespace tw::tile::cuda {

inline void spread(uint32_t bits, uint32_t high, uint32_t (&to)[2]) {
  to[0] = __byte_perm(bits, high, 0x4140);
  to[1] = __byte_perm(bits, high, 0x4342);
}
inline void subtract_offset(uint32_t& pair) {
  const auto less = [&](int half) {
    f16 x;
    x.bits = uint16_t(pair >> (16 * half));
    return float(x) - (1024 + 128);
  };
  pair = pack<f16>(less(0), less(1));
}

template <class U, class T>
struct FourNarrow {
  static void widen(uint32_t bits, uint32_t (&to)[2]) {
    const auto number = [&](int i) { return float(std::bit_cast<U>(uint8_t(bits >> (8 * i)))); };
    to[0] = pack<T>(number(0), number(1));
    to[1] = pack<T>(number(2), number(3));
  }
};

}  // namespace tw::tile::cuda
