// The index of the largest value of each row; the first one of equals. NaN is larger than anything.
//
// The row is read once: a block's maximum first, and only the block that holds the row's maximum is
// searched for it. One program per row.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct Argmax {
  using C = tile::compute_t<T>;
  static constexpr int64_t kBlock = 4096;

  Rows<const T> x;    // [*, cols], cols > 0
  int64_t dim;        // the caller moved this dimension into the last place
  Rows<int64_t> out;  // [*]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x.rows).over(x.cols < kBlock ? x.cols : kBlock);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const auto row = x.row(p.index());
    C best = C(-__builtin_inf());
    int64_t begin_of_best = 0;
    for (int64_t begin = 0; begin < x.cols && best == best; begin += kBlock) {
      const int64_t rest = x.cols - begin, count = rest < kBlock ? rest : kBlock;
      const View<const T, 1> part{row.data + begin * row.stride(0), {count}, {row.stride(0)}};
      C high = 0;
      tile::with_rows<C>(
          p,
          [&](const auto& whole) {
            const auto block = tile::keep_row<C>(p, whole);
            high = tile::reduce_row<C>(p, tile::Max{}, block,
                                       [&](auto at) { return tile::load(block, at); });
          },
          part);
      if (high <= best) continue;  // false for NaN
      best = high;
      begin_of_best = begin;
    }
    int64_t c = begin_of_best;
    for (; c < x.cols - 1; ++c) {
      const C value = C(row(c));
      if (value == best || (best != best && value != value)) break;
    }
    out(p.index(), 0) = c;
  }
};

}  // namespace tw::kernels
