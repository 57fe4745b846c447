#pragma once

#include "tilewright/ops/core/unary.h"

namespace tw::ops {

/// silu(first half of the row) * second half: SwiGLU without its matrix products. `out` may be the
/// first half of `x`.
struct SiluAndMul : GatedOperator<SiluAndMul, kernels::Silu> {
  static constexpr Schema kSchema{"silu_and_mul(x: T[*, 2*H]) -> out: T[*, H]"};
  static constexpr Gradient kGradient{"silu_and_mul_backward(grad=out.grad, x) -> x.grad"};
  static double define(double x) { return x / (1 + std::exp(-x)); }
};

}  // namespace tw::ops
