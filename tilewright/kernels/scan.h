// The sums, or products, of the elements of each row up to every one of them, in float64. On a CPU
// from its first element to its last, sums by vectors: those within one wait for no vector before
// it; or, where rows lie side by side in memory, a block of rows at once. On a GPU see scan_gpu.h.
#pragma once

#include "tilewright/kernels/choose.h"
#include "tilewright/kernels/column_block.h"
#include "tilewright/kernels/scan_gpu.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// In the order of the schema of ops/scan.h.
using ScanFunctions = OneOf<tile::Sum, tile::Product>;

template <class T>
struct Scan {
  using C = tile::compute_t<T>;

  Rows<const T> x;  // [*, cols]
  int function;
  int64_t dim;  // the caller moved this dimension into the last place
  Rows<T> out;  // [*, cols], may alias x

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    if constexpr (P::kOnGpu)
      return are_side_by_side<P>() ? ScanBeside<P, T>(x, out).plan()
                                   : plan_of_scanned_row<P>(x.rows, x.cols);
    if (are_side_by_side<P>()) return ColumnBlock<P, T>::plan(x);
    return tile::plan_of(tile::row_groups<P>(x.rows, x.cols, machine));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    ScanFunctions::choose(function, [&](auto reduction) {
      using R = decltype(reduction);
#if defined(__CUDACC__)
      if (are_side_by_side<P>()) return ScanBeside<P, T>(x, out).template run<R>(p);
      tile::with_rows<C>(
          p, [&](const auto& from, const auto& to) { scan_by_threads<R, C>(p, from, to); },
          x.row(p.index()), out.row(p.index()));
#else
      if (are_side_by_side<P>())
        scan_block<R>(p);
      else
        tile::with_rows<C>(
            p,
            [&](const auto& in, const auto& results) {
              const tile::RowGroup group = tile::row_group(p, x.rows, x.cols);
              for (int64_t i = group.first; i < group.last; ++i)
                scan_row<R>(p, in.row(i), results.row(i));
            },
            x, out);
#endif
    });
  }

 private:
  template <class P>
  TW_INLINE bool are_side_by_side() const {
    return ColumnBlock<P, T>::are_beside_in_both(x, out);
  }

#if !defined(__CUDACC__)
  template <tile::Reduction R, class P>
  TW_INLINE void scan_block(P p) const {
    using Block = ColumnBlock<P, T>;
    const Block block(p, x);
    alignas(64) double totals[Block::kMost];
    for (double& total : totals) total = R::template identity<double>();
    for (int64_t c = 0; c < x.cols; ++c) {
      const auto from = block.row(x, c);
      const auto to = block.row(out, c);
      tile::for_row<C>(p, block.count, [&](auto at) TW_INLINED {
        const auto v = tile::load(from, at);
        tile::store_cached(to, at, tile::combine_totals<R>(p, v, totals + at.offset));
      });
    }
  }
  template <tile::Reduction R, class P, class From, class To>
  TW_INLINE static void scan_row(P p, const From& from, const To& to) {
    double total = R::template identity<double>();
    const auto next = [&](C element) { return C(total = R::combine(total, double(element))); };
    tile::for_row<C>(p, from, [&](auto at) TW_INLINED {
      if (sizeof(T) > 2 && at.count < at.kLanes) {  // few, and no conversion
        for (int64_t c = at.offset; c < from.size(0); ++c) to(c) = T(next(C(from(c))));
        return;
      }
      auto v = tile::load(from, at);
      if constexpr (tile::same_type<R, tile::Sum>)
        v = tile::running_sums(p, v, total);
      else  // in any other order a product could overflow
        v = tile::each_lane(v, next);
      tile::store_cached(to, at, v);
    });
  }
#endif
};

}  // namespace tw::kernels
