#pragma once

#include <cmath>

#include "tilewright/kernels/reduction_backward.h"
#include "tilewright/ops/core/dimension.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// The gradient of amax: grad shared evenly by the elements equal to the maximum, as PyTorch does.
/// `x_grad` may alias `x`.
struct AmaxBackward : AlongDim<1> {
  static constexpr Schema kSchema{
      "amax_backward(grad: T[*], x: T[*, C], output: T[*], dim: i64 = -1) -> x_grad: T[*, C]"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::AmaxBackward<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.x.rows; ++r) {
      const double high = double(k.output(r, 0));
      double count = 0;
      for (int64_t c = 0; c < k.x.cols; ++c) count += double(k.x(r, c)) == high;
      for (int64_t c = 0; c < k.x.cols; ++c)
        k.x_grad(r, c) = T(double(k.x(r, c)) == high ? double(k.grad(r, 0)) / count : 0);
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.x_grad, 2, 3);
  }

  static constexpr Case kEdgeCases[] = {{"no rows", "*=0 C=8"},
                                        {"no columns", "*=3 C=0"},
                                        {"one element", "*=4 C=1"},
                                        {"first dimension of equal ones", "*=5x5 C=5 dim=0"},
                                        {"spans and a tail", "*=2x3 C=45"},
                                        {"columns", "*=41x41 C=41 dim=1"},
                                        {"columns for all threads", "*=520x32 C=32 dim=1"},
                                        {"blocks of columns", "*=300 C=300 dim=0"}};
  static constexpr Case kWorkloads[] = {{"64 MiB", "*=4096 C=4096"}};
};

}  // namespace tw::ops
