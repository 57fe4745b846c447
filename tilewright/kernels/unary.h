//   out = f(x), elementwise, for a functor f on vectors.
#pragma once

#include "tilewright/kernels/activation.h"
#include "tilewright/kernels/elementwise.h"

namespace tw::kernels {

template <class T, class F>
struct Unary {
  Rows<const T> x;  // [...]
  Rows<T> out;      // [...], may alias x

  template <class G>
  TW_INLINE auto row_operands(G&& g) const {
    return g(x, out);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return plan_elementwise<P>(out);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    elementwise<tile::compute_t<T>, tile::kMathChains>(p, out, F{}, x);
  }
};

struct Exp {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return tile::exp(x);
  }
};
struct Erf {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return tile::erf(x);
  }
};
struct Log {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return tile::log(x);
  }
};

}  // namespace tw::kernels
