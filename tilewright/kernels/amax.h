// The largest value of each row; NaN is the largest. One program per row.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct Amax {
  using C = tile::compute_t<T>;
  Rows<const T> x;  // [*, cols], cols > 0
  int64_t dim;      // the caller moved this dimension into the last place
  Rows<T> out;      // [*]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x.rows).over_row(tile::lesser(x.cols, tile::columns_read_once(x.rows)));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const auto run = [&](const auto& row) {
      out(p.index(), 0) = T(tile::reduce_elements<C>(p, tile::Max{}, row));
    };
    tile::with_rows<C>(p, run, x.row(p.index()));
  }
};

}  // namespace tw::kernels
