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
  static constexpr int kGpuSpans = 2,
                       kGpuRegisters = 128;  // of two rows, of the weight and of the sums

  Rows<const T> grad;           // [*, cols]
  Rows<const T> x;              // [*, cols]
  View<const T, 1> weight;      // [cols]
  Rows<const T> residual_grad;  // [*, cols], or no data
  tile::compute_t<T> eps;
  Rows<T> x_grad;          // [*, cols], may alias grad, x or residual_grad
  View<T, 1> weight_grad;  // [cols], or no data

  template <class P>
  TW_INLINE RowSums<P> sums() const {
    return {x.rows, x.cols, weight_grad ? 1 : 0};
  }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return sums<P>().plan();
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const RowSums<P> all = sums<P>();
    if (p.phase() > 0) return all.template fold<T>(p, {weight_grad, {}});
    rows(p, all.first_row(p.index()), all.end_row(p.index()), all.sum(p, 0));
  }

 private:
  /// The rows [first, last); the two after one are on their way while it is reduced.
  template <class P>
  TW_INLINE void rows(P p, int64_t first, int64_t last, const View<float, 1>& sum_row) const {
    const float n = static_cast<float>(x.cols);
    const bool is_summed = bool(weight_grad), is_residual = bool(residual_grad);
    const auto run = [&](const auto& grads, const auto& in, const auto& weights, const auto& others,
                         const auto& to, const auto& sum_to) {
      const auto scale = tile::fetch_row(p, weights);
      auto sum = tile::hold_sums(p, sum_to);
      const auto order = [&](int64_t r) {
        if (r >= last) return;
        tile::fetch_later(p, in.row(r));
        tile::fetch_later(p, grads.row(r));
      };
      order(first + 1);
      for (int64_t r = first; r < last; ++r) {
        const auto from = tile::fetch_row(p, in.row(r)), g = tile::fetch_row(p, grads.row(r));
        order(r + 2);
        const auto sums = tile::sum_two(p, from, [&](auto at) {
          const auto v = tile::load(from, at);
          return tile::two_of(v * v, tile::load(g, at) * tile::load(scale, at) * v);
        });
        const float rstd = tile::rsqrt(sums.first / n + eps);
        const float slope = sums.second / n * rstd * rstd;
        const auto other = others.row(r);
        const auto target = to.row(r);
        tile::for_row(p, from, [&](auto at) {
          const auto v = tile::load(from, at), u = tile::load(g, at);
          auto out = (u * tile::load(scale, at) - v * slope) * rstd;
          if (is_residual) out = out + tile::load(other, at);
          if (is_summed) tile::add_to(sum, at, u * v * rstd);
          tile::store(p, target, at, out);
        });
      }
      tile::put_sums(p, sum);
    };
    // What is absent is not read: any rows will do.
    const Rows<const T>& rest = is_residual ? residual_grad : grad;
    tile::with_rows(p, run, grad, x, weight, rest, x_grad, sum_row);
  }
};

}  // namespace tw::kernels
