//   out = factor * x
#pragma once

#include "tilewright/kernels/elementwise.h"

namespace tw::kernels {

template <class T>
struct Scale {
  Rows<const T> x;  // [...]
  double factor;
  Rows<T> out;  // [...], may alias x

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(x, out);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return plan_elementwise<P>(out);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    using C = tile::compute_t<T>;
    elementwise<C>(p, out, [f = C(factor)](auto v) { return f * v; }, x);
  }
};

}  // namespace tw::kernels
