#pragma once

#include "tilewright/kernels/add.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// x + alpha * other with NumPy broadcasting; alpha of integers is one. `out` may alias an input of
/// its own shape.
struct Add {
  static constexpr Schema kSchema{"add(x: T[...], other: T[...], alpha: f64 = 1) -> out: T[...]"};
  static constexpr Gradient kGradient{
      "out.grad -> x.grad; scale(x=out.grad, factor=alpha) -> other.grad"};
  using Types = NumberCombos;

  template <class T>
  using Kernel = kernels::Add<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    return supports_factor<T>("alpha", k.alpha);
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.out.rows; ++r)
      for (int64_t c = 0; c < k.out.cols; ++c)
        k.out(r, c) = T(double(k.x(r, c)) + double(k.alpha) * double(k.other(r, c)));
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.out, 3, 2);
  }

  static constexpr auto& kEdgeCases = kBinaryCases;
  static constexpr auto& kWorkloads = kBinaryWorkloads;
};

}  // namespace tw::ops
