#pragma once

#include <array>
#include <cmath>

#include "tilewright/kernels/unary_functions_backward.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// The gradient of unary; 0 for what goes in steps. `x_grad` may alias an argument.
struct UnaryBackward {
  static constexpr Schema kSchema{
      "unary_backward(grad: T[...], x: T[...], function: abs|neg|sign|reciprocal|sqrt|rsqrt|floor|"
      "ceil|trunc|round|sin|cos|expm1|log1p) -> x_grad: T[...]"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;
  static double flat(double, double) { return 0; }
  static constexpr auto kDefinitions = std::to_array<double (*)(double, double)>(
      {[](double g, double x) { return g * (double(x > 0) - double(x < 0)); },
       [](double g, double) { return -g; }, flat, [](double g, double x) { return -g / (x * x); },
       [](double g, double x) { return g / (2 * std::sqrt(x)); },
       [](double g, double x) { return -0.5 * g * std::pow(1 / std::sqrt(x), 3); }, flat, flat,
       flat, flat, [](double g, double x) { return g * std::cos(x); },
       [](double g, double x) { return -g * std::sin(x); },
       [](double g, double x) { return g * std::exp(x); },
       [](double g, double x) { return g / (1 + x); }});
  static_assert(kDefinitions.size() == kernels::UnarySlopes::kCount);

  template <class T>
  using Kernel = kernels::UnaryChoiceBackward<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    const auto define = kDefinitions[size_t(k.function)];
    for (int64_t r = 0; r < k.x_grad.rows; ++r)
      for (int64_t c = 0; c < k.x_grad.cols; ++c)
        k.x_grad(r, c) = T(define(double(k.grad(r, c)), double(k.x(r, c))));
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.x_grad, 3, 16);
  }

  static constexpr Case kEdgeCases[] = {
      {"empty", "grad=[3,0] x=[3,0] function=abs"},
      {"one element", "grad=[1] x=[1] function=neg"},
      {"step", "grad=[5] x=[5] function=sign"},
      {"reciprocal", "grad=[3,45] x=[3,45] function=reciprocal"},
      {"root", "grad=[3,45] x=[3,45] function=sqrt"},
      {"reciprocal root", "grad=[3,45] x=[3,45] function=rsqrt"},
      {"steps", "grad=[3,45] x=[3,45] function=round"},
      {"sine", "grad=[2,3,4,5] x=[2,3,4,5] function=sin"},
      {"cosine", "grad=[3,45] x=[3,45] function=cos"},
      {"exponential near 0", "grad=[3,45] x=[3,45] function=expm1"},
      {"logarithm near 1", "grad=[3,45] x=[3,45] function=log1p"},
      {"two blocks", "grad=[20001] x=[20001] function=abs"}};
  static constexpr Case kWorkloads[] = {
      {"llama-3.1-8b/mlp", "grad=[2048,14336] x=[2048,14336] function=sin"}};
};

}  // namespace tw::ops
