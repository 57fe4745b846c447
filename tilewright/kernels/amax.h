// The largest value of each row; NaN is the largest. On a CPU one program per row, unless there are
// columns to reduce (column_block.h); on a GPU by a fold.
#pragma once

#include "tilewright/kernels/column_block.h"
#include "tilewright/kernels/folds.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct Amax {
  using C = tile::compute_t<T>;
  Rows<const T> x;  // [*, cols], cols > 0
  int64_t dim;      // the caller moved this dimension into the last place
  Rows<T> out;      // [*]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if constexpr (P::kOnGpu) return Folds<P, T>(x).template plan<C>();
    if (ColumnBlock<P, T>::takes(x)) return ColumnBlock<P, T>::plan(x);
    return tile::plan_of(x.rows);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if !defined(__CUDACC__)
    if (ColumnBlock<P, T>::takes(x)) {
      const ColumnBlock<P, T> block(p, x);
      alignas(64) typename ColumnBlock<P, T>::Totals high;
      block.reduce(p, tile::Max{}, high, [](auto v, auto) { return v; });
      return block.put(out, high);
    }
#endif
    const auto run = [&](const auto& row) {
      out(p.index(), 0) = T(tile::reduce_elements<C>(p, tile::Max{}, row));
    };
    tile::with_rows<C>(p, run, x.row(p.index()));
  }

  /// On a GPU the host chooses how.
  template <tile::Program P>
  TW_DEVICE FoldingKernel<P, T, Amax> prepared() const
    requires(P::kOnGpu)
  {
    return FoldingKernel<P, T, Amax>(*this);
  }
  template <class P, class F>
  TW_INLINE void fold(P p, const F& folds) const {
    folds.run_into(p, FoldBy<C, tile::Max>{}, out, [](C high) { return high; });
  }
};

}  // namespace tw::kernels
