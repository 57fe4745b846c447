#pragma once

#include "tilewright/kernels/scan.h"
#include "tilewright/ops/core/dimension.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// The sums, or the products, of the elements up to each along one dimension. `out` may alias `x`.
struct Scan : AlongDim<> {
  static constexpr Schema kSchema{
      "scan(x: T[*, C], function: sum|prod = sum, dim: i64 = -1) -> out: T[*, C]"};
  static constexpr Gradient kGradient{"scan_backward(grad=out.grad, x, function, dim) -> x.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::Scan<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.x.rows; ++r) {
      double total = k.function == 0 ? 0 : 1;
      for (int64_t c = 0; c < k.x.cols; ++c) {
        const double v = double(k.x(r, c));
        total = k.function == 0 ? total + v : total * v;
        k.out(r, c) = T(total);
      }
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.x, 2, 1);
  }

  static constexpr Case kEdgeCases[] = {{"no rows", "*=0 C=8"},
                                        {"no columns", "*=3 C=0"},
                                        {"one element", "*=4 C=1"},
                                        {"sums", "*=2x3 C=45"},
                                        {"products", "*=3 C=45 function=prod"},
                                        {"many threads", "*=5 C=9001"},
                                        {"first dimension", "*=7x3 C=5 dim=0"},
                                        {"middle dimension", "*=2x5 C=300 dim=-2"},
                                        {"products down", "*=5 C=40 function=prod dim=0"},
                                        {"shared columns", "*=2x600 C=136 dim=-2"},
                                        {"a warp", "*=3 C=250"}};
  static constexpr Case kWorkloads[] = {{"llama-3.1-8b/hidden", "*=2048 C=4096"},
                                        {"64 MiB", "*=4096 C=4096"}};
};

}  // namespace tw::ops
