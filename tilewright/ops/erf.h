#pragma once

#include "tilewright/ops/core/unary.h"

namespace tw::ops {

/// The error function, elementwise, within 1.05 units in the last place of float32. `out` may
/// alias `x`.
struct Erf : UnaryOperator<Erf, kernels::Erf> {
  static constexpr Schema kSchema{"erf(x: T[...]) -> out: T[...]"};
  static constexpr Gradient kGradient{"erf_backward(grad=out.grad, x) -> x.grad"};
  static double define(double x) { return std::erf(x); }
};

}  // namespace tw::ops
