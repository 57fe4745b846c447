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
    if constexpr (P::kOnGpu) return tile::plan_of(x.rows).over(x.cols < 4096 ? x.cols : 4096);
    return tile::plan_of(x.rows);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (P::kOnGpu)
      keep_row(p);
    else
      run_rows(p);
  }

 private:
  /// On a GPU a program has one row, which stays in registers.
  template <class P>
  TW_DEVICE void keep_row(P p) const {
    constexpr int64_t kBlock = 4096;
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
    out(p.index(), 0) = T(kMean ? total / static_cast<C>(x.cols) : total);
  }

  template <class P>
  TW_DEVICE void run_rows(P p) const {
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
