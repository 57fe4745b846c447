// What a linear layer does to a tile of sums: activation(sum * scales + bias) + residual.
#pragma once

#include "tilewright/kernels/activation.h"
#include "tilewright/tile/cpu/epilogue.h"

namespace tw::kernels {

/// Any matrix multiplication that ends in a linear layer's output may call this on its tiles:
/// float32, tile::kPanelWidth apart, rows x columns of them valid.
template <class T>
struct LinearEpilogue {
  View<const T, 1> bias;   // [n], or absent
  Rows<const T> residual;  // [m, n], or absent
  Activation activation;
  Rows<T> out;                          // [m, n], may alias residual
  Rows<const float> row_scale{};        // [m], or absent
  View<const float, 1> column_scale{};  // [n], or absent

  template <class P>
  TW_INLINE void prefetch(P, int64_t row, int rows, int64_t column, int64_t columns) const {
    tile::prefetch_tile(row, rows, column, columns, out);
  }
  template <class P>
  __attribute__((noinline)) void operator()(P p, const float* tile, int64_t row, int rows,
                                            int64_t column, int64_t columns) const {
    const bool scales = row_scale || column_scale;
    with_activation(activation, [&](auto activate) {
      tile::store_tile(p, tile, row, rows, column, columns, out, [&](auto v, auto at, int64_t r) {
        if (scales) v = scaled(v, at, r);
        if (bias) v += tile::load(bias, at);
        v = activate(v);
        if (residual) v += tile::load(residual.row(r), at);
        return v;
      });
    });
  }

 private:
  template <class V, class At>
  TW_INLINE V scaled(V v, At at, int64_t row) const {
    if (row_scale) v = v * row_scale(row, 0);
    if (column_scale) v = v * tile::load(column_scale, at);
    return v;
  }
};

}  // namespace tw::kernels
