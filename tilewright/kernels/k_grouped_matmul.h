// The inner dimension in groups, a product for each:
//
//   out[g, :, :] = a[:, ks] b[ks, :] over the ks of group g, float32 accumulation
//
// The gradient of grouped_matmul's matrices. On a CPU the groups are one problem of the matrix
// multiplication skeleton (gemm_cpu.h); elsewhere a program has one row of one product.
#pragma once

#include "tilewright/kernels/row_groups.h"
#include "tilewright/tile/tile.h"
#if !defined(__CUDACC__)
#include "tilewright/kernels/matmul_problem.h"
#endif

namespace tw::kernels {

template <class T>
struct KGroupedMatmul {
  static constexpr int kGpuRegisters = 128;

  View<const T, 2> a;              // [m, k]
  View<const T, 2> b;              // [k, n]
  View<const int32_t, 1> offsets;  // [groups], where each group of the ks ends
  View<const int32_t, 1> starts;   // [groups], or no data: where the group before ends
  View<T, 3> out;                  // [groups, m, n]

  TW_INLINE RowGroups groups() const { return {offsets, starts}; }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan([[maybe_unused]] const Machine& machine) const {
    if constexpr (P::kOnGpu) {
      return tile::plan_of(out.size(2) > 0 ? out.size(0) * out.size(1) : 0).over(out.size(2));
    } else {
#if !defined(__CUDACC__)
      return plan_gemm<P>(problem(), machine);
#endif
    }
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (P::kOnGpu) {
      row(p, index_quotient(p.index(), out.size(1)), p.index());
    } else {
#if !defined(__CUDACC__)
      run_gemm(p, problem());
#endif
    }
  }

 private:
  template <class P>
  TW_INLINE void row(P p, int64_t g, int64_t index) const {
    using V = typename P::template Vec<float>;
    const RowGroups in = groups();
    const View<const T, 1> left = a[index - g * out.size(1)];
    const View<T, 1> to = out[g][index - g * out.size(1)];
    tile::for_row(p, to, [&](auto at) {
      V sum = tile::splat<V>(0.0f);
      for (int64_t k = in.begin(g); k < in.end(g); ++k)
        sum = tile::fma(tile::splat<V>(float(left(k))), tile::load(b[k], at), sum);
      tile::store(p, to, at, sum);
    });
  }

#if !defined(__CUDACC__)
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
#endif
};

}  // namespace tw::kernels
