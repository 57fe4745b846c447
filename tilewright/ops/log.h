#pragma once

#include "tilewright/ops/core/unary.h"

namespace tw::ops {

/// The natural logarithm, elementwise; -inf at 0, NaN below. `out` may alias `x`.
struct Log : UnaryOperator<Log, kernels::Log> {
  static constexpr Schema kSchema{"log(x: T[...]) -> out: T[...]"};
  static constexpr Gradient kGradient{"log_backward(grad=out.grad, x) -> x.grad"};
  static double define(double x) { return std::log(x); }
};

}  // namespace tw::ops
