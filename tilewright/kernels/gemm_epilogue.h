// What may be done to a sum of a matrix multiplication before it is rounded. Functors of one
// element: epilogue(sum, row, column, batch). Freestanding.
#pragma once

#include "tilewright/core/view.h"

namespace tw::kernels {

/// alpha times the product.
struct GemmScale {
  static constexpr bool kLong = false;  // too much code to be repeated for every sum of a thread
  float alpha;

  TW_INLINE float operator()(float x, int64_t, int64_t, int64_t) const { return x * alpha; }
};

/// A linear layer's: activation(x + bias) + residual.
template <class T, class Activate>
struct GemmLinear {
  static constexpr bool kLong = true;
  View<const T, 1> bias;      // [n], or absent
  View<const T, 2> residual;  // [m, n], or absent
  int64_t rows, columns;      // of out; tiles reach beyond

  TW_INLINE float operator()(float x, int64_t row, int64_t column, int64_t) const {
    if (row >= rows || column >= columns) return x;
    if (bias) x += float(bias(column));
    x = Activate{}(x);
    return residual ? x + float(residual(row, column)) : x;
  }
};

}  // namespace tw::kernels
