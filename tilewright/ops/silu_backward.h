#pragma once

#include "tilewright/ops/core/unary_backward.h"

namespace tw::ops {

/// The gradient of silu, from its input. `x_grad` may alias an argument.
struct SiluBackward : UnaryBackwardOperator<SiluBackward, kernels::OfInput<kernels::SiluSlope>> {
  static constexpr Schema kSchema{"silu_backward(grad: T[...], x: T[...]) -> x_grad: T[...]"};
  static double define(double grad, double x) { return grad * silu_slope(x); }
  static constexpr auto& kEdgeCases = kOfInputCases;
  static constexpr auto& kWorkloads = kOfInputWorkloads;
};

}  // namespace tw::ops
