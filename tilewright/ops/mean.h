#pragma once

#include <cmath>

#include "tilewright/kernels/sum.h"
#include "tilewright/ops/core/dimension.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// The mean along one dimension, accumulated in float32; NaN where there is nothing.
struct Mean : ReducedDim<> {
  static constexpr Schema kSchema{"mean(x: T[*, C], dim: i64 = -1) -> out: T[*]"};
  static constexpr Gradient kGradient{"mean_backward(grad=out.grad, x=x.shape, dim) -> x.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::Sum<T, true>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.x.rows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < k.x.cols; ++c) sum += double(k.x(r, c));
      k.out(r, 0) = T(sum / double(k.x.cols));
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.x, 1, 1);
  }

  static constexpr Case kEdgeCases[] = {{"no rows", "*=0 C=8"},
                                        {"no columns", "*=3 C=0"},
                                        {"one element", "*=4 C=1"},
                                        {"partial span only", "*=3 C=5"},
                                        {"three blocks", "*=5 C=9001"},
                                        {"first dimension", "*=7x3 C=5 dim=0"},
                                        {"spans and a tail", "*=2x3 C=45"},
                                        {"small parts", "*=260x33 C=33 dim=1"},
                                        {"columns for all threads", "*=520x32 C=32 dim=1"}};
  static constexpr Case kWorkloads[] = {{"64 MiB", "*=4096 C=4096"}};
};

}  // namespace tw::ops
