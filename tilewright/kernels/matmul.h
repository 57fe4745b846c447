// Batched matrix multiplication: out[b] = alpha * x[b] other[b], float32 accumulation, any strides.
//
// Transposes are strides, a broadcast batch is a stride of zero. out is computed by columns instead
// of rows where that suits its layout or its shape: the sums are the same.
#pragma once

#include "tilewright/kernels/matmul_problem.h"

namespace tw::kernels {

template <class T>
struct Matmul {
  View<const T, 3> a;  // [batch, m, k]
  View<const T, 3> b;  // [batch, k, n]
  tile::compute_t<T> alpha;
  View<T, 3> out;  // [batch, m, n]

  template <tile::Program P>
  tile::Plan plan(const Machine& machine) const {
    return plan_gemm<P>(problem(), machine);
  }
  template <tile::Program P>
  void operator()(P p) const {
    run_gemm(p, problem());
  }

  using Problem = MatmulProblem<T>;
  template <class E>
  using Operand = typename Problem::template Operand<E>;

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
