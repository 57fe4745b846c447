// The sum of each row, or its mean, in float32 (float64 for float64).
//
// One program per row, unless rows lie side by side in memory (column_sums.h).
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
    if (ColumnSums<T>::takes(x)) return ColumnSums<T>(x).template plan<P>();
    return tile::plan_of(x.rows).over_at_most(x.cols, tile::columns_read_once(x.rows));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if (ColumnSums<T>::takes(x))
      add_columns(p, ColumnSums<T>(x));
    else
      add_row(p);
  }

  /// On a GPU the choice is made, and the cut, on the host.
  struct Prepared;
  template <tile::Program P>
  TW_DEVICE Prepared prepared() const
    requires(P::kOnGpu)
  {
    const bool by_columns = ColumnSums<T>::takes(x);
    return {*this, by_columns, by_columns ? ColumnSums<T>(x) : ColumnSums<T>()};
  }

 private:
  template <class P>
  TW_INLINE void add_columns(P p, const ColumnSums<T>& columns) const {
    columns.run(p, [&](int64_t first, auto at, auto total) {
      if (out.lead == 1) {  // the rule; spares eight searches for a row
        const View<T, 1> to{
            out.data + first * out.lead_strides[0], {out.rows - first}, {out.lead_strides[0]}};
        tile::store_cached(to, at, kMean ? total / static_cast<C>(x.cols) : total);
        return;
      }
      TW_UNROLL
      for (int i = 0; i < at.kLanes; ++i)
        if (i < at.count) put(first + at.offset + i, total[i]);
    });
  }
  template <class P>
  TW_INLINE void add_row(P p) const {
    const auto run = [&](const auto& in) {
      put(p.index(), tile::reduce_elements<C>(p, tile::Sum{}, in));
    };
    tile::with_rows<C>(p, run, x.row(p.index()));
  }
  TW_INLINE void put(int64_t row, C total) const {
    out(row, 0) = T(kMean ? total / static_cast<C>(x.cols) : total);
  }
};

template <class T, bool kMean>
struct Sum<T, kMean>::Prepared {
  Sum sum;
  bool by_columns;
  ColumnSums<T> columns;

  template <class P>
  TW_DEVICE void operator()(P p) const {
    if (by_columns)
      sum.add_columns(p, columns);
    else
      sum.add_row(p);
  }
};

}  // namespace tw::kernels
