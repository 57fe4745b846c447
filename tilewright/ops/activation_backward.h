#pragma once

#include <array>
#include <cmath>

#include "tilewright/kernels/activation_backward.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// The gradient of activation. `x_grad` may alias an argument.
struct ActivationBackward {
  static constexpr Schema kSchema{
      "activation_backward(grad: T[...], x: T[...], function: clamp|hardsigmoid|hardswish|mish|"
      "leaky_relu|elu|softplus|nan_to_num|round, a: f32 = 0, b: f32 = 0, c: f32 = 0) -> x_grad: "
      "T[...]"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  struct Parameters {
    double a, b;
  };
  static constexpr auto kDefinitions = std::to_array<double (*)(double, double, Parameters)>(
      {[](double g, double x, Parameters p) { return x >= p.a && x <= p.b ? g : 0; },
       [](double g, double x, Parameters) { return x > -3 && x < 3 ? g / 6 : 0; },
       [](double g, double x, Parameters) { return x <= -3  ? 0
                                                   : x >= 3 ? g
                                                            : g * (x / 3 + 0.5); },
       [](double g, double x, Parameters) {
         const double t = std::tanh(std::log1p(std::exp(x)));
         return g * (t + x * (1 - t * t) / (1 + std::exp(-x)));
       },
       [](double g, double x, Parameters p) { return x > 0 ? g : g * p.a; },
       [](double g, double x, Parameters p) { return g * p.b * (x > 0 ? 1 : p.a * std::exp(x)); },
       [](double g, double x, Parameters p) {
         return p.a * x > p.b ? g : g / (1 + std::exp(-p.a * x));
       },
       [](double g, double x, Parameters) { return g * double(std::isfinite(x)); },
       [](double, double, Parameters) { return 0.0; }});
  static_assert(kDefinitions.size() == kernels::ActivationSlopes::kCount);

  template <class T>
  using Kernel = kernels::ActivationBackward<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    const auto define = kDefinitions[size_t(k.function)];
    const Parameters p{k.a, k.b};
    for (int64_t r = 0; r < k.x_grad.rows; ++r)
      for (int64_t c = 0; c < k.x_grad.cols; ++c)
        k.x_grad(r, c) = T(define(double(k.grad(r, c)), double(k.x(r, c)), p));
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.x_grad, 3, 16);
  }

  static constexpr Case kEdgeCases[] = {
      {"empty", "grad=[3,0] x=[3,0] function=mish"},
      {"clamp", "grad=[3,45] x=[3,45] function=clamp a=-0.5 b=0.75"},
      {"crossed bounds", "grad=[5] x=[5] function=clamp a=1 b=-1"},
      {"hardsigmoid", "grad=[3,45] x=[3,45] function=hardsigmoid"},
      {"hardswish", "grad=[3,45] x=[3,45] function=hardswish"},
      {"mish", "grad=[3,45] x=[3,45] function=mish"},
      {"leaky_relu", "grad=[3,45] x=[3,45] function=leaky_relu a=0.25"},
      {"elu", "grad=[3,45] x=[3,45] function=elu a=1.5 b=0.5"},
      {"softplus", "grad=[3,45] x=[3,45] function=softplus a=2 b=1"},
      {"nan_to_num", "grad=[3,45] x=[3,45] function=nan_to_num a=1 b=2"},
      {"no digits", "grad=[3,45] x=[3,45] function=round"},
      {"two blocks", "grad=[20001] x=[20001] function=leaky_relu a=0.1"}};
  static constexpr Case kWorkloads[] = {
      {"llama-3.1-8b/mlp", "grad=[2048,14336] x=[2048,14336] function=mish"}};
};

}  // namespace tw::ops
