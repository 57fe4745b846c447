#pragma once

#include <cmath>

#include "tilewright/kernels/amax.h"
#include "tilewright/ops/core/dimension.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// The largest value along one dimension; NaN is the largest.
struct Amax : ReducedDim<> {
  static constexpr Schema kSchema{"amax(x: T[*, C], dim: i64 = -1) -> out: T[*]"};
  static constexpr Gradient kGradient{"amax_backward(grad=out.grad, x, output=out, dim) -> x.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::Amax<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    if (k.x.cols == 0 && k.x.rows > 0) return Support::no("C = 0, but nothing has no maximum");
    return Support::yes();
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.x.rows; ++r) {
      double high = -INFINITY;
      for (int64_t c = 0; c < k.x.cols; ++c) {
        const double value = double(k.x(r, c));
        if (value > high || value != value) high = value;
        if (high != high) break;
      }
      k.out(r, 0) = T(high);
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.x, 1, 1);
  }

  static constexpr Case kEdgeCases[] = {{"no rows", "*=0 C=8"},
                                        {"one element", "*=4 C=1"},
                                        {"partial span only", "*=3 C=5"},
                                        {"three blocks", "*=5 C=9001"},
                                        {"parts of rows", "*=2 C=70001"},
                                        {"first dimension", "*=7x3 C=5 dim=0"},
                                        {"columns in blocks", "*=40 C=600 dim=0"},
                                        {"many rows", "*=2x300 C=77 dim=1"},
                                        {"spans and a tail", "*=2x3 C=45"},
                                        {"small parts", "*=260x33 C=33 dim=1"},
                                        {"columns for all threads", "*=520x32 C=32 dim=1"}};
  static constexpr Case kWorkloads[] = {{"64 MiB", "*=4096 C=4096"}};
};

}  // namespace tw::ops
