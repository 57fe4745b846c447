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
  tile::compute_t<T> eps;
  Rows<T> out;           // [*, cols], may alias x
  Rows<T> residual_out;  // [*, cols], may alias residual

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(x, residual, weight, residual_out, out);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    return tile::plan_of(tile::row_groups<P>(x.rows, x.cols, machine),
                         tile::kept_bytes<P, float, T>(x.cols))
        .over_row(x.cols, tile::kKeptColumns<P, float, T>);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const auto run = [&](const auto& a, const auto& b, const auto& scale, const auto& sums,
                         const auto& to) {
      pipeline_rows<float, 2>(
          p, tile::Sum{}, tile::row_group(p, x.rows, x.cols),
          [&](int64_t i) { return tile::new_row(p, sums.row(i)); },
          [&](int64_t i, auto& sum) {
            return [&sum, left = tile::fetch_row(p, a.row(i)),
                    right = tile::fetch_row(p, b.row(i))](auto at) TW_INLINED {
              tile::store_cached(sum, at, tile::load(left, at) + tile::load(right, at));
              const auto v = tile::load(sum, at);
              return v * v;
            };
          },
          [&](int64_t i, const auto& sum, float squares) {
            const float rstd = tile::rsqrt(squares / static_cast<float>(x.cols) + eps);
            return [&p, &scale, &sum, rstd, row = to.row(i)](auto at) TW_INLINED {
              tile::store(p, row, at, tile::load(sum, at) * rstd * tile::load(scale, at));
            };
          });
    };
    tile::run_rows(p, *this, run);
  }
};

}  // namespace tw::kernels
