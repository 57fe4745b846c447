#pragma once

#include <type_traits>

#include "tilewright/kernels/compare.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// Whether two numbers are in a relation, with NumPy broadcasting. NaN is unequal to all; what is
/// not 0 is true.
struct Compare {
  static constexpr Schema kSchema{
      "compare(x: T[...], other: T[...], relation: eq|ne|lt|le|gt|ge|and|or) -> out: bool[...]"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>, Combo<int32_t>, Combo<int64_t>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::Compare<T>;

  template <class Exact>
  static bool define(int relation, Exact x, Exact y) {
    const bool answers[] = {x == y, x != y,           x<y, x <= y, x> y,
                            x >= y, x != 0 && y != 0, x != 0 || y != 0};
    return answers[relation];
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    using Exact = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
    for (int64_t r = 0; r < k.out.rows; ++r)
      for (int64_t c = 0; c < k.out.cols; ++c)
        k.out(r, c) = define(k.relation, Exact(k.x(r, c)), Exact(k.other(r, c)));
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double n = double(k.out.rows) * double(k.out.cols);
    return {.flops = n, .bytes = n * (2 * double(sizeof(T)) + 1)};
  }

  static constexpr Case kEdgeCases[] = {{"empty", "x=[3,0] other=[3,0] relation=eq"},
                                        {"equal", "x=[3,45] other=[3,45] relation=eq"},
                                        {"unequal", "x=[3,45] other=[45] relation=ne"},
                                        {"less", "x=[3,45] other=[3,1] relation=lt"},
                                        {"at most", "x=[3,45] other=[3,45] relation=le"},
                                        {"greater", "x=[3,45] other=[1] relation=gt"},
                                        {"at least", "x=[4,1,5] other=[3,1] relation=ge"},
                                        {"both", "x=[3,45] other=[3,45] relation=and"},
                                        {"either", "x=[3,45] other=[3,45] relation=or"},
                                        {"two blocks", "x=[20001] other=[20001] relation=lt"}};
  static constexpr Case kWorkloads[] = {{"64 MiB", "x=[4096,4096] other=[4096,4096] relation=lt"}};
};

}  // namespace tw::ops
