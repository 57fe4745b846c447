// Gradients of RMSNorm, with r = rsqrt(mean(x^2) + eps) computed again from x:
//
//   x_grad      = r (grad * weight - x r^2 mean(grad * weight * x)) [+ residual_grad]
//   weight_grad = sum over rows of grad * x * r
//
// residual_grad is the gradient of the sum that x is in fused_add_rms_norm: it is added on the way.
#pragma once

#include "tilewright/kernels/row_sums.h"

namespace tw::kernels {

template <class T>
struct RmsNormBackward {
  Rows<const T> grad;           // [*, cols]
  Rows<const T> x;              // [*, cols]
  View<const T, 1> weight;      // [cols]
  Rows<const T> residual_grad;  // [*, cols], or no data
  float eps;
  Rows<T> x_grad;          // [*, cols], may alias grad, x or residual_grad
  View<T, 1> weight_grad;  // [cols], or no data

  TW_INLINE RowSums sums() const { return {x.rows, x.cols, weight_grad ? 1 : 0}; }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return sums().plan();
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if (p.phase() == 1) return sums().fold(p, 0, weight_grad);
    if (weight_grad) sums().clear(p, p.index());
    for (int64_t r = sums().first_row(p.index()); r < sums().end_row(p.index()); ++r) row(p, r);
  }

 private:
  template <class P>
  TW_INLINE void row(P p, int64_t r) const {
    const auto g = grad.row(r), from = x.row(r);
    const auto to = x_grad.row(r);
    const float n = static_cast<float>(x.cols);
    const float squares = tile::reduce_row(p, tile::Sum{}, x.cols, [&](auto at) {
      const auto v = tile::load(from, at);
      return v * v;
    });
    const float product = tile::reduce_row(p, tile::Sum{}, x.cols, [&](auto at) {
      return tile::load(g, at) * tile::load(weight, at) * tile::load(from, at);
    });
    const float rstd = tile::rsqrt(squares / n + eps);
    const float slope = product / n * rstd * rstd;
    const bool is_summed = bool(weight_grad), is_residual = bool(residual_grad);
    const auto sum = sums().partial(p, p.index(), 0);
    const auto rest = is_residual ? residual_grad.row(r) : g;
    tile::for_row(p, x.cols, [&](auto at) {
      const auto v = tile::load(from, at), u = tile::load(g, at);
      auto out = (u * tile::load(weight, at) - v * slope) * rstd;
      if (is_residual) out = out + tile::load(rest, at);
      if (is_summed) tile::store_cached(sum, at, tile::load(sum, at) + u * v * rstd);
      tile::store(p, to, at, out);
    });
  }
};

}  // namespace tw::kernels
