#pragma once

#include <algorithm>

#include "tilewright/ops/core/binary.h"

namespace tw::ops {

/// The larger or the smaller of two numbers, with NumPy broadcasting; NaN if one is, and +0 is
/// larger than -0 (IEEE 754-2019, maximum and minimum). `out` may alias an input of its own shape.
struct Extremum : BinaryOperator<Extremum, kernels::ExtremumFunctions> {
  static constexpr Schema kSchema{
      "extremum(x: T[...], other: T[...], function: maximum|minimum) -> out: T[...]"};
  static constexpr Gradient kGradient{
      "binary_backward(grad=out.grad, x, other, function) -> x.grad, other.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>, Combo<int32_t>, Combo<int64_t>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class Exact>
  static Exact define(int function, Exact x, Exact y) {
    if (x != x || y != y) return x != x ? x : y;
    if (x == 0 && y == 0) return function == 0 ? x + y : -(-x - y);  // by their signs
    return function == 0 ? std::max(x, y) : std::min(x, y);
  }

  static constexpr Case kEdgeCases[] = {
      {"empty", "x=[3,0] other=[3,0] function=maximum"},
      {"larger", "x=[3,45] other=[3,45] function=maximum"},
      {"smaller", "x=[3,45] other=[45] function=minimum"},
      {"both broadcast", "x=[4,1,5] other=[3,1] function=minimum"},
      {"two blocks", "x=[20001] other=[20001] function=maximum"}};
  static constexpr Case kWorkloads[] = {
      {"residual", "x=[2048,4096] other=[2048,4096] function=maximum"},
      {"64 MiB", "x=[4096,4096] other=[4096,4096] function=maximum"}};
};

}  // namespace tw::ops
