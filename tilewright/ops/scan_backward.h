#pragma once

#include "tilewright/kernels/scan_backward.h"
#include "tilewright/ops/core/dimension.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// The gradient of scan. Of sums x is not used.
struct ScanBackward : AlongDim<> {
  static constexpr Schema kSchema{
      "scan_backward(grad: T[*, C], x: T[*, C], function: sum|prod = sum, dim: i64 = -1) -> "
      "x_grad: T[*, C]"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::ScanBackward<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.x.rows; ++r) {
      double after = 0;
      for (int64_t c = k.x.cols; c-- > 0;) {
        after += double(k.grad(r, c));
        k.x_grad(r, c) = T(k.function == 0 ? after : of_product(k, r, c));
      }
    }
  }

  /// The sum of grad[i] times the product of all up to i but c.
  template <class T>
  static double of_product(const Kernel<T>& k, int64_t r, int64_t c) {
    double others = 1, sum = 0;
    for (int64_t i = 0; i < k.x.cols; ++i) {
      if (i != c) others *= double(k.x(r, i));
      if (i >= c) sum += double(k.grad(r, i)) * others;
    }
    return sum;
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.x_grad, k.function == 0 ? 2 : 3, 4);
  }

  static constexpr Case kEdgeCases[] = {
      {"no rows", "*=0 C=8"},
      {"no columns", "*=3 C=0"},
      {"one element", "*=4 C=1 function=prod"},
      {"sums", "*=2x3 C=45"},
      {"products", "*=3 C=45 function=prod"},
      {"pieces of a thread", "*=2 C=2801 function=prod"},
      {"many threads", "*=2 C=5001"},
      {"spans and zeros behind them", "*=3 C=9001"},
      {"shared columns", "*=2x600 C=136 dim=-2"},
      {"products of shared columns", "*=2x70 C=36 function=prod dim=-2"},
      {"first dimension", "*=5x5 C=5 dim=0"}};
  static constexpr Case kWorkloads[] = {{"64 MiB", "*=4096 C=4096"}};
};

}  // namespace tw::ops
