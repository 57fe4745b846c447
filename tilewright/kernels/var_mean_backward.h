// The gradients of the variance of each row, or of its root, and of the mean:
//
//   x_grad = 2 var_grad (x - mean) / (cols - correction) + mean_grad / cols
//
// One program per row.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct VarMeanBackward {
  using C = tile::compute_t<T>;

  Rows<const T> x;          // [*, cols]
  Rows<const T> var_grad;   // [*], or no data
  Rows<const T> mean_grad;  // [*], or no data
  int64_t dim;              // the caller moved this dimension into the last place
  float correction;
  bool root;       // var is the root
  Rows<T> x_grad;  // [*, cols], may alias x

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x.cols > 0 ? x.rows : 0, tile::kept_bytes<P, C, T>(x.cols))
        .over_row(x.cols, tile::kKeptColumns<P, C, T>);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const C n = static_cast<C>(x.cols);
    const C of_mean = mean_grad ? C(mean_grad(p.index(), 0)) / n : C(0);
    const auto run = [&](const auto& from, const auto& to) {
      const auto row = tile::keep_row<C>(p, from);
      C center = 0, factor = 0;
      if (var_grad) {
        center =
            tile::reduce_row<C>(p, tile::Sum{}, row, [&](auto at) { return tile::load(row, at); }) /
            n;
        factor = slope(p, row, center, n) * C(var_grad(p.index(), 0));
      }
      const bool has_slope = var_grad && factor != C(0);
      tile::for_row<C>(p, row, [&](auto at) {
        const auto d = tile::load(row, at) - center;
        using V = decltype(d + d);
        tile::store(p, to, at, (has_slope ? V(d * factor) : V{}) + of_mean);
      });
    };
    tile::with_rows<C>(p, run, x.row(p.index()), x_grad.row(p.index()));
  }

 private:
  /// d var / d x over x - mean. A row of equal elements has no deviation, nor a slope of it.
  template <class P, class Row>
  TW_INLINE C slope(P p, const Row& row, C center, C n) const {
    const C freedom = n - C(correction);
    if (!root) return 2 / freedom;
    const C squares = tile::reduce_row<C>(p, tile::Sum{}, row, [&](auto at) {
      const auto d = tile::load(row, at) - center;
      return d * d;
    });
    const C deviation = tile::sqrt(squares / (freedom > C(0) ? freedom : C(0)));
    return deviation == C(0) ? C(0) : 1 / (freedom * deviation);
  }
};

}  // namespace tw::kernels
