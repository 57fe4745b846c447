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
  static constexpr int kGpuRegisters = 128;  // two rows are kept
  using C = tile::compute_t<T>;
  Rows<const T> grad;    // [*, cols]
  Rows<const T> output;  // [*, cols]
  int64_t dim;           // the caller moved this dimension into the last place
  Rows<T> x_grad;        // [*, cols], may alias grad or output

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(grad.cols > 0 ? grad.rows : 0, 2 * tile::kept_bytes<P, C, T>(grad.cols))
        .over(grad.cols);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const auto run = [&](const auto& grads, const auto& outputs, const auto& to) {
      const auto g = tile::keep_row<C>(p, grads);
      const auto y = tile::keep_row<C>(p, outputs, 1);
      const C total = tile::reduce_row<C>(
          p, tile::Sum{}, g, [&](auto at) { return tile::load(g, at) * tile::load(y, at); });
      tile::for_row<C>(p, g, [&](auto at) {
        tile::store(p, to, at, tile::load(y, at) * (tile::load(g, at) - total));
      });
    };
    tile::with_rows<C>(p, run, grad.row(p.index()), output.row(p.index()), x_grad.row(p.index()));
  }
};

template <class T>
struct LogSoftmaxBackward {
  static constexpr int kGpuRegisters = 128;  // two rows are kept
  using C = tile::compute_t<T>;
  Rows<const T> grad;    // [*, cols]
  Rows<const T> output;  // [*, cols]
  int64_t dim;           // the caller moved this dimension into the last place
  Rows<T> x_grad;        // [*, cols], may alias grad or output

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(grad.cols > 0 ? grad.rows : 0, 2 * tile::kept_bytes<P, C, T>(grad.cols))
        .over(grad.cols);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const auto run = [&](const auto& grads, const auto& outputs, const auto& to) {
      const auto g = tile::keep_row<C>(p, grads);
      const auto y = tile::keep_row<C>(p, outputs, 1);
      const C total =
          tile::reduce_row<C>(p, tile::Sum{}, g, [&](auto at) { return tile::load(g, at); });
      tile::for_row<C>(p, g, [&](auto at) {
        tile::store(p, to, at,
                    tile::load(g, at) - tile::exp_nonpositive(tile::load(y, at)) * total);
      });
    };
    tile::with_rows<C>(p, run, grad.row(p.index()), output.row(p.index()), x_grad.row(p.index()));
  }
};

}  // namespace tw::kernels
