// How many elements of each row are not 0; NaN is not. On a CPU one program per row, unless there
// are columns to reduce (column_block.h); on a GPU by a fold.
#pragma once

#include "tilewright/kernels/column_block.h"
#include "tilewright/kernels/folds.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class C>
struct FoldNonzero {
  using Running = uint32_t;
  using State = int64_t;
  TW_INLINE Running start() const { return 0; }
  template <int kAhead>
  TW_INLINE void add(Running& count, const C (&v)[kAhead], const tile::FoldedRows& rows) const {
    TW_UNROLL
    for (int a = 0; a < kAhead; ++a) count += a < rows.count && v[a] != C(0);
  }
  TW_INLINE static State state(Running count, int) { return count; }
  TW_INLINE void combine(State& state, State other) const { state += other; }
};

template <class T>
struct CountNonzero {
  using C = tile::compute_t<T>;
  static constexpr int64_t kBlock = 1 << 22;  // whose counts float32 holds exactly

  Rows<const T> x;    // [*, cols]
  int64_t dim;        // the caller moved this dimension into the last place
  Rows<int64_t> out;  // [*]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if constexpr (P::kOnGpu) return Folds<P, T>(x).template plan<int64_t>();
    return has_blocks<P>() ? ColumnBlock<P, T>::plan(x) : tile::plan_of(x.rows);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if !defined(__CUDACC__)
    if (has_blocks<P>()) {
      const ColumnBlock<P, T> block(p, x);
      alignas(64) typename ColumnBlock<P, T>::Totals counts;
      block.reduce(p, tile::Sum{}, counts,
                   [](auto v, auto) TW_INLINED { return one_if_nonzero(v); });
      return block.put(out, counts);
    }
#endif
    const auto run = [&](const auto& row) {
      int64_t count = 0;
      for (int64_t begin = 0; begin < x.cols; begin += kBlock) {
        const auto block = row.part(begin, x.cols - begin < kBlock ? x.cols - begin : kBlock);
        count += int64_t(tile::reduce_row<C>(
            p, tile::Sum{}, block, [&](auto at) { return one_if_nonzero(tile::load(block, at)); }));
      }
      out(p.index(), 0) = count;
    };
    tile::with_rows<C>(p, run, x.row(p.index()));
  }

  /// On a GPU the host chooses how.
  template <tile::Program P>
  TW_DEVICE FoldingKernel<P, T, CountNonzero> prepared() const
    requires(P::kOnGpu)
  {
    return FoldingKernel<P, T, CountNonzero>(*this);
  }
  template <class P, class F>
  TW_INLINE void fold(P p, const F& folds) const {
    folds.run(p, FoldNonzero<C>{}, [&](int64_t i, int64_t count) { out(i, 0) = count; });
  }

 private:
  template <class P>
  TW_INLINE bool has_blocks() const {
    return ColumnBlock<P, T>::takes(x) && x.cols <= kBlock;
  }
  template <class V>
  TW_INLINE static V one_if_nonzero(V v) {
    return tile::select(v != V{}, tile::splat<V>(1), V{});
  }
};

}  // namespace tw::kernels
