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

/// Where a stable sort by key(i) of the i in [0, n), without those whose key is none of
/// [0, limit), puts the part of one key, how long that is, and how many it sorts.
struct SortedPart {
  int begin, count, all;
};
template <class P, class K>
TW_INLINE SortedPart find_part(P, int64_t n, const K& key, int its, int limit) {
  SortedPart part{};
  for (int64_t i = 0; i < n; ++i) {
    const int k = key(i);
    part.begin += k >= 0 && k < its ? 1 : 0;
    part.count += k == its ? 1 : 0;
    part.all += k >= 0 && k < limit ? 1 : 0;
  }
  return part;
}
/// f(i, rank) for each i of the part that find_part has found.
template <class P, class K, class F>
TW_INLINE void for_each_of_part(P, int64_t n, const K& key, int its, const SortedPart&, F&& f) {
  int rank = 0;
  for (int64_t i = 0; i < n; ++i)
    if (key(i) == its) f(i, rank++);
}

}  // namespace tw::tile
