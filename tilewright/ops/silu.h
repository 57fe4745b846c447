#pragma once

#include "tilewright/ops/core/unary.h"

namespace tw::ops {

/// x times the logistic function of x. Elfwing et al., arXiv:1702.03118. `out` may alias `x`.
struct Silu : UnaryOperator<Silu, kernels::Silu> {
  static constexpr Schema kSchema{"silu(x: T[...]) -> out: T[...]"};
  static constexpr Gradient kGradient{"silu_backward(grad=out.grad, x) -> x.grad"};
  static double define(double x) { return x / (1 + std::exp(-x)); }
};

}  // namespace tw::ops
