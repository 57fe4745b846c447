// Which build of the Hopper multiplication of signed bytes to run. Neutral host code: the model is
// that of gemm_policy_sm90.h, and so are its constants: 128 bytes of k take as many clocks whatever
// they hold. wgmma reads bytes k innermost alone, and out has 32 bits: it is not turned over.
#pragma once

#include "tilewright/kernels/gemm_policy_sm90.h"

namespace tw::kernels {

inline constexpr GemmShapeSm90 kGemmInt8Shapes[] = {
    {{.tile_m = 128, .tile_n = 256, .stages = 4, .staging = 16384}, 850, 1.9},
    {{.tile_m = 128, .tile_n = 192, .stages = 4, .staging = 24576, .ping_pong = true}, 640, 1.6},
    {{.tile_m = 128, .tile_n = 128, .stages = 6, .staging = 16384}, 450, 1.2},
    {{.tile_m = 64, .tile_n = 128, .stages = 8, .staging = 16384}, 300, 0.9},
    {{.tile_m = 64, .tile_n = 64, .stages = 12, .staging = 8192}, 230, 0.6},
};
inline constexpr int kGemmInt8ShapeCount =
    int(sizeof(kGemmInt8Shapes) / sizeof(kGemmInt8Shapes[0]));

/// The build with the shortest predicted time, for sizes > 0; the first of equals.
constexpr int choose_gemm_int8_sm90(const GemmSize& size, int multiprocessors) {
  int best = 0;
  for (int i = 1; i < kGemmInt8ShapeCount; ++i)
    if (gemm_time_us(kGemmInt8Shapes[i], size, multiprocessors) <
        gemm_time_us(kGemmInt8Shapes[best], size, multiprocessors))
      best = i;
  return best;
}

}  // namespace tw::kernels
