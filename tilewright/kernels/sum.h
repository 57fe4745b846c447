// The sum of each row, in float32 (float64 for float64).
//
// Blocks of fixed size are summed in vector lanes and their sums added in order: the order depends
// on the row's length alone, and the error grows with the block, not with the row. One program per
// row.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct Sum {
  using C = tile::compute_t<T>;
  static constexpr int64_t kBlock = 4096;

  Rows<const T> x;  // [*, cols]
  int64_t dim;      // the caller moved this dimension into the last place
  Rows<T> out;      // [*]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x.rows).over(x.cols < kBlock ? x.cols : kBlock);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const auto row = x.row(p.index());
    C total = 0;
    for (int64_t begin = 0; begin < x.cols; begin += kBlock) {
      const int64_t rest = x.cols - begin, count = rest < kBlock ? rest : kBlock;
      const View<const T, 1> part{row.data + begin * row.stride(0), {count}, {row.stride(0)}};
      tile::with_rows<C>(
          p,
          [&](const auto& whole) {
            const auto block = tile::keep_row<C>(p, whole);
            total += tile::reduce_row<C>(p, tile::Sum{}, block,
                                         [&](auto at) { return tile::load(block, at); });
          },
          part);
    }
    out(p.index(), 0) = T(total);
  }
};

}  // namespace tw::kernels
