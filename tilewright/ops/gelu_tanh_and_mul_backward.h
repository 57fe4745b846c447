#pragma once

#include "tilewright/ops/core/unary_backward.h"

namespace tw::ops {

/// The gradient of gelu_tanh_and_mul. `x_grad` may alias `x`.
struct GeluTanhAndMulBackward
    : GatedBackwardOperator<GeluTanhAndMulBackward, kernels::GeluTanhSlope> {
  static constexpr Schema kSchema{
      "gelu_tanh_and_mul_backward(grad: T[*, H], x: T[*, 2*H]) -> x_grad: T[*, 2*H]"};
  static double value(double x) { return gelu_tanh_value(x); }
  static double slope(double x) { return gelu_tanh_slope(x); }
};

}  // namespace tw::ops
