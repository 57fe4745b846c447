#pragma once

#include "tilewright/kernels/sum.h"
#include "tilewright/ops/core/dimension.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// The sum along one dimension, accumulated in float32.
struct Sum : ReducedDim<> {
  static constexpr Schema kSchema{"sum(x: T[*, C], dim: i64 = -1) -> out: T[*]"};
  static constexpr Gradient kGradient{"sum_backward(grad=out.grad, x=x.shape, dim) -> x.grad"};
  using Types = FloatCombos;

  template <class T>
  using Kernel = kernels::Sum<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.x.rows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < k.x.cols; ++c) sum += double(k.x(r, c));
      k.out(r, 0) = T(sum);
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
                                        {"spans and a tail", "*=2x3 C=45"},
                                        {"three blocks", "*=5 C=9001"},
                                        {"parts of rows", "*=2 C=70001"},
                                        {"first dimension", "*=7x3 C=5 dim=0"},
                                        {"small parts", "*=260x33 C=33 dim=1"},
                                        {"columns for all threads", "*=520x32 C=32 dim=1"}};
  static constexpr Case kWorkloads[] = {{"llama-3.1-8b/hidden", "*=2048 C=4096"},
                                        {"64 MiB", "*=4096 C=4096"}};
};

}  // namespace tw::ops
