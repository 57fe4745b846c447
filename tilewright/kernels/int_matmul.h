// Batched matrix multiplication of signed bytes: out[b] = a[b] b[b], sums modulo 2^32, any strides.
//
// On a CPU it is a problem of the matrix multiplication skeleton (gemm_cpu.h); elsewhere a program
// has one row of out.
#pragma once

#include "tilewright/core/view.h"
#include "tilewright/tile/tile.h"
#if !defined(__CUDACC__)
#include "tilewright/kernels/matmul_problem.h"
#endif

namespace tw::kernels {

struct IntMatmul {
  static constexpr int kGpuRegisters = 128;

  View<const int8_t, 3> a;  // [batch, m, k]
  View<const int8_t, 3> b;  // [batch, k, n]
  View<int32_t, 3> out;     // [batch, m, n]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan([[maybe_unused]] const Machine& machine) const {
    if constexpr (P::kOnGpu) {
      const int64_t columns = out.size(2);
      return tile::plan_of(columns > 0 ? out.size(0) * out.size(1) : 0).over(columns);
    } else {
#if !defined(__CUDACC__)
      return plan_gemm<P>(problem(), machine);
#endif
    }
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (P::kOnGpu) {
      row(p, p.index());
    } else {
#if !defined(__CUDACC__)
      run_gemm(p, problem());
#endif
    }
  }

 private:
  template <class P>
  TW_INLINE void row(P p, int64_t index) const {
    using V = typename P::template Vec<uint32_t>;  // which wraps around
    const int64_t batch = index_quotient(index, out.size(1)), r = index - batch * out.size(1);
    const View<const int8_t, 1> left = a[batch][r];
    const View<const int8_t, 2> right = b[batch];
    const View<int32_t, 1> to = out[batch][r];
    tile::for_row<uint32_t>(p, to, [&](auto at) {
      V sum = tile::splat<V>(0u);
      for (int64_t k = 0; k < left.size(0); ++k) {
        const int x = left(k);
        TW_UNROLL
        for (int i = 0; i < decltype(at)::kLanes; ++i)
          if (i < at.count) sum[i] += uint32_t(x * int(right(k, at.offset + i)));
      }
      TW_UNROLL
      for (int i = 0; i < decltype(at)::kLanes; ++i)
        if (i < at.count) to(at.offset + i) = int32_t(sum[i]);
    });
  }

#if !defined(__CUDACC__)
  TW_INLINE MatmulProblem<int8_t, int32_t> problem() const {
    return matmul_problem<int8_t>(a, b, out);
  }
#endif
};

}  // namespace tw::kernels
