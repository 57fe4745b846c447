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

template <class T>
struct LayerNorm {
  Rows<const T> x;          // [*, cols]
  View<const T, 1> weight;  // [cols], or no data: 1
  View<const T, 1> bias;    // [cols], or no data: 0
  tile::compute_t<T> eps;
  Rows<T> out;  // [*, cols], may alias x

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    return tile::plan_of(tile::row_groups<P>(x.rows, x.cols, machine),
                         tile::kept_bytes<P, float, T>(x.cols))
        .over(x.cols);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const tile::RowGroup group = tile::row_group(p, x.rows, x.cols);
    if (group.first >= group.last) return;
    const bool scaled = bool(weight), shifted = bool(bias);
    const float n = static_cast<float>(x.cols);
    const auto run = [&](const auto& in, const auto& scale, const auto& shift, const auto& to) {
      pipeline_rows(
          p, tile::Sum{}, group,
          [&](int64_t i) {
            const auto row = tile::keep_row(p, in.row(i));
            const float sum = tile::reduce_row(p, tile::Sum{}, row,
                                               [&](auto at) { return tile::load(row, at); });
            return centered(row, sum / n);
          },
          [](int64_t, const auto& row) {
            return [&row](auto at) {
              const auto d = row.difference(at);
              return d * d;
            };
          },
          [&](int64_t i, const auto& row, float squares) {
            const float rstd = tile::rsqrt(squares / n + eps);
            return [&, rstd, target = to.row(i)](auto at) {
              auto v = row.difference(at) * rstd;
              if (scaled) v = v * tile::load(scale, at);
              if (shifted) v = v + tile::load(shift, at);
              tile::store(p, target, at, v);
            };
          });
    };
    // What is absent is not read: any row will do.
    const auto any = x.row(group.first);
    tile::with_rows(p, run, x, scaled ? weight : any, shifted ? bias : any, out);
  }

 private:
  /// A row and its mean.
  template <class Row>
  struct Centered : Row {
    float mean;

    template <class At>
    TW_INLINE auto difference(At at) const {
      return tile::load(static_cast<const Row&>(*this), at) - mean;
    }
  };
  template <class Row>
  TW_INLINE static Centered<Row> centered(const Row& row, float mean) {
    return {row, mean};
  }
};

}  // namespace tw::kernels
