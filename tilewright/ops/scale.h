#pragma once

#include "tilewright/kernels/scale.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// factor * x. `out` may alias `x`.
struct Scale {
  static constexpr Schema kSchema{"scale(x: T[...], factor: f64 = 1) -> out: T[...]"};
  static constexpr Gradient kGradient{"scale(x=out.grad, factor) -> x.grad"};
  using Types = FloatCombos;

  template <class T>
  using Kernel = kernels::Scale<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.out.rows; ++r)
      for (int64_t c = 0; c < k.out.cols; ++c)
        k.out(r, c) = T(double(k.factor) * double(k.x(r, c)));
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.out, 2, 1);
  }

  static constexpr Case kEdgeCases[] = {{"empty", "x=[3,0]"},
                                        {"one element", "x=[1]"},
                                        {"two blocks", "x=[20001] factor=-3"},
                                        {"spans and tail", "x=[3,45] factor=0.5"}};
  static constexpr auto& kWorkloads = kUnaryWorkloads;
};

}  // namespace tw::ops
