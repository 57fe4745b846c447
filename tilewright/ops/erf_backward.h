#pragma once

#include "tilewright/ops/core/unary_backward.h"

namespace tw::ops {

/// The gradient of erf, from its input. `x_grad` may alias an argument.
struct ErfBackward : UnaryBackwardOperator<ErfBackward, kernels::OfInput<kernels::ErfSlope>> {
  static constexpr Schema kSchema{"erf_backward(grad: T[...], x: T[...]) -> x_grad: T[...]"};
  static double define(double grad, double x) {
    return grad * 1.1283791670955126 * std::exp(-x * x);
  }
  static constexpr auto& kEdgeCases = kOfInputCases;
  static constexpr auto& kWorkloads = kOfInputWorkloads;
};

}  // namespace tw::ops
