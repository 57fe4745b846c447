#pragma once

#include "tilewright/ops/core/unary_backward.h"

namespace tw::ops {

/// The gradient of sigmoid, from its output. `x_grad` may alias an argument.
struct SigmoidBackward : UnaryBackwardOperator<SigmoidBackward, kernels::SigmoidOfOutput> {
  static constexpr Schema kSchema{
      "sigmoid_backward(grad: T[...], output: T[...]) -> x_grad: T[...]"};
  static double define(double grad, double output) { return grad * output * (1 - output); }
  static constexpr auto& kEdgeCases = kOfOutputCases;
  static constexpr auto& kWorkloads = kOfOutputWorkloads;
};

}  // namespace tw::ops
