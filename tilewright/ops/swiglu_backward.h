#pragma once

#include "tilewright/kernels/swiglu.h"
#include "tilewright/ops/core/unary_backward.h"

namespace tw::ops {

/// The gradients of swiglu. `gate_grad` may alias `gate`, `up_grad` may alias `up`.
struct SwigluBackward {
  static constexpr Schema kSchema{
      "swiglu_backward(grad: T[...], gate: T[...], up: T[...]) -> "
      "gate_grad: T[...], up_grad: T[...]"};
  using Types = TrainingCombos;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::SwigluBackward<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.grad.rows; ++r)
      for (int64_t c = 0; c < k.grad.cols; ++c) {
        const double grad = double(k.grad(r, c)), gate = double(k.gate(r, c));
        const double up = double(k.up(r, c));
        k.gate_grad(r, c) = T(grad * up * silu_slope(gate));
        k.up_grad(r, c) = T(grad * gate / (1 + std::exp(-gate)));
      }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.grad, 5, 24);
  }

  static constexpr Case kEdgeCases[] = {
      {"empty", "grad=[3,0] gate=[3,0] up=[3,0]"},
      {"two blocks", "grad=[20001] gate=[20001] up=[20001]"},
      {"blocks of more spans", "grad=[1050008] gate=[1050008] up=[1050008]"},
      {"column broadcast", "grad=[7,33] gate=[7,33] up=[7,1]"},
      {"spans and tail", "grad=[3,45] gate=[3,45] up=[3,45]"}};
  static constexpr Case kWorkloads[] = {
      {"llama-3.1-8b/training", "grad=[512,14336] gate=[512,14336] up=[512,14336]"}};
};

}  // namespace tw::ops
