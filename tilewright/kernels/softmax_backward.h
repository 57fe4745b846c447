// Gradients of softmax and of its logarithm, from their outputs y:
//
//   softmax      x_grad = y (grad - sum_c grad y)
//   log_softmax  x_grad = grad - e^y sum_c grad
//
// One program per row; the row is read twice, the second time from cache.
#pragma once

#include "tilewright/tile/math.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct SoftmaxBackward {
  using C = tile::compute_t<T>;
  Rows<const T> grad;    // [*, cols]
  Rows<const T> output;  // [*, cols]
  int64_t dim;           // the caller moved this dimension into the last place
  Rows<T> x_grad;        // [*, cols], may alias grad or output

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(grad.cols > 0 ? grad.rows : 0);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const auto g = grad.row(p.index()), y = output.row(p.index());
    const auto to = x_grad.row(p.index());
    const C total = tile::reduce_row<C>(
        p, tile::Sum{}, grad.cols, [&](auto at) { return tile::load(g, at) * tile::load(y, at); });
    tile::for_row<C>(p, grad.cols, [&](auto at) {
      tile::store(p, to, at, tile::load(y, at) * (tile::load(g, at) - total));
    });
  }
};

template <class T>
struct LogSoftmaxBackward {
  using C = tile::compute_t<T>;
  Rows<const T> grad;    // [*, cols]
  Rows<const T> output;  // [*, cols]
  int64_t dim;           // the caller moved this dimension into the last place
  Rows<T> x_grad;        // [*, cols], may alias grad or output

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(grad.cols > 0 ? grad.rows : 0);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const auto g = grad.row(p.index()), y = output.row(p.index());
    const auto to = x_grad.row(p.index());
    const C total =
        tile::reduce_row<C>(p, tile::Sum{}, grad.cols, [&](auto at) { return tile::load(g, at); });
    tile::for_row<C>(p, grad.cols, [&](auto at) {
      tile::store(p, to, at, tile::load(g, at) - tile::exp(tile::load(y, at)) * total);
    });
  }
};

}  // namespace tw::kernels
