// The inner dimension in groups, a product for each:
//
//   out[g, :, :] = a[:, ks] b[ks, :] over the ks of group g, float32 accumulation
//
// The gradient of grouped_matmul's matrices. On a CPU the groups are one problem of the matrix
// multiplication skeleton (gemm_cpu.h); on a GPU a batch of products
// (runtime/cuda/gemm_k_grouped.cc).
#pragma once

#include "tilewright/kernels/matmul_problem.h"
#include "tilewright/kernels/row_groups.h"

namespace tw::kernels {

template <class T>
struct KGroupedMatmul {
  View<const T, 2> a;              // [m, k]
  View<const T, 2> b;              // [k, n]
  View<const int32_t, 1> offsets;  // [groups], where each group of the ks ends
  View<const int32_t, 1> starts;   // [groups], or no data: where the group before ends
  View<T, 3> out;                  // [groups, m, n]

  TW_INLINE RowGroups groups() const { return {offsets, starts}; }

  template <tile::Program P>
  tile::Plan plan(const Machine& machine) const {
    return plan_gemm<P>(problem(), machine);
  }
  template <tile::Program P>
  void operator()(P p) const {
    run_gemm(p, problem());
  }

 private:
  TW_INLINE MatmulProblem<T> problem() const {
    const int64_t m = a.size(0), n = b.size(1), k = a.size(1);
    return {.batch = groups().count(),
            .m = m,
            .n = n,
            .k = groups().largest(),
            .left = {a.data, m, k, 0, a.stride(0), a.stride(1)},
            .right = {b.data, n, k, 0, b.stride(1), b.stride(0)},
            .result = {out.data, m, n, out.stride(0), out.stride(1), out.stride(2)},
            .grouped = MatmulProblem<T>::Grouped::kDepth,
            .groups = groups()};
  }
};

}  // namespace tw::kernels
