#pragma once

#include "tilewright/ops/core/unary_backward.h"

namespace tw::ops {

/// The gradient of silu_and_mul. `x_grad` may alias `x`.
struct SiluAndMulBackward : GatedBackwardOperator<SiluAndMulBackward, kernels::SiluSlope> {
  static constexpr Schema kSchema{
      "silu_and_mul_backward(grad: T[*, H], x: T[*, 2*H]) -> x_grad: T[*, 2*H]"};
  static double value(double x) { return x / (1 + std::exp(-x)); }
  static double slope(double x) { return silu_slope(x); }
};

}  // namespace tw::ops
