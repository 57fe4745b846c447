#pragma once

#include "tilewright/ops/core/unary_backward.h"

namespace tw::ops {

/// The gradient of relu, from its output: 0 where that is 0. `x_grad` may alias an argument.
struct ReluBackward : UnaryBackwardOperator<ReluBackward, kernels::ReluOfOutput> {
  static constexpr Schema kSchema{"relu_backward(grad: T[...], output: T[...]) -> x_grad: T[...]"};
  static double define(double grad, double output) { return output <= 0 ? 0 : grad; }
  static constexpr auto& kEdgeCases = kOfOutputCases;
  static constexpr auto& kWorkloads = kOfOutputWorkloads;
};

}  // namespace tw::ops
