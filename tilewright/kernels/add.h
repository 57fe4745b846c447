//   out = x + alpha * other, broadcast.
#pragma once

#include "tilewright/kernels/elementwise.h"

namespace tw::kernels {

template <class T>
struct Add {
  Rows<const T> x;      // [...]
  Rows<const T> other;  // [...]
  double alpha;
  Rows<T> out;  // [...], may alias x or other

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(x, other, out);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return plan_elementwise<P>(out);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    using C = tile::compute_t<T>;
    elementwise<C>(p, out, [a = C(alpha)](auto l, auto r) { return l + a * r; }, x, other);
  }
};

}  // namespace tw::kernels
