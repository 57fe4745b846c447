// grouped_matmul whose rows go to other rows of out:
//
//   out[to[r], :] = w[to[r]] a[r, :] b[g, :, :] for the rows r of group g, float32 accumulation; 0
//   for rows of none
//
// The last product of experts of a layer, in the order of their tokens. Hopper has a schedule for
// it (gemm_grouped_sm90.h); on another GPU a program has one row. On a CPU it runs as a sequence of
// other kernels (ops/grouped_matmul_unpermute.h).
#pragma once

#include "tilewright/kernels/row_groups.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct GroupedMatmulUnpermute {
  static constexpr int kGpuRegisters = 128;

  View<const T, 2> a;              // [m, k]
  View<const T, 3> b;              // [groups, k, n]
  View<const int32_t, 1> offsets;  // [groups], where each group of rows ends
  View<const int32_t, 1> starts;   // [groups], or no data: where the group before ends
  View<const int32_t, 1> to_rows;  // [m], of out, or no data: each row its own
  View<const float, 1> weights;    // of rows of out, or no data: 1
  int64_t out_rows;                // of out; negative: m
  View<T, 2> out;                  // [out_rows, n]

  TW_INLINE RowGroups groups() const { return {offsets, starts}; }
  TW_INLINE ScatteredRows scattered() const { return {a.size(0), to_rows, weights}; }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(P::kOnGpu && out.size(1) > 0 ? a.size(0) : 0).over(out.size(1));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (P::kOnGpu) row(p, p.index());
  }

 private:
  template <class P>
  TW_INLINE void row(P p, int64_t r) const {
    using V = typename P::template Vec<float>;
    const ScatteredRows scattering = scattered();
    const int64_t d = scattering.destination(r, out.size(0));
    if (d < 0) return;
    const RowGroups in = groups();
    const int64_t g = in.group_of(r);
    const bool is_of_group = g < in.count();
    const int64_t depth = is_of_group ? a.size(1) : 0;
    const float w = is_of_group ? scattering.weight(d) : 1.0f;
    const View<const T, 1> left = a[r];
    const View<T, 1> to = out[d];
    tile::for_row(p, to, [&](auto at) {
      V sum = tile::splat<V>(0.0f);
      for (int64_t k = 0; k < depth; ++k)
        sum = tile::fma(tile::splat<V>(float(left(k))), tile::load(b[g][k], at), sum);
      tile::store(p, to, at, sum * tile::splat<V>(w));
    });
  }
};

}  // namespace tw::kernels
