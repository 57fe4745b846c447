// The elements that match, on a CPU.
#pragma once

#include "tilewright/core/view.h"

namespace tw::tile {

/// Calls f(i) for the i in [0, n) that `matches`, in order.
template <class P, class M, class F>
TW_INLINE void for_each_match(P, int64_t n, M&& matches, F&& f) {
  for (int64_t i = 0; i < n; ++i)
    if (matches(i)) f(i);
}

/// How many i in [0, n) match.
template <class P, class M>
TW_INLINE int count_matches(P, int64_t n, const M& matches) {
  int found = 0;
  for (int64_t i = 0; i < n; ++i) found += matches(i) ? 1 : 0;
  return found;
}

/// Calls f(i, rank) for the i in [0, n) that `matches`; rank: how many there are before it. Returns
/// how many there are.
template <class P, class M, class F>
TW_INLINE int rank_matches(P, int64_t n, const M& matches, F&& f) {
  int rank = 0;
  for (int64_t i = 0; i < n; ++i)
    if (matches(i)) f(i, rank++);
  return rank;
}

}  // namespace tw::tile
