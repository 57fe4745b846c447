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

}  // namespace tw::tile
