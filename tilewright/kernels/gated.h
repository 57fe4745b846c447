// Gated linear units: the first half of each row, activated, times the second half. Shazeer,
// arXiv:2002.05202, eq. 5.
//
//   out[r, c] = f(x[r, c]) * x[r, H + c]
#pragma once

#include "tilewright/kernels/activation.h"
#include "tilewright/kernels/elementwise.h"

namespace tw::kernels {

template <class T, class F>
struct Gated {
  Rows<const T> x;  // [*, 2 H]
  Rows<T> out;      // [*, H], may be the first half of x

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
    Rows<const T> gate = x, up = x;
    gate.cols = up.cols = out.cols;
    up.data += out.cols * x.col_stride;
    elementwise<tile::compute_t<T>, tile::kMathChains>(
        p, out, [](auto g, auto u) TW_INLINED { return F{}(g)*u; }, gate, up);
  }
};

}  // namespace tw::kernels
