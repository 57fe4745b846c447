// The sum of each row, or its mean, in float32 (float64 for float64).
//
// One program per row.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T, bool kMean = false>
struct Sum {
  using C = tile::compute_t<T>;

  Rows<const T> x;  // [*, cols]
  int64_t dim;      // the caller moved this dimension into the last place
  Rows<T> out;      // [*]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x.rows);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    tile::with_rows(
        p,
        [&](const auto& in) {
          const auto row = in.row(p.index());
          const C total = tile::reduce_row<C>(p, tile::Sum{}, x.cols,
                                              [&](auto at) { return tile::load(row, at); });
          out(p.index(), 0) = T(kMean ? total / static_cast<C>(x.cols) : total);
        },
        x);
  }
};

}  // namespace tw::kernels
