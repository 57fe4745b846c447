//   out = x Φ(x), or its tanh approximation. Hendrycks & Gimpel, arXiv:1606.08415.
#pragma once

#include "tilewright/kernels/activation.h"
#include "tilewright/kernels/elementwise.h"

namespace tw::kernels {

template <class T>
struct GeluElementwise {
  Rows<const T> x;  // [...]
  int approximate;  // 0: none, 1: tanh
  Rows<T> out;      // [...], may alias x

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
    if (approximate)
      elementwise<C, tile::kMathChains>(p, out, GeluTanh{}, x);
    else
      elementwise<C, tile::kMathChains>(p, out, Gelu{}, x);
  }
};

}  // namespace tw::kernels
