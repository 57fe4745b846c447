//   out = x where the condition holds, else other, broadcast.
#pragma once

#include "tilewright/kernels/elementwise.h"

namespace tw::kernels {

template <class T>
struct Where {
  Rows<const uint8_t> condition;  // [...], 0 or 1: the bytes of bool
  Rows<const T> x;                // [...]
  Rows<const T> other;            // [...]
  Rows<T> out;                    // [...], may alias x or other

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(x, other, condition, out);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return plan_elementwise<P>(out);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    elementwise<tile::compute_t<T>>(
        p, out, [](auto c, auto l, auto r) { return tile::select(c != decltype(c){}, l, r); },
        condition, x, other);
  }
};

}  // namespace tw::kernels
