// Logarithm of softmax over the last axis.
//
//   out[r, c] = x[r, c] - log(sum_c exp(x[r, c]))
//
// The row is read block by block, with a running maximum (Milakov & Gimelshein, arXiv:1805.02867),
// and once more for the difference. One program per row.
#pragma once

#include "tilewright/kernels/row_logsumexp.h"

namespace tw::kernels {

template <class T>
struct LogSoftmax {
  using C = tile::compute_t<T>;
  Rows<const T> x;  // [*, cols]
  int64_t dim;      // the caller moved this dimension into the last place
  Rows<T> out;      // [*, cols], may alias x

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x.cols > 0 ? x.rows : 0, logsumexp_scratch<P, C, T>(x.cols)).over(x.cols);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const auto run = [&](const auto& from, const auto& to) {
      const LogSumExp<C> found = row_logsumexp<C>(p, from);
      // In two steps: where the maximum is large, adding the logarithm to it would lose digits.
      tile::for_row<C>(p, from, [&](auto at) {
        tile::store(p, to, at, (tile::load(from, at) - found.high) - found.log_sum);
      });
    };
    tile::with_rows<C>(p, run, x.row(p.index()), out.row(p.index()));
  }
};

}  // namespace tw::kernels
