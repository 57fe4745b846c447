// Layer normalization over the last axis. Ba et al., arXiv:1607.06450, eq. 4.
//
//   out[r, c] = (x[r, c] - mean_c x[r, :]) * rsqrt(var_c x[r, :] + eps) * weight[c] + bias[c]
//
// The mean first and then the squares of the differences, both from cache: the mean of squares less
// the square of the mean would lose all digits where the mean is large.
#pragma once

#include "tilewright/kernels/row_pipeline.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// Mean and 1 / sqrt(variance + eps) of a row.
struct RowMoments {
  float mean, rstd;

  template <class P, class Row>
  TW_INLINE static RowMoments of(P p, const Row& row, float eps) {
    const float n = static_cast<float>(row.size(0));
    const float mean =
        tile::reduce_row<float, 4>(p, tile::Sum{}, row,
                                   [&](auto at) TW_INLINED { return tile::load(row, at); }) /
        n;
    const float squares = tile::reduce_row<float, 4>(p, tile::Sum{}, row, [&](auto at) TW_INLINED {
      const auto d = tile::load(row, at) - mean;
      return d * d;
    });
    return {mean, tile::rsqrt(squares / n + eps)};
  }
};

template <class T>
struct LayerNorm {
  static constexpr int kGpuSpans = sizeof(T) <= 2 ? 4 : 2,
                       kGpuRegisters = 128;  // of two rows, weight and bias

  Rows<const T> x;          // [*, cols]
  View<const T, 1> weight;  // [cols], or no data: 1
  View<const T, 1> bias;    // [cols], or no data: 0
  tile::compute_t<T> eps;
  Rows<T> out;  // [*, cols], may alias x

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    const View<const T, 1> any = x.row(0);  // what is absent is not read: any row will do
    return f(x, weight ? weight : any, bias ? bias : any, out);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    return tile::plan_of(tile::row_groups<P>(x.rows, x.cols, machine)).over(x.cols);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const tile::RowGroup group = tile::row_group(p, x.rows, x.cols);
    if (group.first >= group.last) return;
    const bool fetches = outgrows_nearest_cache<T>(p, x.cols);
    const bool scaled = bool(weight), shifted = bool(bias);
    const auto run = [&](const auto& in, const auto& weights, const auto& biases, const auto& to) {
      const auto scale = tile::fetch_row(p, weights), shift = tile::fetch_row(p, biases);
      auto next = tile::fetch_row(p, in.row(group.first));
      for (int64_t r = group.first; r < group.last; ++r) {
        const auto row = next;
        if (r + 1 < group.last) next = tile::fetch_row(p, in.row(r + 1));
        const RowMoments moments = RowMoments::of(p, row, eps);
        const auto target = to.row(r);
        tile::for_row<float, 2>(p, row, [&](auto at) TW_INLINED {
          if (fetches) tile::prefetch(p, next, at);
          auto v = (tile::load(row, at) - moments.mean) * moments.rstd;
          if (scaled) v = v * tile::load(scale, at);
          if (shifted) v = v + tile::load(shift, at);
          tile::store(p, target, at, v);
        });
      }
    };
    tile::run_rows(p, *this, run);
  }
};

}  // namespace tw::kernels
