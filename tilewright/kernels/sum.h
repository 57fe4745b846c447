// The sum of each row, or its mean, in float32 (float64 for float64).
//
// One program per row, unless rows lie side by side in memory (column_sums.h), or are long and few:
// then programs add up parts of rows, and others the parts. The cut depends on the shape alone.
#pragma once

#include "tilewright/kernels/column_folds.h"
#include "tilewright/kernels/column_parts.h"
#include "tilewright/kernels/row_parts.h"

namespace tw::kernels {

template <class T, bool kMean = false>
struct Sum {
  using C = tile::compute_t<T>;

  Rows<const T> x;  // [*, cols]
  int64_t dim;      // the caller moved this dimension into the last place
  Rows<T> out;      // [*]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if (ColumnParts<P, T>::takes(x)) return ColumnParts<P, T>(x).plan();
    if (goes_by_columns<P>()) return ColumnSums<P, T>(x).plan();
    return parts<P>().plan(x.rows, x.cols, int64_t{sizeof(C)});
  }
  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if (goes_by_columns<P>())
      add_columns(p, ColumnSums<P, T>(x));
    else
      add_row(p, parts<P>());
  }

  /// On a GPU the choice is made, and the cut, on the host.
  template <class P>
  struct Prepared;
  template <tile::Program P>
  TW_DEVICE Prepared<P> prepared() const
    requires(P::kOnGpu)
  {
    if (ColumnParts<P, T>::takes(x))
      return {*this, Prepared<P>::kColumnParts, {}, {}, ColumnParts<P, T>(x)};
    if (goes_by_columns<P>()) return {*this, Prepared<P>::kColumns, {}, ColumnSums<P, T>(x), {}};
    return {*this, tile::kAlignedRows, parts<P>(), {}, {}};
  }

 private:
  template <class P>
  TW_INLINE bool goes_by_columns() const {
    return ColumnSums<P, T>::pays(x) || ColumnSums<P, T>::pays_by_warps(x);
  }
  template <class P>
  TW_INLINE RowParts parts() const {
    constexpr int64_t kLeastOfCpu = 1 << 16;
    if constexpr (P::kOnGpu) return RowParts::of_few(x.rows, x.cols);
    return RowParts::of_few(x.rows, x.cols, 2 * kLeastOfCpu, kLeastOfCpu);
  }

  template <class P>
  TW_INLINE void add_columns(P p, const ColumnSums<P, T>& columns) const {
    columns.run(p, [&](int64_t first, auto at, auto total) { put_span(p, first, at, total); });
  }
  template <class P>
  TW_INLINE void add_column_parts(P p, const ColumnParts<P, T>& columns) const {
    const auto put = [&](int64_t first, auto at, const auto& totals) {
      put_span(p, first, at, totals);
    };
    tile::fold_parts<C>(p, FoldBy<C, tile::Sum>{}, columns, put, x);
  }
  template <class P, class At, class V>
  TW_INLINE void put_span(P p, int64_t first, const At& at, V total) const {
    put_results(p, out, first, at, kMean ? total / static_cast<C>(x.cols) : total);
  }
  template <class P>
  TW_INLINE void add_row(P p, const RowParts& parts) const {
    C* const totals = p.template workspace<C>();
    const int64_t i = p.index();
    C total{};
    const auto add_up = [&](const auto& in) {
      total = tile::reduce_elements<C>(p, tile::Sum{}, in);
    };
    if (p.phase() > 0) {
      tile::with_rows<C>(p, add_up, view(totals + i * parts.count, parts.count));
      return put(i, total);
    }
    if (parts.count == 1) {
      tile::run_row<C>(p, add_up, x.row(i));
      return put(i, total);
    }
    const RowParts::Part part = parts.part(i, x.cols);
    tile::run_row<C>(p, add_up, x.row(part.row).part(part.begin, part.size));
    totals[i] = total;
  }
  TW_INLINE void put(int64_t row, C total) const {
    out(row, 0) = T(kMean ? total / static_cast<C>(x.cols) : total);
  }
};

template <class T, bool kMean>
template <class P>
struct Sum<T, kMean>::Prepared {
  static constexpr int kColumns = 2, kColumnParts = 3, kGpuWays = 4;
  Sum sum;
  int chosen;
  RowParts parts;
  ColumnSums<P, T> columns;
  ColumnParts<P, T> column_parts;

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(sum.x);
  }
  TW_INLINE int way() const { return chosen; }
  template <class OnWay>
  TW_DEVICE void operator()(OnWay p) const {
    if constexpr (OnWay::kWay == kColumns)
      sum.add_columns(P{p}, columns);
    else if constexpr (OnWay::kWay == kColumnParts)
      sum.add_column_parts(P{p}, column_parts);
    else
      sum.add_row(p, parts);
  }
};

}  // namespace tw::kernels
