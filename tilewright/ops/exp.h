#pragma once

#include "tilewright/ops/core/unary.h"

namespace tw::ops {

/// e^x, elementwise, within 1.02 units in the last place of float32. `out` may alias `x`.
struct Exp : UnaryOperator<Exp, kernels::Exp> {
  static constexpr Schema kSchema{"exp(x: T[...]) -> out: T[...]"};
  static constexpr Gradient kGradient{"mul(x=out.grad, other=out) -> x.grad"};
  static double define(double x) { return std::exp(x); }
};

}  // namespace tw::ops
