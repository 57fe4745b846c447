// The index of the largest value of each row; the first one of equals. NaN is larger than anything.
// One program per row, which is read once.
#pragma once

#include "tilewright/tile/largest.h"

namespace tw::kernels {

template <class T>
struct Argmax {
  using C = tile::compute_t<T>;

  Rows<const T> x;    // [*, cols], cols > 0
  int64_t dim;        // the caller moved this dimension into the last place
  Rows<int64_t> out;  // [*]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    constexpr int64_t kFew = 512;  // rows that leave multiprocessors idle: all threads for each
    const int64_t most = x.rows < kFew ? x.cols : tile::columns_read_once(x.rows);
    return tile::plan_of(x.rows).over_row(tile::lesser(x.cols, most));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const auto run = [&](const auto& row) {
      tile::find_largest<C>(p, row, [&](int64_t column) { out(p.index(), 0) = column; });
    };
    tile::with_rows<C>(p, run, x.row(p.index()));
  }
};

}  // namespace tw::kernels
