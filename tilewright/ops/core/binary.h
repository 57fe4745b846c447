// What the operators out = f(x, other) share, f one of several functions.
#pragma once

#include <array>

#include "tilewright/kernels/binary_functions.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// `Def` gives kSchema and define(function, x, other), in double for floats, in int64_t for
/// integers.
template <class Def, class Functions>
struct BinaryOperator {
  template <class T>
  using Kernel = kernels::BinaryChoice<T, Functions>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    using Exact = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
    for (int64_t r = 0; r < k.out.rows; ++r)
      for (int64_t c = 0; c < k.out.cols; ++c)
        k.out(r, c) = T(Def::define(k.function, Exact(k.x(r, c)), Exact(k.other(r, c))));
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.out, 3, 4);
  }
};

}  // namespace tw::ops
