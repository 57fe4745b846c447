#pragma once

#include "tilewright/kernels/where.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// x where the condition holds, else other, with NumPy broadcasting. `out` may alias an input of
/// its own shape.
struct Where {
  static constexpr Schema kSchema{
      "where(condition: bool[...], x: T[...], other: T[...]) -> out: T[...]"};
  static constexpr Gradient kGradient{
      "out.grad -> given; where(condition, x=given, other=0) -> x.grad; "
      "where(condition, x=0, other=given) -> other.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>, Combo<int32_t>, Combo<int64_t>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::Where<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.out.rows; ++r)
      for (int64_t c = 0; c < k.out.cols; ++c)
        k.out(r, c) = k.condition(r, c) ? k.x(r, c) : k.other(r, c);
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double n = double(k.out.rows) * double(k.out.cols);
    return {.flops = 0, .bytes = n * (3 * double(sizeof(T)) + 1)};
  }

  static constexpr Case kEdgeCases[] = {
      {"empty", "condition=[3,0] x=[3,0] other=[3,0]"},
      {"one element", "condition=[1] x=[1] other=[1]"},
      {"broadcast condition", "condition=[45] x=[3,45] other=[3,45]"},
      {"scalar", "condition=[3,45] x=[1] other=[3,45]"},
      {"column and row", "condition=[6,1] x=[6,136] other=[1,136]"},
      {"mask of groups and a scalar", "condition=[3,1,4,24] x=[3,2,4,24] other=[1]"},
      {"column and unaligned rows", "condition=[6,51] x=[6,1] other=[6,51]"},
      {"two blocks", "condition=[20001] x=[20001] other=[20001]"}};
  static constexpr Case kWorkloads[] = {
      {"64 MiB", "condition=[4096,4096] x=[4096,4096] other=[4096,4096]"}};
};

}  // namespace tw::ops
