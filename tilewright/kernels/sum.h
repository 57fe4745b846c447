// The sum of each row, or its mean, in float32 (float64 for float64).
//
// One program per row, unless rows lie side by side in memory (column_sums.h), or are long and few:
// then programs add up parts of rows, and others the parts. The cut depends on the shape alone.
#pragma once

#include "tilewright/kernels/column_sums.h"

namespace tw::kernels {

template <class T, bool kMean = false>
struct Sum {
  using C = tile::compute_t<T>;

  Rows<const T> x;  // [*, cols]
  int64_t dim;      // the caller moved this dimension into the last place
  Rows<T> out;      // [*]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if (ColumnSums<P, T>::takes(x)) return ColumnSums<P, T>(x).plan();
    return parts().plan(x.rows, x.cols);
  }
  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if (ColumnSums<P, T>::takes(x))
      add_columns(p, ColumnSums<P, T>(x));
    else
      add_row(p, parts());
  }

  /// On a GPU the choice is made, and the cut, on the host.
  template <class P>
  struct Prepared;
  template <tile::Program P>
  TW_DEVICE Prepared<P> prepared() const
    requires(P::kOnGpu)
  {
    const bool by_columns = ColumnSums<P, T>::takes(x);
    return {*this, by_columns, by_columns ? Parts{} : parts(),
            by_columns ? ColumnSums<P, T>(x) : ColumnSums<P, T>()};
  }

 private:
  /// Of a row, and the columns of each.
  struct Parts {
    int64_t count = 1, columns = 0;

    TW_INLINE tile::Plan plan(int64_t rows, int64_t cols) const {
      const int64_t programs = rows * count;
      tile::Plan plan =
          tile::plan_of(programs).over_at_most(cols, tile::columns_read_once(programs));
      if (count == 1) return plan;
      plan.phases = 2;
      plan.grid[1] = rows;
      plan.workspace_bytes = programs * int64_t{sizeof(C)};
      return plan;
    }
  };
  TW_INLINE Parts parts() const {
    constexpr int64_t kPrograms = 1024, kLeast = 1 << 16, kWhole = 4096;
    if (x.rows == 0 || 2 * x.rows > kPrograms || x.cols < 2 * kLeast) return {};
    const int64_t most = kPrograms / x.rows, wanted = x.cols / kLeast;
    const int64_t count = most < wanted ? most : wanted;
    const int64_t columns = ((x.cols + count - 1) / count + kWhole - 1) / kWhole * kWhole;
    return {(x.cols + columns - 1) / columns, columns};
  }

  template <class P>
  TW_INLINE void add_columns(P p, const ColumnSums<P, T>& columns) const {
    columns.run(p, [&](int64_t first, auto at, auto total) {
      if (out.lead == 1) {  // the rule; spares eight searches for a row
        const View<T, 1> to{
            out.data + first * out.lead_strides[0], {out.rows - first}, {out.lead_strides[0]}};
        tile::store_cached(to, at, kMean ? total / static_cast<C>(x.cols) : total);
        return;
      }
      put_each(p, first + at.offset, total, at.count);
    });
  }
  template <class P, class V>
  TW_SHARED void put_each(P, int64_t first, V totals, int count) const {
    TW_UNROLL
    for (int i = 0; i < tile::kLanesOf<V>; ++i)
      if (i < count) put(first + i, totals[i]);
  }
  template <class P>
  TW_INLINE void add_row(P p, const Parts& parts) const {
    C* const totals = p.template workspace<C>();
    const int64_t i = p.index();
    if (p.phase() > 0) return put(i, total_of(p, view(totals + i * parts.count, parts.count)));
    if (parts.count == 1) return put(i, total_of(p, x.row(i)));
    const int64_t row = index_quotient(i, parts.count);
    const int64_t begin = (i - row * parts.count) * parts.columns, rest = x.cols - begin;
    totals[i] = total_of(p, x.row(row).part(begin, rest < parts.columns ? rest : parts.columns));
  }
  template <class P, class U>
  TW_INLINE static C total_of(P p, const View<U, 1>& row) {
    C total{};
    tile::with_rows<C>(
        p, [&](const auto& in) { total = tile::reduce_elements<C>(p, tile::Sum{}, in); }, row);
    return total;
  }
  TW_INLINE void put(int64_t row, C total) const {
    out(row, 0) = T(kMean ? total / static_cast<C>(x.cols) : total);
  }
};

template <class T, bool kMean>
template <class P>
struct Sum<T, kMean>::Prepared {
  Sum sum;
  bool by_columns;
  Parts parts;
  ColumnSums<P, T> columns;

  TW_DEVICE void operator()(P p) const {
    if (by_columns)
      sum.add_columns(p, columns);
    else
      sum.add_row(p, parts);
  }
};

}  // namespace tw::kernels
