// One number of each row: its smallest element, its product, a norm, the logarithm of the sum of
// exponentials. In float32; one program per row, unless there are columns to reduce
// (column_block.h); on a GPU by folds.
#pragma once

#include "tilewright/kernels/choose.h"
#include "tilewright/kernels/column_block.h"
#include "tilewright/kernels/fold_exponentials.h"
#include "tilewright/kernels/folds.h"
#include "tilewright/kernels/row_logsumexp.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// Each reduces a row, or says how columns are folded.
template <class R, class F = AsTheyAre>
struct FoldedBy {
  template <class C, class P>
  TW_INLINE static FoldBy<C, R, F> fold() {
    return {};
  }
  template <class C, class P>
  TW_INLINE static C result(C state) {
    return state;
  }
};
/// NaN if there is one.
struct LeastOfRow : FoldedBy<tile::Min> {
  template <class C, class P, class Row>
  TW_INLINE C operator()(P p, const Row& row) const {
    return tile::reduce_elements<C>(p, tile::Min{}, row);
  }
};
struct ProductOfRow : FoldedBy<tile::Product> {
  template <class C, class P, class Row>
  TW_INLINE C operator()(P p, const Row& row) const {
    return tile::reduce_elements<C>(p, tile::Product{}, row);
  }
};
template <class V>
TW_INLINE V magnitude(V v) {
  return tile::select(v < V{}, -v, v);
}
struct Magnitude {
  template <class C>
  TW_INLINE C operator()(C v) const {
    return magnitude(v);
  }
};
struct Square {
  template <class C>
  TW_INLINE C operator()(C v) const {
    return v * v;
  }
};
/// The sum of magnitudes.
struct NormOfOrder1 : FoldedBy<tile::Sum, Magnitude> {
  template <class C, class P, class Row>
  TW_INLINE C operator()(P p, const Row& row) const {
    return tile::reduce_row<C>(p, tile::Sum{}, row,
                               [&](auto at) { return magnitude(tile::load(row, at)); });
  }
};
/// The root of the sum of squares.
struct NormOfOrder2 : FoldedBy<tile::Sum, Square> {
  template <class C, class P>
  TW_INLINE static C result(C squares) {
    return tile::sqrt(squares);
  }
  template <class C, class P, class Row>
  TW_INLINE C operator()(P p, const Row& row) const {
    return tile::sqrt(tile::reduce_row<C>(p, tile::Sum{}, row, [&](auto at) {
      const auto v = tile::load(row, at);
      return v * v;
    }));
  }
};
/// The largest magnitude; 0 of nothing.
struct NormOfOrderInfinity : FoldedBy<tile::Max, Magnitude> {
  template <class C, class P>
  TW_INLINE static C result(C largest) {
    return largest < C(0) ? C(0) : largest;
  }
  template <class C, class P, class Row>
  TW_INLINE C operator()(P p, const Row& row) const {
    return result<C, P>(tile::reduce_row<C>(
        p, tile::Max{}, row, [&](auto at) { return magnitude(tile::load(row, at)); }));
  }
};
/// -inf of nothing, and where all are -inf.
struct LogSumExpOfRow {
  template <class C, class P, class Row>
  TW_INLINE C operator()(P p, const Row& row) const {
    const LogSumExp<C> parts = row_logsumexp<C>(p, row);
    return sum(parts.high, parts.log_sum);
  }
  template <class C, class P>
  TW_INLINE static FoldExponentials<C> fold() {
    return {};
  }
  template <class C, class P>
  TW_INLINE static C result(const Exponentials<C>& state) {
    return sum(state.high, scalar_log<C, P>(state.total));
  }

 private:
  template <class C>
  TW_INLINE static C sum(C high, C log_sum) {
    const C infinity = C(__builtin_inf());
    return high < infinity && high > -infinity ? high + log_sum : high;
  }
};

/// In the order of the schema of ops/reduce.h.
using RowFunctions = OneOf<LeastOfRow, ProductOfRow, NormOfOrder1, NormOfOrder2,
                           NormOfOrderInfinity, LogSumExpOfRow>;

template <class T>
struct Reduce {
  using C = tile::compute_t<T>;

  Rows<const T> x;  // [*, cols]
  int function;
  int64_t dim;  // the caller moved this dimension into the last place
  Rows<T> out;  // [*]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if constexpr (P::kOnGpu) return Folds<P, T>(x).template plan<Exponentials<C>>();
    if (ColumnBlock<P, T>::takes(x)) return ColumnBlock<P, T>::plan(x);
    return tile::plan_of(x.rows, logsumexp_scratch<P, C, T>(x.cols));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if !defined(__CUDACC__)
    if (ColumnBlock<P, T>::takes(x))
      return RowFunctions::choose(function, [&](auto f) { reduce_block(p, f); });
#endif
    const auto run = [&](const auto& row) {
      RowFunctions::choose(
          function, [&](auto f) { out(p.index(), 0) = T(f.template operator()<C>(p, row)); });
    };
    tile::with_rows<C>(p, run, x.row(p.index()));
  }

  /// On a GPU the host chooses how; each function has kernels of its own, and their registers.
  static constexpr int kGpuVariants = RowFunctions::kCount;
  TW_INLINE int variant() const { return function; }
  template <tile::Program P>
  TW_DEVICE FoldingKernel<P, T, Reduce> prepared() const
    requires(P::kOnGpu)
  {
    return FoldingKernel<P, T, Reduce>(*this);
  }
  template <class P, class F>
  TW_INLINE void fold(P p, const F& folds) const {
    using Function = typename RowFunctions::template At<P::kVariant>;
    folds.run_into(p, Function::template fold<C, P>(), out, [](const auto& state) TW_INLINED {
      return Function::template result<C, P>(state);
    });
  }

 private:
#if !defined(__CUDACC__)
  template <class P, class F>
  TW_INLINE void reduce_block(P p, F f) const {
    const ColumnBlock<P, T> block(p, x);
    const auto finish = [&](auto&& state) {
      for (int64_t i = 0; i < block.count; ++i)
        out(block.first + i, 0) = T(f.template result<C, P>(state(i)));
    };
    if constexpr (tile::same_type<F, LogSumExpOfRow>) {
      const ColumnExponentials<P, T> of(p, block);
      finish([&](int64_t i) { return Exponentials<C>{of.high[i], of.total[i]}; });
    } else {
      using Fold = decltype(f.template fold<C, P>());
      alignas(64) typename ColumnBlock<P, T>::Totals totals;
      block.reduce(p, typename Fold::By{}, totals,
                   [](auto v, auto) TW_INLINED { return typename Fold::Of{}(v); });
      finish([&](int64_t i) { return totals[i]; });
    }
  }
#endif
};

}  // namespace tw::kernels
