// Gradients of reductions over the last axis: each row of x_grad from one element of grad. One
// program per row.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// x_grad[r, c] = grad[r], or grad[r] / cols for a mean.
template <class T, bool kMean>
struct SumBackward {
  using C = tile::compute_t<T>;
  Rows<const T> grad;  // [*]
  Rows<const T> x;     // [*, cols], for its shape
  int64_t dim;         // the caller moved this dimension into the last place
  Rows<T> x_grad;      // [*, cols]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x_grad.cols > 0 ? x_grad.rows : 0).over(x_grad.cols);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const auto to = x_grad.row(p.index());
    const C g = C(grad(p.index(), 0)) / (kMean ? static_cast<C>(x_grad.cols) : C(1));
    const auto all = tile::splat<typename P::template Vec<C>>(g);
    const auto run = [&](const auto& row) {
      tile::for_row<C>(p, row, [&](auto at) { tile::store(p, row, at, all); });
    };
    tile::with_rows<C>(p, run, to);
  }
};

/// grad[r] shared evenly by the elements of x[r] that are the maximum.
template <class T>
struct AmaxBackward {
  using C = tile::compute_t<T>;
  Rows<const T> grad;    // [*]
  Rows<const T> x;       // [*, cols]
  Rows<const T> output;  // [*]
  int64_t dim;           // the caller moved this dimension into the last place
  Rows<T> x_grad;        // [*, cols], may alias x

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x.rows, tile::kept_bytes<P, C, T>(x.cols))
        .over_row(x.cols, tile::kKeptColumns<P, C, T>);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    using V = typename P::template Vec<C>;
    const V high = tile::splat<V>(C(output(p.index(), 0))), one = tile::splat<V>(C(1));
    const auto run = [&](const auto& row, const auto& to) {
      const auto from = tile::keep_row<C>(p, row);
      const C count = tile::reduce_row<C>(p, tile::Sum{}, from, [&](auto at) {
        return tile::select(V(tile::load(from, at)) == high, one, V{});
      });
      const V share = tile::splat<V>(C(grad(p.index(), 0)) / count);
      tile::for_row<C>(p, from, [&](auto at) {
        tile::store(p, to, at, tile::select(V(tile::load(from, at)) == high, share, V{}));
      });
    };
    tile::with_rows<C>(p, run, x.row(p.index()), x_grad.row(p.index()));
  }
};

}  // namespace tw::kernels
