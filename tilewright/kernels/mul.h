//   out = x * other, broadcast.
#pragma once

#include "tilewright/kernels/elementwise.h"

namespace tw::kernels {

template <class T>
struct Mul {
  Rows<const T> x;      // [...]
  Rows<const T> other;  // [...]
  Rows<T> out;          // [...], may alias x or other

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
    elementwise<tile::compute_t<T>>(p, out, [](auto l, auto r) { return l * r; }, x, other);
  }
};

}  // namespace tw::kernels
