// Matrices of positive numbers whose rows and columns sum to one, by dividing by either in turn
// (Sinkhorn and Knopp, 1967; for residual streams, arXiv:2512.24880, eq. 9):
//
//   m = exp(x - largest of its row); repeat: m /= sum of its row + eps, m /= sum of its column +
//   eps
//
// One program per matrix. They are tiny: plain loops on a CPU; on a GPU see sinkhorn_gpu.h.
#pragma once

#include "tilewright/kernels/row_logsumexp.h"
#include "tilewright/kernels/sinkhorn_gpu.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct Sinkhorn {
  static constexpr int kGpuRegisters = 128;

  View<const T, 3> x;  // [batch, rows, cols]
  int64_t iterations;
  float eps;
  View<T, 3> out;  // [batch, rows, cols]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if constexpr (P::kOnGpu) return SinkhornOnGpu<P, T>{x, iterations, eps, out}.plan();
    const int64_t elements = x.size(1) * x.size(2);
    return tile::plan_of(elements > 0 ? x.size(0) : 0, elements * int64_t{sizeof(float)});
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if defined(__CUDACC__)
    SinkhornOnGpu<P, T>{x, iterations, eps, out}(p);
#else
    const int64_t rows = x.size(1), cols = x.size(2);
    float* const m = p.template scratch<float>();
    for (int64_t r = 0; r < rows; ++r) {
      const View<const T, 1> row = x[p.index()][r];
      float high = -__builtin_inff();
      for (int64_t c = 0; c < cols; ++c) high = float(row(c)) > high ? float(row(c)) : high;
      for (int64_t c = 0; c < cols; ++c)
        m[r * cols + c] = scalar_exp<float, P>(float(row(c)) - high);
    }
    for (int64_t i = 0; i < iterations; ++i) {
      divide(m, rows, cols, cols, 1);
      divide(m, cols, rows, 1, cols);
    }
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) out(p.index(), r, c) = T(m[r * cols + c]);
#endif
  }

 private:
  /// Each of `lines` of so many elements by its sum.
  TW_INLINE void divide(float* m, int64_t lines, int64_t count, int64_t next, int64_t step) const {
    for (int64_t line = 0; line < lines; ++line) {
      float sum = 0;
      for (int64_t i = 0; i < count; ++i) sum += m[line * next + i * step];
      for (int64_t i = 0; i < count; ++i) m[line * next + i * step] /= sum + eps;
    }
  }
};

}  // namespace tw::kernels
