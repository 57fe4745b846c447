// Elements as another floating type: exact where the type is wider, to the nearest (ties to even)
// where it is narrower.
#pragma once

#include "tilewright/kernels/elementwise.h"

namespace tw::kernels {

template <class T, class U>
struct TypeAs {
  Rows<const T> x;         // [...]
  View<const U, 1> other;  // only its type matters
  Rows<U> out;             // [...]

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
    elementwise<float>(p, out, [](auto v) { return v; }, x);
  }
};

}  // namespace tw::kernels
