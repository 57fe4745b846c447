// Rows in groups, each times the matrix of its group:
//
//   out[r, :] = a[r, :] b[g, :, :] for the rows r of group g, float32 accumulation; 0 for rows of
//   none
//
// What experts of a layer do, Shazeer et al., arXiv:1701.06538. On a CPU the groups are one problem
// of the matrix multiplication skeleton (gemm_cpu.h); elsewhere a program has one row.
#pragma once

#include "tilewright/kernels/row_groups.h"
#include "tilewright/tile/tile.h"
#if !defined(__CUDACC__)
#include "tilewright/kernels/matmul_problem.h"
#endif

namespace tw::kernels {

template <class T>
struct GroupedMatmul {
  static constexpr int kGpuRegisters = 128;

  View<const T, 2> a;              // [m, k]
  View<const T, 3> b;              // [groups, k, n]
  View<const int32_t, 1> offsets;  // [groups], where each group of rows ends
  View<const int32_t, 1> starts;   // [groups], or no data: where the group before ends
  View<T, 2> out;                  // [m, n]

  TW_INLINE RowGroups groups() const { return {offsets, starts}; }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan([[maybe_unused]] const Machine& machine) const {
    const int64_t rows = out.size(1) > 0 ? out.size(0) : 0;
    if constexpr (P::kOnGpu) {
      return tile::plan_of(rows).over(out.size(1));
    } else {
#if !defined(__CUDACC__)
      tile::Plan plan = plan_gemm<P>(problem(), machine);
      if (rows > 0 && has_gaps()) plan.grid[plan.phases++] = groups().count() + 1;
      return plan;
#endif
    }
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (P::kOnGpu) {
      row(p, p.index());
    } else {
#if !defined(__CUDACC__)
      const MatmulProblem<T> product = problem();
      if (p.phase() == plan_gemm<P>(product, p.machine()).phases) return clear_gap(p, p.index());
      run_gemm(p, product);
#endif
    }
  }

 private:
  template <class P>
  TW_INLINE void row(P p, int64_t r) const {
    using V = typename P::template Vec<float>;
    const RowGroups in = groups();
    const int64_t g = in.group_of(r);
    const int64_t depth = g < in.count() ? a.size(1) : 0;
    const View<const T, 1> left = a[r];
    const View<T, 1> to = out[r];
    tile::for_row(p, to, [&](auto at) {
      V sum = tile::splat<V>(0.0f);
      for (int64_t k = 0; k < depth; ++k)
        sum = tile::fma(tile::splat<V>(float(left(k))), tile::load(b[g][k], at), sum);
      tile::store(p, to, at, sum);
    });
  }

#if !defined(__CUDACC__)
  TW_INLINE MatmulProblem<T> problem() const {
    const int64_t m = a.size(0), n = out.size(1), k = a.size(1);
    return {.batch = groups().count(),
            .m = groups().largest(),
            .n = n,
            .k = k,
            .left = {a.data, m, k, 0, a.stride(0), a.stride(1)},
            .right = {b.data, n, k, b.stride(0), b.stride(2), b.stride(1)},
            .result = {out.data, m, n, 0, out.stride(0), out.stride(1)},
            .grouped = MatmulProblem<T>::Grouped::kRows,
            .groups = groups()};
  }

  TW_INLINE RowGroups::Stretch gap(int64_t g) const {
    return groups().gap(g, groups().count(), out.size(0));
  }
  TW_INLINE bool has_gaps() const {
    for (int64_t g = 0; g <= groups().count(); ++g)
      if (gap(g).begin < gap(g).end) return true;
    return false;
  }
  template <class P>
  TW_INLINE void clear_gap(P p, int64_t g) const {
    using V = typename P::template Vec<float>;
    const RowGroups::Stretch rows = gap(g);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const View<T, 1> to = out[r];
      tile::for_row(p, to, [&](auto at) { tile::store(p, to, at, V{}); });
    }
  }
#endif
};

}  // namespace tw::kernels
