#pragma once

#include "tilewright/ops/core/unary_backward.h"

namespace tw::ops {

/// The gradient of tanh, from its output. `x_grad` may alias an argument.
struct TanhBackward : UnaryBackwardOperator<TanhBackward, kernels::TanhOfOutput> {
  static constexpr Schema kSchema{"tanh_backward(grad: T[...], output: T[...]) -> x_grad: T[...]"};
  static double define(double grad, double output) { return grad * (1 - output * output); }
  static constexpr auto& kEdgeCases = kOfOutputCases;
  static constexpr auto& kWorkloads = kOfOutputWorkloads;
};

}  // namespace tw::ops
