// ex2: powers of two by the special function unit, to 2^-22 of the result.
#pragma once

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

TW_PTX float exp2(float x) {
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}

}  // namespace tw::tile::cuda
