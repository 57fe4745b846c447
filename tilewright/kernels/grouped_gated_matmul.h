// Rows in groups, each times the two matrices of its group, the first product activated and
// multiplied by the second, in float32:
//
//   out[r, n] = f(a[q, :] b[g, :, n]) * (a[q, :] b[g, :, N + n]) for the rows r of group g, where q
//   is r or the number given for it; 0 for rows of none
//
// The first half of what experts of a layer do, gated as in Shazeer, arXiv:2002.05202. Hopper has a
// schedule for it (gemm_grouped_sm90.h); on another GPU a program has one row. On a CPU it runs as
// a sequence of other kernels (ops/grouped_gated_matmul.h).
#pragma once

#include "tilewright/kernels/gated_activation.h"
#include "tilewright/kernels/row_groups.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct GroupedGatedMatmul {
  static constexpr int kGpuRegisters = 128;

  View<const T, 2> a;              // [*, k]
  View<const T, 3> b;              // [groups, k, 2 n]
  View<const int32_t, 1> offsets;  // [groups], where each group of rows ends
  View<const int32_t, 1> starts;   // [groups], or no data: where the group before ends
  View<const int32_t, 1> rows;     // [m], of a, or no data: each row its own
  int activation;                  // a GatedActivation
  View<T, 2> out;                  // [m, n]

  TW_INLINE RowGroups groups() const { return {offsets, starts}; }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(P::kOnGpu && out.size(1) > 0 ? out.size(0) : 0).over(out.size(1));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (P::kOnGpu)
      with_activation(GatedActivation(activation), [&](auto f) { row(p, p.index(), f); });
  }

 private:
  template <class P, class F>
  TW_INLINE void row(P p, int64_t r, F f) const {
    using V = typename P::template Vec<float>;
    const RowGroups in = groups();
    const int64_t g = in.group_of(r), n = out.size(1);
    const int64_t depth = g < in.count() ? a.size(1) : 0;
    const View<const T, 1> left = a[depth > 0 ? row_of(p, r) : 0];
    const View<T, 1> to = out[r];
    tile::for_row(p, to, [&](auto at) {
      V gate = tile::splat<V>(0.0f), up = gate;
      for (int64_t k = 0; k < depth; ++k) {
        const V x = tile::splat<V>(float(left(k)));
        const View<const T, 1> both = b[g][k];
        gate = tile::fma(x, tile::load(both.part(0, n), at), gate);
        up = tile::fma(x, tile::load(both.part(n, n), at), up);
      }
      tile::store(p, to, at, f(gate) * up);
    });
  }
  template <class P>
  TW_INLINE int64_t row_of(P p, int64_t r) const {
    if (!rows) return r;
    tile::require_index(p, rows(r), a.size(0));
    return rows(r);
  }
};

}  // namespace tw::kernels
