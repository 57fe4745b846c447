#pragma once

#include "tilewright/ops/core/unary.h"

namespace tw::ops {

/// gelu(first half of the row) * second half: GEGLU without its matrix products. `out` may be the
/// first half of `x`.
struct GeluAndMul : GatedOperator<GeluAndMul, kernels::Gelu> {
  static constexpr Schema kSchema{"gelu_and_mul(x: T[*, 2*H]) -> out: T[*, H]"};
  static constexpr Gradient kGradient{"gelu_and_mul_backward(grad=out.grad, x) -> x.grad"};
  static double define(double x) { return 0.5 * x * std::erfc(-x * 0.70710678118654752); }
};

}  // namespace tw::ops
