#pragma once

#include "tilewright/ops/core/unary_backward.h"

namespace tw::ops {

/// The gradient of gelu_and_mul. `x_grad` may alias `x`.
struct GeluAndMulBackward : GatedBackwardOperator<GeluAndMulBackward, kernels::GeluSlope> {
  static constexpr Schema kSchema{
      "gelu_and_mul_backward(grad: T[*, H], x: T[*, 2*H]) -> x_grad: T[*, 2*H]"};
  static double value(double x) { return gelu_value(x); }
  static double slope(double x) { return gelu_slope(x); }
};

}  // namespace tw::ops
