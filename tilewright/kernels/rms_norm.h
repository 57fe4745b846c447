// RMSNorm over the last axis. Zhang & Sennrich, arXiv:1910.07467, eq. 4.
//
//   out[r, c] = x[r, c] * rsqrt(mean_c(x[r, :]^2) + eps) * weight[c]
//
// One program per row; the row is read twice, the second time from cache.
// Statistics are float32 whatever T is: a bf16 sum of 4096 squares loses half its digits.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct RmsNorm {
  Rows<const T> x;          // [*, cols]
  View<const T, 1> weight;  // [cols]
  float eps;                // > 0 keeps an all-zero row finite
  Rows<T> out;              // [*, cols], may alias x

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x.rows).over(x.cols);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    tile::with_rows(
        p,
        [&](const auto& row, const auto& scale, const auto& to) {
          const auto from = tile::keep_row(p, row);
          const float squares = tile::reduce_row(p, tile::Sum{}, from, [&](auto at) {
            const auto v = tile::load(from, at);
            return v * v;
          });
          const float rstd = tile::rsqrt(squares / static_cast<float>(x.cols) + eps);
          tile::for_row(p, from, [&](auto at) {
            tile::store(p, to, at, tile::load(from, at) * rstd * tile::load(scale, at));
          });
        },
        x.row(p.index()), weight, out.row(p.index()));
  }
};

}  // namespace tw::kernels
