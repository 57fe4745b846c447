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
  tile::compute_t<T> eps;   // > 0 keeps an all-zero row finite
  Rows<T> out;              // [*, cols], may alias x

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(x, weight, out);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    return tile::plan_of(tile::row_groups<P>(x.rows, x.cols, machine),
                         tile::kept_bytes<P, float, T>(x.cols))
        .over_row(x.cols, tile::kKeptColumns<P, float, T>);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const auto run = [&](const auto& in, const auto& scale, const auto& to) {
      const auto group = tile::row_group(p, x.rows, x.cols);
      const auto open = [&](int64_t i) { return tile::keep_row(p, in.row(i)); };
      const auto read = [](int64_t, const auto& row) {
        return [&row](auto at) TW_INLINED {
          const auto v = tile::load(row, at);
          return v * v;
        };
      };
      const auto write = [&](int64_t i, const auto& row, float squares) {
        const float rstd = tile::rsqrt(squares / static_cast<float>(x.cols) + eps);
        return [&p, &scale, &row, rstd, target = to.row(i)](auto at) TW_INLINED {
          tile::store(p, target, at, tile::load(row, at) * rstd * tile::load(scale, at));
        };
      };
      if (outgrows_nearest_cache<T>(p, x.cols))
        rows_in_turn<float, 2>(p, tile::Sum{}, group, open, read, write);
      else
        pipeline_rows<float, 2>(p, tile::Sum{}, group, open, read, write);
    };
    tile::run_rows(p, *this, run);
  }
};

}  // namespace tw::kernels
