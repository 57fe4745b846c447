#pragma once

#include <array>
#include <cmath>

#include "tilewright/kernels/binary_backward.h"
#include "tilewright/ops/binary.h"

namespace tw::ops {

/// The gradients of binary and extremum, in the shape of their result: what was broadcast is not
/// summed yet. Of two equal numbers the larger, or smaller, is half each.
struct BinaryBackward {
  static constexpr Schema kSchema{
      "binary_backward(grad: T[...], x: T[...], other: T[...], function: "
      "div|trunc_divide|floor_divide|remainder|pow|prelu|maximum|minimum) "
      "-> x_grad: T[...], other_grad: T[...]?"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  struct Grads {
    double x, other;
  };
  static Grads of_larger(double g, double x, double y) {
    if (x == y) return {g / 2, g / 2};
    return {x < y ? 0 : g, y < x ? 0 : g};  // all to both where one is NaN
  }
  static Grads of_power(double g, double x, double y) {
    return {y == 0 ? 0 : g * y * std::pow(x, y - 1),
            x == 0 && y >= 0 ? 0 : g * std::pow(x, y) * std::log(x)};
  }
  static constexpr auto kDefinitions = std::to_array<Grads (*)(double, double, double)>(
      {[](double g, double x, double y) -> Grads { return {g / y, -g * x / (y * y)}; },
       [](double, double, double) -> Grads { return {0, 0}; },
       [](double, double, double) -> Grads { return {0, 0}; },
       [](double g, double x, double y) -> Grads { return {g, -g * Binary::floor_divide(x, y)}; },
       of_power,
       [](double g, double x, double y) -> Grads { return {x > 0 ? g : g * y, x > 0 ? 0 : g * x}; },
       of_larger, [](double g, double x, double y) { return of_larger(g, -x, -y); }});
  static_assert(kDefinitions.size() == kernels::BinaryGrads::X::kCount);

  template <class T>
  using Kernel = kernels::BinaryBackward<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    const auto define = kDefinitions[size_t(k.function)];
    for (int64_t r = 0; r < k.x_grad.rows; ++r)
      for (int64_t c = 0; c < k.x_grad.cols; ++c) {
        const Grads made = define(double(k.grad(r, c)), double(k.x(r, c)), double(k.other(r, c)));
        k.x_grad(r, c) = T(made.x);
        if (k.other_grad) k.other_grad(r, c) = T(made.other);
      }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.x_grad, k.other_grad ? 5 : 4, 6);
  }

  static constexpr Case kEdgeCases[] = {
      {"empty", "grad=[3,0] x=[3,0] other=[3,0] function=div +other_grad"},
      {"first of a quotient", "grad=[3,45] x=[3,45] other=[3,45] function=div"},
      {"quotient", "grad=[3,45] x=[3,45] other=[3,45] function=div +other_grad"},
      {"steps", "grad=[3,45] x=[3,45] other=[3,45] function=trunc_divide +other_grad"},
      {"remainder", "grad=[3,45] x=[3,45] other=[3,1] function=remainder +other_grad"},
      {"power", "grad=[3,45] x=[3,45] other=[45] function=pow +other_grad"},
      {"slopes of channels", "grad=[2,3,9] x=[2,3,9] other=[3,1] function=prelu +other_grad"},
      {"larger", "grad=[4,3,5] x=[4,1,5] other=[3,1] function=maximum +other_grad"},
      {"smaller", "grad=[3,45] x=[3,45] other=[45] function=minimum +other_grad"},
      {"two blocks", "grad=[20001] x=[20001] other=[20001] function=maximum +other_grad"}};
  static constexpr Case kWorkloads[] = {
      {"residual", "grad=[2048,4096] x=[2048,4096] other=[2048,4096] function=div +other_grad"}};
};

}  // namespace tw::ops
