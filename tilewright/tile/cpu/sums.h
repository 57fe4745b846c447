// Sums of columns on a CPU: memory, which the caches keep.
#pragma once

#include "tilewright/tile/cpu/primitives.h"

namespace tw::tile {

/// Sums, zeros as yet, that are kept in `row`; none where that has no data. put_sums brings them
/// there.
template <class P, class Row>
TW_INLINE Row hold_sums(P p, const Row& row) {
  using V = typename P::template Vec<float>;
  if (row.data != nullptr) for_row(p, row, [&](auto at) { store_cached(row, at, V{}); });
  return row;
}
template <class Row, class At, class V>
TW_INLINE void add_to(const Row& sums, const At& at, const V& v) {
  store_cached(sums, at, load(sums, at) + v);
}
template <class P, class Row>
TW_INLINE void put_sums(P, const Row&) {}

/// put(at, sums) of each span of the columns of `count` rows, in arithmetic type C.
template <class C, class P, class R, class Put>
TW_INLINE void add_rows(P p, const R& rows, int64_t count, Put&& put) {
  using V = typename P::template Vec<C>;
  constexpr int64_t kRun = 64;  // summed by themselves: the error grows with these, not with all
  for_row<C>(p, rows.row(0), [&](auto at) {
    V total{};
    for (int64_t r = 0; r < count; r += kRun) {
      V sum{};
      const int64_t end = r + kRun < count ? r + kRun : count;
      for (int64_t i = r; i < end; ++i) sum += V(load(rows.row(i), at));
      total += sum;
    }
    put(at, total);
  });
}

}  // namespace tw::tile
