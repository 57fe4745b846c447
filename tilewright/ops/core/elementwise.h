// What elementwise operators share: dtypes, cost, and the cases that reach each branch of the
// skeleton.
#pragma once

#include <cmath>
#include <string>
#include <type_traits>

#include "tilewright/ops/core/operator.h"

namespace tw::ops {

using FloatCombos = Combos<Combo<float>, Combo<f16>, Combo<bf16>, Combo<double>>;
using NumberCombos =
    Combos<Combo<float>, Combo<f16>, Combo<bf16>, Combo<double>, Combo<int32_t>, Combo<int64_t>>;

/// Whether elements of T may be multiplied by a number: integers by integers.
template <class T>
Support supports_factor(std::string_view name, double factor) {
  constexpr double kMost = 9.2e18;  // less than 2^63
  if (!std::is_integral_v<T> || (std::abs(factor) < kMost && factor == std::floor(factor)))
    return Support::yes();
  return Support::no(std::string(name) + " = " + std::to_string(factor) +
                     " must be an integer, as the elements are");
}

/// `tensors` operands and results of out's size, `flops` operations per element.
template <class T>
Cost elementwise_cost(const Rows<T>& out, double tensors, double flops) {
  const double n = double(out.rows) * double(out.cols);
  return {.flops = flops * n, .bytes = double(sizeof(T)) * tensors * n};
}

inline constexpr Case kUnaryCases[] = {{"empty", "x=[3,0]"},        {"one element", "x=[1]"},
                                       {"partial span", "x=[5]"},   {"spans and tail", "x=[3,45]"},
                                       {"two blocks", "x=[20001]"}, {"rank 4", "x=[2,3,4,5]"}};
inline constexpr Case kUnaryWorkloads[] = {{"llama-3.1-8b/mlp", "x=[2048,14336]"},
                                           {"64 MiB", "x=[4096,4096]"}};
inline constexpr Case kBinaryCases[] = {{"empty", "x=[3,0] other=[3,0]"},
                                        {"one element", "x=[1] other=[1]"},
                                        {"spans and tail", "x=[3,45] other=[3,45]"},
                                        {"two blocks", "x=[20001] other=[20001]"},
                                        {"row broadcast", "x=[7,33] other=[33]"},
                                        {"aligned row broadcast", "x=[6,520] other=[520]"},
                                        {"column broadcast", "x=[7,33] other=[7,1]"},
                                        {"both broadcast", "x=[4,1,5] other=[3,1]"},
                                        {"scalar", "x=[2,3,9] other=[1]"}};
inline constexpr Case kBinaryWorkloads[] = {{"residual", "x=[2048,4096] other=[2048,4096]"},
                                            {"64 MiB", "x=[4096,4096] other=[4096,4096]"}};

}  // namespace tw::ops
