// Stands in for tile/cuda/convert.h.
#pragma once

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

template <class T>
uint32_t pack(float low, float high) {
  return uint32_t{T(low).bits} | uint32_t{T(high).bits} << 16;
}
inline uint32_t pack_e4m3(float x0, float x1, float x2, float x3) {
  uint32_t out = 0;
  for (const float x : {x3, x2, x1, x0}) out = out << 8 | f8_e4m3fn(x).bits;
  return out;
}

}  // namespace tw::tile::cuda
