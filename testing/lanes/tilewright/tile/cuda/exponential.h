// Stands in for tile/cuda/exponential.h.
#pragma once

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

inline float exp2(float x) {
  return std::exp2(x);
}

}  // namespace tw::tile::cuda
