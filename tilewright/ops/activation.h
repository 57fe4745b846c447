#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "tilewright/kernels/activation_functions.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// An activation with parameters a, b, c, elementwise. clamp: to [a, b]; leaky_relu: slope a; elu:
/// b (a (e^x - 1)) below 0, b x above; softplus: beta a, threshold b; nan_to_num: a for NaN, b and
/// c for the infinities; round: to a digits. `out` may alias `x`.
struct Activation {
  static constexpr Schema kSchema{
      "activation(x: T[...], function: clamp|hardsigmoid|hardswish|mish|leaky_relu|elu|softplus|"
      "nan_to_num|round, a: f32 = 0, b: f32 = 0, c: f32 = 0) -> out: T[...]"};
  static constexpr Gradient kGradient{
      "activation_backward(grad=out.grad, x, function, a, b, c) -> x.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  struct Parameters {
    double a, b, c;
  };
  static double clamp(double x, double low, double high) {
    return x != x ? x : std::min(std::max(x, low), high);
  }
  static constexpr auto kDefinitions = std::to_array<double (*)(double, Parameters)>(
      {[](double x, Parameters p) { return clamp(x, p.a, p.b); },
       [](double x, Parameters) { return clamp(x + 3, 0, 6) / 6; },
       [](double x, Parameters) { return x * clamp(x + 3, 0, 6) / 6; },
       [](double x, Parameters) { return x * std::tanh(std::log1p(std::exp(x))); },
       [](double x, Parameters p) { return x > 0 ? x : p.a * x; },
       [](double x, Parameters p) { return p.b * (x > 0 ? x : p.a * std::expm1(x)); },
       [](double x, Parameters p) {
         return p.a * x > p.b ? x : std::log1p(std::exp(p.a * x)) / p.a;
       },
       [](double x, Parameters p) {
         return x != x ? p.a : std::isinf(x) ? (x > 0 ? p.b : p.c) : x;
       },
       [](double x, Parameters p) {
         const double power = std::pow(10.0, p.a);
         return std::nearbyint(x * power) / power;
       }});
  static_assert(kDefinitions.size() == kernels::ActivationFunctions::kCount);

  template <class T>
  using Kernel = kernels::ActivationChoice<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    const auto define = kDefinitions[size_t(k.function)];
    const Parameters p{k.a, k.b, k.c};
    for (int64_t r = 0; r < k.out.rows; ++r)
      for (int64_t c = 0; c < k.out.cols; ++c) k.out(r, c) = T(define(double(k.x(r, c)), p));
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.out, 2, 16);
  }

  static constexpr Case kEdgeCases[] = {{"empty", "x=[3,0] function=mish"},
                                        {"clamp", "x=[3,45] function=clamp a=-0.5 b=0.75"},
                                        {"crossed bounds", "x=[5] function=clamp a=1 b=-1"},
                                        {"hardsigmoid", "x=[3,45] function=hardsigmoid"},
                                        {"hardswish", "x=[3,45] function=hardswish"},
                                        {"mish", "x=[3,45] function=mish"},
                                        {"leaky_relu", "x=[3,45] function=leaky_relu a=0.25"},
                                        {"elu", "x=[3,45] function=elu a=1.5 b=0.5"},
                                        {"softplus", "x=[3,45] function=softplus a=2 b=1"},
                                        {"nan_to_num", "x=[3,45] function=nan_to_num a=1 b=2"},
                                        {"no digits", "x=[3,45] function=round"},
                                        {"two blocks", "x=[20001] function=mish"}};
  static constexpr Case kWorkloads[] = {{"llama-3.1-8b/mlp", "x=[2048,14336] function=mish"},
                                        {"64 MiB", "x=[4096,4096] function=hardswish"}};
};

}  // namespace tw::ops
