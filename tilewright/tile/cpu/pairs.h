// Vectors of pairs, as complex numbers are: two numbers side by side in memory. Of vectors that lie
// one after the other, every_other has an element of each pair.
#pragma once

#include "tilewright/tile/cpu/quads.h"

namespace tw::tile {

/// The pairs of a lane of a and one of b, as many as a vector has room for: the first (kHalf: 0) or
/// the last ones.
template <int kHalf, class V>
TW_INLINE V pairs_of(V a, V b) {
  constexpr int n = kLanesOf<V>, k = kHalf * n / 2;
  if constexpr (n == 4)
    return V(__builtin_shufflevector(a, b, k, k + n, k + 1, k + n + 1));
  else if constexpr (n == 8)
    return V(__builtin_shufflevector(a, b, k, k + n, k + 1, k + n + 1, k + 2, k + n + 2, k + 3,
                                     k + n + 3));
  else
    return V(__builtin_shufflevector(a, b, k, k + n, k + 1, k + n + 1, k + 2, k + n + 2, k + 3,
                                     k + n + 3, k + 4, k + n + 4, k + 5, k + n + 5, k + 6,
                                     k + n + 6, k + 7, k + n + 7));
}

}  // namespace tw::tile
