// Residual addition and RMSNorm in one pass over the row.
//
//   residual_out = x + residual          (rounded to T once, as the separate addition would)
//   out          = rms_norm(residual_out) * weight
#pragma once

#include "tilewright/kernels/row_pipeline.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct FusedAddRmsNorm {
  static constexpr int kGpuRegisters = 128;  // three rows are kept

  Rows<const T> x;          // [*, cols]
  Rows<const T> residual;   // [*, cols]
  View<const T, 1> weight;  // [cols]
  float eps;
  Rows<T> out;           // [*, cols], may alias x
  Rows<T> residual_out;  // [*, cols], may alias residual

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    if constexpr (P::kOnGpu) return tile::plan_of(x.rows).over(x.cols);
    return tile::plan_of(tile::row_groups<P>(x.rows, x.cols, machine));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (P::kOnGpu)
      keep_row(p);
    else
      run_rows(p);
  }

 private:
  /// On a GPU a program has one row, which stays in registers.
  template <class P>
  TW_DEVICE void keep_row(P p) const {
    tile::with_rows(
        p,
        [&](const auto& x_row, const auto& residual_row, const auto& scale, const auto& to,
            const auto& added) {
          const auto a = tile::keep_row(p, x_row);
          const auto b = tile::keep_row(p, residual_row);
          auto sum = tile::new_row(p, added);
          const float squares = tile::reduce_row(p, tile::Sum{}, sum, [&](auto at) {
            tile::store_cached(sum, at, tile::load(a, at) + tile::load(b, at));
            const auto v = tile::load(sum, at);
            return v * v;
          });
          const float rstd = tile::rsqrt(squares / static_cast<float>(x.cols) + eps);
          tile::for_row(p, sum, [&](auto at) {
            tile::store(p, to, at, tile::load(sum, at) * rstd * tile::load(scale, at));
          });
        },
        x.row(p.index()), residual.row(p.index()), weight, out.row(p.index()),
        residual_out.row(p.index()));
  }

  template <class P>
  TW_DEVICE void run_rows(P p) const {
    const auto run = [&](const auto& a, const auto& b, const auto& scale, const auto& sums,
                         const auto& to) {
      pipeline_rows(
          p, tile::Sum{}, tile::row_group(p, x.rows, x.cols), x.cols,
          [&](int64_t i) { return sums.row(i); },
          [&](int64_t i, const auto& sum) {
            return [sum, left = a.row(i), right = b.row(i)](auto at) {
              tile::store_cached(sum, at, tile::load(left, at) + tile::load(right, at));
              const auto v = tile::load(sum, at);
              return v * v;
            };
          },
          [&](int64_t i, const auto& sum, float squares) {
            const float rstd = tile::rsqrt(squares / static_cast<float>(x.cols) + eps);
            return [&p, &scale, sum, rstd, row = to.row(i)](auto at) {
              tile::store(p, row, at, tile::load(sum, at) * rstd * tile::load(scale, at));
            };
          });
    };
    tile::with_rows(p, run, x, residual, weight, residual_out, out);
  }
};

}  // namespace tw::kernels
