#pragma once

#include "tilewright/ops/core/unary_backward.h"

namespace tw::ops {

/// The gradient of log, from its input. `x_grad` may alias an argument.
struct LogBackward : UnaryBackwardOperator<LogBackward, kernels::OfInput<kernels::LogSlope>> {
  static constexpr Schema kSchema{"log_backward(grad: T[...], x: T[...]) -> x_grad: T[...]"};
  static double define(double grad, double x) { return grad / x; }
  static constexpr auto& kEdgeCases = kOfInputCases;
  static constexpr auto& kWorkloads = kOfInputWorkloads;
};

}  // namespace tw::ops
