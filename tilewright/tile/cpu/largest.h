// Where a row's largest element is, on a CPU.
#pragma once

#include "tilewright/tile/cpu/primitives.h"

namespace tw::tile {

/// put(column) of the first of the largest elements of a row, which has some. NaN is larger than
/// anything. The row is read once: a block's maximum first, and only the block that holds the row's
/// maximum is searched for it.
template <class C = float, class P, class Row, class Put>
TW_INLINE void find_largest(P p, const Row& row, Put&& put) {
  constexpr int64_t kBlock = 1024;
  const auto block_at = [&](int64_t begin) {
    const int64_t rest = row.size(0) - begin;
    return row.part(begin, rest < kBlock ? rest : kBlock);
  };
  C best = Max::identity<C>();
  int64_t begin_of_best = 0;
  for (int64_t begin = 0; begin < row.size(0) && best == best; begin += kBlock) {
    const C high = reduce_elements<C>(p, Max{}, block_at(begin));
    if (begin > 0 && high <= best) continue;  // false for NaN
    best = high;
    begin_of_best = begin;
  }
  put(begin_of_best + find_first<C>(p, block_at(begin_of_best), best));
}

}  // namespace tw::tile
