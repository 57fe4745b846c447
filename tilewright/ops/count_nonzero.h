#pragma once

#include "tilewright/kernels/count_nonzero.h"
#include "tilewright/ops/core/dimension.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// How many elements along one dimension are not 0; NaN is not.
struct CountNonzero : ReducedDim<> {
  static constexpr Schema kSchema{"count_nonzero(x: T[*, C], dim: i64 = -1) -> out: i64[*]"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>, Combo<int32_t>, Combo<int64_t>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::CountNonzero<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.x.rows; ++r) {
      int64_t count = 0;
      for (int64_t c = 0; c < k.x.cols; ++c) count += double(k.x(r, c)) != 0;
      k.out(r, 0) = count;
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
                                        {"parts of rows", "*=2 C=70001"},
                                        {"spans and a tail", "*=2x3 C=45"},
                                        {"first dimension", "*=7x3 C=5 dim=0"},
                                        {"columns in blocks", "*=40 C=600 dim=0"},
                                        {"small parts", "*=260x33 C=33 dim=1"},
                                        {"columns for all threads", "*=520x32 C=32 dim=1"}};
  static constexpr Case kWorkloads[] = {{"64 MiB", "*=4096 C=4096"}};
};

}  // namespace tw::ops
