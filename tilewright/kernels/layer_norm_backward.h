// Gradients of layer normalization, with n = (x - mean) rstd computed again from x:
//
//   x_grad      = rstd (grad w - mean(grad w) - n mean(grad w n))
//   weight_grad = sum over rows of grad n
//   bias_grad   = sum over rows of grad
#pragma once

#include "tilewright/kernels/layer_norm.h"
#include "tilewright/kernels/row_sums.h"

namespace tw::kernels {

template <class T>
struct LayerNormBackward {
  Rows<const T> grad;       // [*, cols]
  Rows<const T> x;          // [*, cols]
  View<const T, 1> weight;  // [cols], or no data: 1
  float eps;
  Rows<T> x_grad;          // [*, cols], may alias grad or x
  View<T, 1> weight_grad;  // [cols], or no data
  View<T, 1> bias_grad;    // [cols], or no data

  TW_INLINE RowSums sums() const {
    return {x.rows, x.cols, (weight_grad ? 1 : 0) + (bias_grad ? 1 : 0)};
  }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return sums().plan();
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const RowSums all = sums();
    if (p.phase() == 1) {
      if (weight_grad) all.fold(p, 0, weight_grad);
      if (bias_grad) all.fold(p, all.count - 1, bias_grad);
      return;
    }
    if (all.count > 0) all.clear(p, p.index());
    for (int64_t r = all.first_row(p.index()); r < all.end_row(p.index()); ++r) row(p, r, all);
  }

 private:
  template <class P>
  TW_INLINE void row(P p, int64_t r, const RowSums& all) const {
    const auto g = grad.row(r), from = x.row(r);
    const auto to = x_grad.row(r);
    const float n = static_cast<float>(x.cols);
    const RowMoments m = RowMoments::of(p, from, eps);
    const bool scaled = bool(weight), weighs = bool(weight_grad), shifts = bool(bias_grad);
    const auto scaled_grad = [&](auto at) {
      const auto v = tile::load(g, at);
      return scaled ? v * tile::load(weight, at) : v;
    };
    const auto normal = [&](auto at) { return (tile::load(from, at) - m.mean) * m.rstd; };
    const float mean = tile::reduce_row(p, tile::Sum{}, x.cols, scaled_grad) / n;
    const float slope = tile::reduce_row(p, tile::Sum{}, x.cols,
                                         [&](auto at) { return scaled_grad(at) * normal(at); }) /
                        n;
    const auto weight_sum = all.partial(p, p.index(), 0);
    const auto bias_sum = all.partial(p, p.index(), all.count - 1);
    tile::for_row(p, x.cols, [&](auto at) {
      const auto v = tile::load(g, at), y = normal(at);
      const auto out = m.rstd * (scaled_grad(at) - mean - y * slope);
      if (weighs) tile::store_cached(weight_sum, at, tile::load(weight_sum, at) + v * y);
      if (shifts) tile::store_cached(bias_sum, at, tile::load(bias_sum, at) + v);
      tile::store(p, to, at, out);
    });
  }
};

}  // namespace tw::kernels
