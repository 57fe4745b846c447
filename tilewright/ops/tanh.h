#pragma once

#include "tilewright/ops/core/unary.h"

namespace tw::ops {

/// The hyperbolic tangent, elementwise, within 1.33 units in the last place of float32. `out` may
/// alias `x`.
struct Tanh : UnaryOperator<Tanh, kernels::Tanh> {
  static constexpr Schema kSchema{"tanh(x: T[...]) -> out: T[...]"};
  static constexpr Gradient kGradient{"tanh_backward(grad=out.grad, output=out) -> x.grad"};
  static double define(double x) { return std::tanh(x); }
};

}  // namespace tw::ops
