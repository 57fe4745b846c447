#pragma once

#include "tilewright/ops/core/unary.h"

namespace tw::ops {

/// max(x, 0), elementwise; NaN stays NaN. `out` may alias `x`.
struct Relu : UnaryOperator<Relu, kernels::Relu> {
  static constexpr Schema kSchema{"relu(x: T[...]) -> out: T[...]"};
  static constexpr Gradient kGradient{"relu_backward(grad=out.grad, output=out) -> x.grad"};
  static double define(double x) { return x < 0 ? 0 : x; }
};

}  // namespace tw::ops
