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
  static constexpr int kGpuSpans = 2,
                       kGpuRegisters = 128;  // of two rows, of the weight and of two sums

  Rows<const T> grad;       // [*, cols]
  Rows<const T> x;          // [*, cols]
  View<const T, 1> weight;  // [cols], or no data: 1
  tile::compute_t<T> eps;
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
    if (p.phase() > 0)
      return all.template fold<T>(p, {weight_grad ? weight_grad : bias_grad, bias_grad});
    rows(p, all.first_row(p.index()), all.end_row(p.index()), all);
  }

 private:
  /// The rows [first, last); the two after one are on their way while it is reduced.
  template <class P>
  TW_INLINE void rows(P p, int64_t first, int64_t last, const RowSums<P>& all) const {
    const bool scaled = bool(weight), weighs = bool(weight_grad), shifts = bool(bias_grad);
    const float n = static_cast<float>(x.cols);
    const auto run = [&](const auto& grads, const auto& in, const auto& weights, const auto& to,
                         const auto& weight_sum_to, const auto& bias_sum_to) {
      const auto scale = tile::fetch_row(p, weights);
      auto weight_sum = tile::hold_sums(p, weight_sum_to);
      auto bias_sum = tile::hold_sums(p, bias_sum_to);
      const auto order = [&](int64_t r) {
        if (r >= last) return;
        tile::fetch_later(p, in.row(r));
        tile::fetch_later(p, grads.row(r));
      };
      order(first + 1);
      for (int64_t r = first; r < last; ++r) {
        const auto from = tile::fetch_row(p, in.row(r)), g = tile::fetch_row(p, grads.row(r));
        order(r + 2);
        const auto scaled_at = [&](auto at) {
          auto v = tile::load(g, at);
          if (scaled) v = v * tile::load(scale, at);
          return v;
        };
        const auto sums = tile::sum_two(
            p, from, [&](auto at) { return tile::two_of(tile::load(from, at), scaled_at(at)); });
        const float mean = sums.first / n, grad_mean = sums.second / n;
        const auto squares = tile::sum_two(p, from, [&](auto at) {
          const auto d = tile::load(from, at) - mean;
          return tile::two_of(d * d, scaled_at(at) * d);
        });
        const float rstd = tile::rsqrt(squares.first / n + eps);
        const float slope = squares.second / n * rstd;
        const auto target = to.row(r);
        tile::for_row(p, from, [&](auto at) {
          const auto v = tile::load(g, at), y = (tile::load(from, at) - mean) * rstd;
          const auto out = rstd * (scaled_at(at) - grad_mean - y * slope);
          if (weighs) tile::add_to(weight_sum, at, v * y);
          if (shifts) tile::add_to(bias_sum, at, v);
          tile::store(p, target, at, out);
        });
      }
      if (weighs) tile::put_sums(p, weight_sum);
      if (shifts) tile::put_sums(p, bias_sum);
    };
    // What is absent is not read: any row will do.
    tile::with_rows(p, run, grad, x, scaled ? weight : grad.row(0), x_grad, all.sum(p, 0),
                    all.sum(p, all.count - 1));
  }
};

}  // namespace tw::kernels
