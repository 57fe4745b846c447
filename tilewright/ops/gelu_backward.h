#pragma once

#include "tilewright/ops/core/unary_backward.h"

namespace tw::ops {

/// The gradient of gelu, from its input. `x_grad` may alias an argument.
struct GeluBackward {
  static constexpr Schema kSchema{
      "gelu_backward(grad: T[...], x: T[...], approximate: none|tanh = none) -> x_grad: T[...]"};
  using Types = TrainingCombos;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::GeluBackward<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.x_grad.rows; ++r)
      for (int64_t c = 0; c < k.x_grad.cols; ++c) {
        const double x = double(k.x(r, c));
        const double slope = k.approximate ? gelu_tanh_slope(x) : gelu_slope(x);
        k.x_grad(r, c) = T(double(k.grad(r, c)) * slope);
      }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.x_grad, 3, 40);
  }

  static constexpr Case kEdgeCases[] = {
      {"empty", "grad=[3,0] x=[3,0]"},
      {"exact", "grad=[3,45] x=[3,45]"},
      {"exact, two blocks", "grad=[20001] x=[20001]"},
      {"tanh, two blocks", "grad=[20001] x=[20001] approximate=tanh"},
      {"tanh", "grad=[3,45] x=[3,45] approximate=tanh"}};
  static constexpr auto& kWorkloads = kOfInputWorkloads;
};

}  // namespace tw::ops
