#pragma once

#include "tilewright/kernels/argmax.h"
#include "tilewright/ops/core/dimension.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// The index of the largest value along one dimension; the first one of equals; NaN is the largest.
struct Argmax : ReducedDim<> {
  static constexpr Schema kSchema{"argmax(x: T[*, C], dim: i64 = -1) -> out: i64[*]"};
  using Types = FloatCombos;

  template <class T>
  using Kernel = kernels::Argmax<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    if (k.x.cols == 0 && k.x.rows > 0) return Support::no("C = 0, but nothing has no maximum");
    return Support::yes();
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.x.rows; ++r) {
      int64_t best = 0;
      for (int64_t c = 1; c < k.x.cols; ++c) {
        const double value = double(k.x(r, c)), high = double(k.x(r, best));
        if (value > high || (value != value && high == high)) best = c;
      }
      k.out(r, 0) = best;
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.x, 1, 1);
  }

  static constexpr Case kEdgeCases[] = {{"no rows", "*=0 C=8"},
                                        {"one element", "*=1 C=1"},
                                        {"partial span only", "*=2 C=5"},
                                        {"spans and a tail", "*=2x3 C=45"},
                                        {"three blocks", "*=5 C=9001"},
                                        {"first dimension", "*=7x3 C=5 dim=0"},
                                        {"columns in blocks", "*=40 C=600 dim=0"},
                                        {"small parts", "*=260x33 C=33 dim=1"},
                                        {"columns for all threads", "*=520x32 C=32 dim=1"}};
  static constexpr Case kWorkloads[] = {{"llama-3.1-8b/vocabulary", "*=1 C=128256"},
                                        {"64 MiB", "*=4096 C=4096"}};
};

}  // namespace tw::ops
