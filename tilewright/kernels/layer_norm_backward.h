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
  static constexpr int kGpuRegisters = 128;  // two rows are kept

  Rows<const T> grad;       // [*, cols]
  Rows<const T> x;          // [*, cols]
  View<const T, 1> weight;  // [cols], or no data: 1
  float eps;
  Rows<T> x_grad;          // [*, cols], may alias grad or x
  View<T, 1> weight_grad;  // [cols], or no data
  View<T, 1> bias_grad;    // [cols], or no data

  template <class P>
  TW_INLINE RowSums<P> sums() const {
    return {x.rows, x.cols, (weight_grad ? 1 : 0) + (bias_grad ? 1 : 0)};
  }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return sums<P>().plan();
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const RowSums<P> all = sums<P>();
    if (p.phase() > 0) {
      if (weight_grad) all.fold(p, 0, weight_grad);
      if (bias_grad) all.fold(p, all.count - 1, bias_grad);
      return;
    }
    all.begin(p);
    for (int64_t r = all.first_row(p.index()); r < all.end_row(p.index()); ++r) row(p, r, all);
    all.end(p);
  }

 private:
  template <class P>
  TW_INLINE void row(P p, int64_t r, const RowSums<P>& all) const {
    const bool scaled = bool(weight), weighs = bool(weight_grad), shifts = bool(bias_grad);
    const float n = static_cast<float>(x.cols);
    const auto run = [&](const auto& grads, const auto& in, const auto& scale, const auto& to,
                         const auto& weight_sum, const auto& bias_sum) {
      const auto from = tile::fetch_row(p, in), g = tile::fetch_row(p, grads);
      const RowMoments m = RowMoments::of(p, from, eps);
      const auto normal = [&](auto at) { return (tile::load(from, at) - m.mean) * m.rstd; };
      const auto sums = tile::sum_two(p, from, [&](auto at) {
        auto v = tile::load(g, at);
        if (scaled) v = v * tile::load(scale, at);
        return tile::two_of(v, v * normal(at));
      });
      const float mean = sums.first / n, slope = sums.second / n;
      tile::for_row(p, from, [&](auto at) {
        const auto v = tile::load(g, at), y = normal(at);
        const auto out = m.rstd * ((scaled ? v * tile::load(scale, at) : v) - mean - y * slope);
        if (weighs) tile::store_cached(weight_sum, at, tile::load(weight_sum, at) + v * y);
        if (shifts) tile::store_cached(bias_sum, at, tile::load(bias_sum, at) + v);
        tile::store(p, to, at, out);
      });
    };
    // What is absent is not read: any row will do.
    const auto g = grad.row(r);
    tile::with_rows(p, run, g, x.row(r), scaled ? weight : g, x_grad.row(r), all.sum(p, 0),
                    all.sum(p, all.count - 1));
  }
};

}  // namespace tw::kernels
