#pragma once

#include "tilewright/kernels/lerp.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// x + weight (end - x) with NumPy broadcasting; `amount` is the weight of all, if none is given.
/// `out` may alias an input of its own shape.
struct Lerp {
  static constexpr Schema kSchema{
      "lerp(x: T[...], end: T[...], weight: T[...]?, amount: f32 = 0.5) -> out: T[...]"};
  static constexpr Gradient kGradient{
      "lerp(x=out.grad, end=0, weight, amount) -> x.grad; "
      "lerp(x=0, end=out.grad, weight, amount) -> end.grad; "
      "add(x=end, other=x, alpha=-1) -> way; mul(x=out.grad, other=way) -> weight.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::Lerp<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.out.rows; ++r)
      for (int64_t c = 0; c < k.out.cols; ++c) {
        const double x = double(k.x(r, c)), end = double(k.end(r, c));
        const double weight = k.weight ? double(k.weight(r, c)) : double(k.amount);
        const double way = end - x;  // from the nearer end, as PyTorch does: infinities show it
        k.out(r, c) = T(weight < 0.5 ? x + weight * way : end - way * (1 - weight));
      }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.out, 4, 3);
  }

  static constexpr Case kEdgeCases[] = {
      {"empty", "x=[3,0] end=[3,0] weight=[1] +weight"},
      {"one weight", "x=[3,45] end=[3,45] weight=[1] +weight"},
      {"a number", "x=[3,45] end=[45] amount=0.3"},
      {"broadcast", "x=[4,1,5] end=[3,1] weight=[5] +weight"},
      {"two blocks", "x=[20001] end=[20001] weight=[20001] +weight"}};
  static constexpr Case kWorkloads[] = {
      {"64 MiB", "x=[4096,4096] end=[4096,4096] weight=[4096,4096] +weight"}};
};

}  // namespace tw::ops
