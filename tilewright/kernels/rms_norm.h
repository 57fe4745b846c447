// RMSNorm over the last axis. Zhang & Sennrich, arXiv:1910.07467, eq. 4.
//
//   out[r, c] = x[r, c] * rsqrt(mean_c(x[r, :]^2) + eps) * weight[c]
//
// The row is read twice, the second time from cache.
// Statistics are float32 whatever T is: a bf16 sum of 4096 squares loses half its digits.
#pragma once

#include "tilewright/kernels/row_pipeline.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct RmsNorm {
  Rows<const T> x;          // [*, cols]
  View<const T, 1> weight;  // [cols]
  float eps;                // > 0 keeps an all-zero row finite
  Rows<T> out;              // [*, cols], may alias x

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
        [&](const auto& row, const auto& scale, const auto& to) {
          const auto from = tile::keep_row(p, row);
          const float squares = tile::reduce_row(p, tile::Sum{}, from, [&](auto at) {
            const auto v = tile::load(from, at);
            return v * v;
          });
          const float rstd = tile::rsqrt(squares / static_cast<float>(x.cols) + eps);
          tile::for_row(p, from, [&](auto at) {
            tile::store(p, to, at, tile::load(from, at) * rstd * tile::load(scale, at));
          });
        },
        x.row(p.index()), weight, out.row(p.index()));
  }

  template <class P>
  TW_DEVICE void run_rows(P p) const {
    const auto run = [&](const auto& in, const auto& scale, const auto& to) {
      pipeline_rows(
          p, tile::Sum{}, tile::row_group(p, x.rows, x.cols), x.cols,
          [&](int64_t i) { return in.row(i); },
          [](int64_t, const auto& row) {
            return [row](auto at) {
              const auto v = tile::load(row, at);
              return v * v;
            };
          },
          [&](int64_t i, const auto& row, float squares) {
            const float rstd = tile::rsqrt(squares / static_cast<float>(x.cols) + eps);
            return [&p, &scale, row, rstd, target = to.row(i)](auto at) {
              tile::store(p, target, at, tile::load(row, at) * rstd * tile::load(scale, at));
            };
          });
    };
    tile::with_rows(p, run, x, weight, out);
  }
};

}  // namespace tw::kernels
