#pragma once

#include "tilewright/ops/core/unary.h"

namespace tw::ops {

/// gelu(first half of the row, by its tanh approximation) * second half. `out` may be the first
/// half of `x`.
struct GeluTanhAndMul : GatedOperator<GeluTanhAndMul, kernels::GeluTanh> {
  static constexpr Schema kSchema{"gelu_tanh_and_mul(x: T[*, 2*H]) -> out: T[*, H]"};
  static constexpr Gradient kGradient{"gelu_tanh_and_mul_backward(grad=out.grad, x) -> x.grad"};
  static double define(double x) {
    return 0.5 * x * (1 + std::tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
  }
};

}  // namespace tw::ops
