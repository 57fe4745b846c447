// Batched matrix multiplication: out[b] = alpha * x[b] other[b], float32 accumulation, any strides.
//
// Transposes are strides, a broadcast batch is a stride of zero. out is computed by columns instead
// of rows where that suits its layout or its shape: the sums are the same.
#pragma once

#include "tilewright/kernels/gemm_cpu.h"
#include "tilewright/tile/cpu/epilogue.h"

namespace tw::kernels {

template <class T>
struct Matmul {
  View<const T, 3> a;  // [batch, m, k]
  View<const T, 3> b;  // [batch, k, n]
  float alpha;
  View<T, 3> out;  // [batch, m, n]

  template <tile::Program P>
  tile::Plan plan(const Machine& machine) const {
    return plan_gemm<P>(problem(), machine);
  }
  template <tile::Program P>
  void operator()(P p) const {
    run_gemm(p, problem());
  }

  struct Epilogue {
    float alpha;
    Rows<T> out;

    TW_INLINE void prefetch(int64_t row, int rows, int64_t column, int64_t columns) const {
      tile::prefetch_tile(row, rows, column, columns, out);
    }
    template <class P>
    __attribute__((noinline)) void operator()(P p, const float* tile, int64_t row, int rows,
                                              int64_t column, int64_t columns) const {
      tile::store_tile(p, tile, row, rows, column, columns, out,
                       [&](auto v, auto, int64_t) { return v * alpha; });
    }
  };

  /// A matrix of the batch as rows: sizes and strides of one operand.
  template <class E>
  struct Operand {
    E* data;
    int64_t rows, cols, batch_stride, row_stride, col_stride;

    TW_INLINE Rows<E> at(int64_t batch) const {
      Rows<E> matrix;
      matrix.data = data + batch * batch_stride;
      matrix.rows = matrix.lead_sizes[0] = rows;
      matrix.cols = cols;
      matrix.lead_strides[0] = row_stride;
      matrix.col_stride = col_stride;
      return matrix;
    }
  };

  struct Problem {
    using Panels = StridedPanels<T>;
    int64_t batch, m, n, k;
    Operand<const T> left, right;  // [m, k], [n, k]
    Operand<T> result;             // [m, n]
    float alpha;

    TW_INLINE Rows<const T> a(int64_t i) const { return left.at(i); }
    TW_INLINE Panels b(int64_t i) const { return {right.at(i)}; }
    TW_INLINE Epilogue epilogue(int64_t i) const { return {alpha, result.at(i)}; }
  };

  /// Whether to compute the transpose: its rows are contiguous and those of out are not, or n is so
  /// small that the columns of out had better be the rows of a register tile.
  TW_INLINE bool by_columns() const {
    const bool rows_fit = out.stride(2) == 1 || out.size(2) == 1;
    const bool columns_fit = out.stride(1) == 1 || out.size(1) == 1;
    if (columns_fit != rows_fit) return columns_fit;
    return out.size(2) <= 8 && out.size(1) >= 4 * out.size(2);
  }

  TW_INLINE Problem problem() const {
    const int64_t m = out.size(1), n = out.size(2), k = a.size(2);
    const Operand<const T> rows{a.data, m, k, a.stride(0), a.stride(1), a.stride(2)};
    const Operand<const T> columns{b.data, n, k, b.stride(0), b.stride(2), b.stride(1)};
    const Operand<T> result{out.data, m, n, out.stride(0), out.stride(1), out.stride(2)};
    const Operand<T> turned{out.data, n, m, out.stride(0), out.stride(2), out.stride(1)};
    if (by_columns()) return {out.size(0), n, m, k, columns, rows, turned, alpha};
    Problem whole{out.size(0), m, n, k, rows, columns, result, alpha};
    // One right matrix for a batch of stacked left ones is a single, taller multiplication.
    if (b.stride(0) == 0 && a.stride(0) == m * a.stride(1) && out.stride(0) == m * out.stride(1)) {
      whole.m *= whole.batch;
      whole.left.rows = whole.result.rows = whole.m;
      whole.batch = 1;
    }
    return whole;
  }
};

}  // namespace tw::kernels
