// Batched matrix multiplication: out[b] = alpha * x[b] other[b] + beta * addend[b], float32
// accumulation, any strides.
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
  View<const T, 3> addend;  // [batch, m, n], or absent
  tile::compute_t<T> beta;  // 0: what addend holds does not matter
  View<T, 3> out;           // [batch, m, n], may alias addend

  template <tile::Program P>
  tile::Plan plan(const Machine& machine) const {
    return plan_gemm<P>(problem(), machine);
  }
  template <tile::Program P>
  void operator()(P p) const {
    run_gemm(p, problem());
  }

  TW_INLINE MatmulProblem<T> problem() const {
    return matmul_problem<T>(a, b, out, {alpha, beta}, added());
  }
  /// The addend, if it counts.
  TW_INLINE View<const T, 3> added() const { return beta != 0 ? addend : View<const T, 3>{}; }
};

}  // namespace tw::kernels
