// The variance of each row, or its root, and the mean. The mean first and then the squares of the
// differences, as in layer_norm.h. One program per row.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct VarMean {
  using C = tile::compute_t<T>;

  Rows<const T> x;   // [*, cols]
  int64_t dim;       // the caller moved this dimension into the last place
  float correction;  // the sum of squares is divided by cols - correction
  bool root;
  Rows<T> var;   // [*]
  Rows<T> mean;  // [*]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x.rows, tile::kept_bytes<P, C, T>(x.cols))
        .over_row(x.cols, tile::kKeptColumns<P, C, T>);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const auto run = [&](const auto& from) {
      const auto row = tile::keep_row<C>(p, from);
      const C n = static_cast<C>(x.cols), freedom = n - C(correction);
      const C sum =
          tile::reduce_row<C>(p, tile::Sum{}, row, [&](auto at) { return tile::load(row, at); });
      const C center = sum / n;
      const C squares = tile::reduce_row<C>(p, tile::Sum{}, row, [&](auto at) {
        const auto d = tile::load(row, at) - center;
        return d * d;
      });
      const C variance = squares / (freedom > C(0) ? freedom : C(0));
      var(p.index(), 0) = T(root ? tile::sqrt(variance) : variance);
      mean(p.index(), 0) = T(center);
    };
    tile::with_rows<C>(p, run, x.row(p.index()));
  }
};

}  // namespace tw::kernels
