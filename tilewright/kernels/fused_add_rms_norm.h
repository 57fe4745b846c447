// Residual addition and RMSNorm in one pass over the row.
//
//   residual_out = x + residual          (rounded to T once, as the separate addition would)
//   out          = rms_norm(residual_out) * weight
//
// One program per row.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct FusedAddRmsNorm {
  Rows<const T> x;          // [*, cols]
  Rows<const T> residual;   // [*, cols]
  View<const T, 1> weight;  // [cols]
  float eps;
  Rows<T> out;           // [*, cols], may alias x
  Rows<T> residual_out;  // [*, cols], may alias residual

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x.rows);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const auto a = x.row(p.index()), b = residual.row(p.index());
    const auto sum = residual_out.row(p.index()), to = out.row(p.index());
    const View<const T, 1> sum_in{sum.data, {sum.size(0)}, {sum.stride(0)}};

    const float squares = tile::reduce_row(p, tile::Sum{}, x.cols, [&](auto at) {
      tile::store_cached(sum, at, tile::load(a, at) + tile::load(b, at));
      const auto v = tile::load(sum_in, at);
      return v * v;
    });
    const float rstd = tile::rsqrt(squares / static_cast<float>(x.cols) + eps);

    tile::for_row(p, x.cols, [&](auto at) {
      tile::store(p, to, at, tile::load(sum_in, at) * rstd * tile::load(weight, at));
    });
  }
};

}  // namespace tw::kernels
