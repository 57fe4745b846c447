// How many elements of each row are not 0; NaN is not. One program per row.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct CountNonzero {
  using C = tile::compute_t<T>;
  static constexpr int64_t kBlock = 1 << 22;  // whose counts float32 holds exactly

  Rows<const T> x;    // [*, cols]
  int64_t dim;        // the caller moved this dimension into the last place
  Rows<int64_t> out;  // [*]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x.rows).over_row(tile::lesser(x.cols, tile::columns_read_once(x.rows)));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const auto run = [&](const auto& row) {
      int64_t count = 0;
      for (int64_t begin = 0; begin < x.cols; begin += kBlock) {
        const auto block = row.part(begin, x.cols - begin < kBlock ? x.cols - begin : kBlock);
        count += int64_t(tile::reduce_row<C>(p, tile::Sum{}, block, [&](auto at) {
          const auto v = tile::load(block, at);
          using V = decltype(v + v);
          return tile::select(v != V{}, tile::splat<V>(1), V{});
        }));
      }
      out(p.index(), 0) = count;
    };
    tile::with_rows<C>(p, run, x.row(p.index()));
  }
};

}  // namespace tw::kernels
