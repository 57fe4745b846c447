#pragma once

#include "tilewright/ops/core/unary.h"

namespace tw::ops {

/// The logistic function 1 / (1 + e^-x), elementwise, within 2.77 units in the last place of
/// float32. `out` may alias `x`.
struct Sigmoid : UnaryOperator<Sigmoid, kernels::Sigmoid> {
  static constexpr Schema kSchema{"sigmoid(x: T[...]) -> out: T[...]"};
  static constexpr Gradient kGradient{"sigmoid_backward(grad=out.grad, output=out) -> x.grad"};
  static double define(double x) { return 1 / (1 + std::exp(-x)); }
};

}  // namespace tw::ops
