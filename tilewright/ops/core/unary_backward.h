// What the backwards of elementwise and gated operators share. `Def` gives kSchema and, in float64,
// the gradient or the function and its derivative.
#pragma once

#include <cmath>

#include "tilewright/kernels/gated_backward.h"
#include "tilewright/kernels/unary_backward.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

using TrainingCombos = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;

/// Cases of x_grad = f(grad, x), and of x_grad = f(grad, output).
inline constexpr Case kOfInputCases[] = {{"empty", "grad=[3,0] x=[3,0]"},
                                         {"one element", "grad=[1] x=[1]"},
                                         {"two blocks", "grad=[20001] x=[20001]"},
                                         {"spans and tail", "grad=[3,45] x=[3,45]"}};
inline constexpr Case kOfOutputCases[] = {{"empty", "grad=[3,0] output=[3,0]"},
                                          {"one element", "grad=[1] output=[1]"},
                                          {"two blocks", "grad=[20001] output=[20001]"},
                                          {"spans and tail", "grad=[3,45] output=[3,45]"}};
inline constexpr Case kOfInputWorkloads[] = {
    {"llama-3.1-8b/mlp", "grad=[2048,14336] x=[2048,14336]"}};
inline constexpr Case kOfOutputWorkloads[] = {
    {"llama-3.1-8b/mlp", "grad=[2048,14336] output=[2048,14336]"}};

/// x_grad = Def::define(grad, y) for y the input or the output of the operator.
template <class Def, class F>
struct UnaryBackwardOperator {
  using Types = TrainingCombos;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::UnaryBackward<T, F>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.x_grad.rows; ++r)
      for (int64_t c = 0; c < k.x_grad.cols; ++c)
        k.x_grad(r, c) = T(Def::define(double(k.grad(r, c)), double(k.y(r, c))));
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.x_grad, 3, 20);
  }
};

/// The gradient of out = f(first half of x) * second half, for Def::value and Def::slope.
template <class Def, class S>
struct GatedBackwardOperator {
  using Types = TrainingCombos;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::GatedBackward<T, S>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    const int64_t half = k.grad.cols;
    for (int64_t r = 0; r < k.grad.rows; ++r)
      for (int64_t c = 0; c < half; ++c) {
        const double grad = double(k.grad(r, c)), gate = double(k.x(r, c));
        const double up = double(k.x(r, c + half));
        k.x_grad(r, c) = T(grad * up * Def::slope(gate));
        k.x_grad(r, c + half) = T(grad * Def::value(gate));
      }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.grad, 5, 24);
  }

  static constexpr Case kEdgeCases[] = {{"no rows", "*=0 H=8"},
                                        {"no columns", "*=3 H=0"},
                                        {"one element", "*=1 H=1"},
                                        {"rows shorter than a span", "*=7 H=5"},
                                        {"two blocks", "*=2 H=20001"},
                                        {"spans and a tail", "*=2x3 H=45"},
                                        {"rows of several blocks", "*=3 H=776"}};
  static constexpr Case kWorkloads[] = {{"llama-3.1-8b/training", "*=512 H=14336"}};
};

/// Derivatives in float64.
inline double silu_slope(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return s * (1 + x * (1 - s));
}
inline double gelu_value(double x) {
  return 0.5 * x * std::erfc(-x * 0.70710678118654752);
}
inline double gelu_slope(double x) {
  return 0.5 * std::erfc(-x * 0.70710678118654752) + x * 0.39894228040143268 * std::exp(-x * x / 2);
}
inline double gelu_tanh_value(double x) {
  return 0.5 * x * (1 + std::tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
}
inline double gelu_tanh_slope(double x) {
  const double t = std::tanh(0.79788456080286536 * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.79788456080286536 * (1 + 3 * 0.044715 * x * x);
}

}  // namespace tw::ops
