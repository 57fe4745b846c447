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
    return tile::plan_of(x.rows).over(x.cols);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    tile::with_rows(
        p,
        [&](const auto& a, const auto& b, const auto& scale, const auto& to, const auto& added) {
          auto sum = tile::new_row(p, added);
          const float squares = tile::reduce_row(p, tile::Sum{}, sum, [&](auto at) {
            tile::store_cached(sum, at, tile::load(a, at) + tile::load(b, at));
            const auto v = tile::load(sum, at);
            return v * v;
          });
          const float rstd = tile::rsqrt(squares / static_cast<float>(x.cols) + eps);
          tile::for_row(p, sum, [&](auto at) {
            tile::store(p, to, at, tile::load(sum, at) * rstd * tile::load(scale, at));
          });
        },
        x.row(p.index()), residual.row(p.index()), weight, out.row(p.index()),
        residual_out.row(p.index()));
  }
};

}  // namespace tw::kernels
