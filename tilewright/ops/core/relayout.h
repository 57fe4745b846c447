// What the operators that move elements unchanged share. Their kernels move bits, so that there is
// one for each width.
#pragma once

#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

struct RelayoutOperator {
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>, Combo<double>, Combo<f8_e4m3fn>,
                       Combo<f8_e5m2>, Combo<int64_t>, Combo<int32_t>, Combo<int16_t>,
                       Combo<int8_t>, Combo<uint8_t>, Combo<bool>>;

  /// x already has the dimensions of out, in out's order.
  template <class K>
  static void reference(const K& k) {
    for (int64_t r = 0; r < k.out.rows; ++r)
      for (int64_t c = 0; c < k.out.cols; ++c) k.out(r, c) = k.x(r, c);
  }

  template <class K>
  static Cost cost(const K& k) {
    return elementwise_cost(k.out, 2, 0);
  }
};

}  // namespace tw::ops
