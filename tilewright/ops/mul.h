#pragma once

#include "tilewright/kernels/mul.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// x * other with NumPy broadcasting. `out` may alias an input of its own shape.
struct Mul {
  static constexpr Schema kSchema{"mul(x: T[...], other: T[...]) -> out: T[...]"};
  static constexpr Gradient kGradient{
      "mul(x=out.grad, other) -> x.grad; mul(x=out.grad, other=x) -> other.grad"};
  using Types = NumberCombos;

  template <class T>
  using Kernel = kernels::Mul<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.out.rows; ++r)
      for (int64_t c = 0; c < k.out.cols; ++c)
        k.out(r, c) = T(double(k.x(r, c)) * double(k.other(r, c)));
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.out, 3, 1);
  }

  static constexpr auto& kEdgeCases = kBinaryCases;
  static constexpr auto& kWorkloads = kBinaryWorkloads;
};

}  // namespace tw::ops
