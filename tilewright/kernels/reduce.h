// One number of each row: its smallest element, its product, a norm, the logarithm of the sum of
// exponentials. In float32; one program per row.
#pragma once

#include "tilewright/kernels/choose.h"
#include "tilewright/kernels/row_logsumexp.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// NaN if there is one.
struct LeastOfRow {
  template <class C, class P, class Row>
  TW_INLINE C operator()(P p, const Row& row) const {
    return tile::reduce_elements<C>(p, tile::Min{}, row);
  }
};
struct ProductOfRow {
  template <class C, class P, class Row>
  TW_INLINE C operator()(P p, const Row& row) const {
    return tile::reduce_elements<C>(p, tile::Product{}, row);
  }
};
template <class V>
TW_INLINE V magnitude(V v) {
  return tile::select(v < V{}, -v, v);
}
/// The sum of magnitudes.
struct NormOfOrder1 {
  template <class C, class P, class Row>
  TW_INLINE C operator()(P p, const Row& row) const {
    return tile::reduce_row<C>(p, tile::Sum{}, row,
                               [&](auto at) { return magnitude(tile::load(row, at)); });
  }
};
/// The root of the sum of squares.
struct NormOfOrder2 {
  template <class C, class P, class Row>
  TW_INLINE C operator()(P p, const Row& row) const {
    return tile::sqrt(tile::reduce_row<C>(p, tile::Sum{}, row, [&](auto at) {
      const auto v = tile::load(row, at);
      return v * v;
    }));
  }
};
/// The largest magnitude; 0 of nothing.
struct NormOfOrderInfinity {
  template <class C, class P, class Row>
  TW_INLINE C operator()(P p, const Row& row) const {
    const C largest = tile::reduce_row<C>(p, tile::Max{}, row,
                                          [&](auto at) { return magnitude(tile::load(row, at)); });
    return row.size(0) == 0 ? C(0) : largest;
  }
};
/// -inf of nothing, and where all are -inf.
struct LogSumExpOfRow {
  template <class C, class P, class Row>
  TW_INLINE C operator()(P p, const Row& row) const {
    const LogSumExp<C> parts = row_logsumexp<C>(p, row);
    const C high = parts.high, infinity = C(__builtin_inf());
    return high < infinity && high > -infinity ? high + parts.log_sum : high;
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
    return tile::plan_of(x.rows, logsumexp_scratch<P, C, T>(x.cols))
        .over_row(x.cols, tile::kKeptColumns<P, C, T>);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const auto run = [&](const auto& row) {
      RowFunctions::choose(
          function, [&](auto f) { out(p.index(), 0) = T(f.template operator()<C>(p, row)); });
    };
    tile::with_rows<C>(p, run, x.row(p.index()));
  }
};

}  // namespace tw::kernels
