#pragma once

#include <cmath>

#include "tilewright/ops/core/binary.h"

namespace tw::ops {

/// A function of two numbers with NumPy broadcasting. floor_divide and remainder round as in
/// Python, towards minus infinity; prelu is x above 0 and x other below. `out` may alias an input
/// of its own shape.
struct Binary : BinaryOperator<Binary, kernels::BinaryFunctions> {
  static constexpr Schema kSchema{
      "binary(x: T[...], other: T[...], function: "
      "div|trunc_divide|floor_divide|remainder|pow|prelu) "
      "-> out: T[...]"};
  static constexpr Gradient kGradient{
      "binary_backward(grad=out.grad, x, other, function) -> x.grad, other.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  static double floor_divide(double x, double y) {
    const double rest = std::fmod(x, y), quotient = (x - rest) / y;
    if (y == 0) return x / y;
    const double down = rest != 0 && (rest < 0) != (y < 0) ? quotient - 1 : quotient;
    return down == 0 ? std::copysign(0.0, x / y) : std::nearbyint(down);
  }
  static double remainder(double x, double y) {
    const double rest = std::fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  }
  static constexpr auto kDefinitions = std::to_array<double (*)(double, double)>(
      {[](double x, double y) { return x / y; },
       [](double x, double y) { return std::trunc(x / y); }, floor_divide, remainder,
       [](double x, double y) { return std::pow(x, y); },
       [](double x, double y) { return x > 0 ? x : x * y; }});
  static_assert(kDefinitions.size() == kernels::BinaryFunctions::kCount);
  static double define(int function, double x, double y) {
    return kDefinitions[size_t(function)](x, y);
  }

  static constexpr Case kEdgeCases[] = {
      {"empty", "x=[3,0] other=[3,0] function=div"},
      {"divide", "x=[3,45] other=[3,45] function=div"},
      {"truncate", "x=[3,45] other=[3,45] function=trunc_divide"},
      {"floor", "x=[3,45] other=[45] function=floor_divide"},
      {"remainder", "x=[3,45] other=[3,1] function=remainder"},
      {"power", "x=[3,45] other=[3,45] function=pow"},
      {"slopes of channels", "x=[2,3,9] other=[3,1] function=prelu"},
      {"two blocks", "x=[20001] other=[20001] function=div"}};
  static constexpr Case kWorkloads[] = {
      {"residual", "x=[2048,4096] other=[2048,4096] function=div"},
      {"64 MiB", "x=[4096,4096] other=[4096,4096] function=prelu"}};
};

}  // namespace tw::ops
