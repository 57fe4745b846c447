#pragma once

#include <array>
#include <cmath>

#include "tilewright/kernels/unary_functions.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// A function of one number, elementwise; rounding is ties to even. `out` may alias `x`.
struct Unary {
  static constexpr Schema kSchema{
      "unary(x: T[...], function: abs|neg|sign|reciprocal|sqrt|rsqrt|floor|ceil|trunc|round|sin|"
      "cos|expm1|log1p) -> out: T[...]"};
  static constexpr Gradient kGradient{"unary_backward(grad=out.grad, x, function) -> x.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;
  static constexpr auto kDefinitions = std::to_array<double (*)(double)>(
      {[](double x) { return std::fabs(x); }, [](double x) { return -x; },
       [](double x) { return double(x > 0) - double(x < 0); }, [](double x) { return 1 / x; },
       [](double x) { return std::sqrt(x); }, [](double x) { return 1 / std::sqrt(x); },
       [](double x) { return std::floor(x); }, [](double x) { return std::ceil(x); },
       [](double x) { return std::trunc(x); }, [](double x) { return std::nearbyint(x); },
       [](double x) { return std::sin(x); }, [](double x) { return std::cos(x); },
       [](double x) { return std::expm1(x); }, [](double x) { return std::log1p(x); }});
  static_assert(kDefinitions.size() == kernels::UnaryFunctions::kCount);

  template <class T>
  using Kernel = kernels::UnaryChoice<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    const auto define = kDefinitions[size_t(k.function)];
    for (int64_t r = 0; r < k.out.rows; ++r)
      for (int64_t c = 0; c < k.out.cols; ++c) k.out(r, c) = T(define(double(k.x(r, c))));
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.out, 2, 16);  // about as many as a polynomial and a range reduction
  }

  static constexpr Case kEdgeCases[] = {{"empty", "x=[3,0] function=abs"},
                                        {"one element", "x=[1] function=neg"},
                                        {"sign", "x=[5] function=sign"},
                                        {"reciprocal", "x=[3,45] function=reciprocal"},
                                        {"root", "x=[3,45] function=sqrt"},
                                        {"reciprocal root", "x=[3,45] function=rsqrt"},
                                        {"floor", "x=[3,45] function=floor"},
                                        {"ceil", "x=[3,45] function=ceil"},
                                        {"trunc", "x=[3,45] function=trunc"},
                                        {"round", "x=[2,3,4,5] function=round"},
                                        {"cosine", "x=[3,45] function=cos"},
                                        {"exponential near 0", "x=[3,45] function=expm1"},
                                        {"logarithm near 1", "x=[3,45] function=log1p"},
                                        {"absolute", "x=[3,45] function=abs"},
                                        {"two blocks", "x=[20001] function=sin"}};
  static constexpr Case kWorkloads[] = {{"llama-3.1-8b/mlp", "x=[2048,14336] function=sin"},
                                        {"64 MiB", "x=[4096,4096] function=sqrt"}};
};

}  // namespace tw::ops
