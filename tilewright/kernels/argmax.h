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
  /// On a GPU a whole row of usual length, which is kept until it is searched.
  template <class P>
  static constexpr int64_t kBlock = P::kOnGpu ? 1 << 16 : 1024;

  Rows<const T> x;    // [*, cols], cols > 0
  int64_t dim;        // the caller moved this dimension into the last place
  Rows<int64_t> out;  // [*]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    const int64_t most = x.cols < kBlock<P> ? x.cols : kBlock<P>;
    return tile::plan_of(x.rows, tile::kept_bytes<P, C, T>(most)).over(most);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    tile::with_rows<C>(
        p, [&](const auto& row) { out(p.index(), 0) = first_of_largest(p, row); },
        x.row(p.index()));
  }

 private:
  template <class P, class Row>
  TW_INLINE int64_t first_of_largest(P p, const Row& row) const {
    C best = C(-__builtin_inf());
    int64_t begin_of_best = 0, column = 0;
    for (int64_t begin = 0; begin < x.cols && best == best; begin += kBlock<P>) {
      const auto block = tile::keep_row<C>(p, row.part(begin, size_of_block<P>(begin)));
      const C high = tile::reduce_row<C>(p, tile::Max{}, block,
                                         [&](auto at) { return tile::load(block, at); });
      if (begin > 0 && high <= best) continue;  // false for NaN
      best = high;
      begin_of_best = begin;
      if constexpr (P::kOnGpu) column = tile::find_first<C>(p, block, best);
    }
    if constexpr (!P::kOnGpu)
      column =
          tile::find_first<C>(p, row.part(begin_of_best, size_of_block<P>(begin_of_best)), best);
    return begin_of_best + column;
  }

  template <class P>
  TW_INLINE int64_t size_of_block(int64_t begin) const {
    return x.cols - begin < kBlock<P> ? x.cols - begin : kBlock<P>;
  }
};

}  // namespace tw::kernels
