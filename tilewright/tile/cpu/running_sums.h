// Sums of lanes up to every one of them: in as many steps as a vector's halves have halves, where
// additions one by one would wait for each other.
#pragma once

#include <cstddef>
#include <utility>

#include "tilewright/tile/cpu/vector.h"

namespace tw::tile {

namespace detail {
/// Lane i + kBy of the result is lane i of v; the first ones are zero.
template <int kBy, class V, std::size_t... kLane>
TW_INLINE V moved_up(V v, std::index_sequence<kLane...>) {
  constexpr int kN = kLanesOf<V>;
  return __builtin_shufflevector(v, V{}, (int(kLane) < kBy ? kN : int(kLane) - kBy)...);
}
template <int kBy, class V>
TW_INLINE V add_moved(V v) {
  constexpr int kN = kLanesOf<V>;
  if constexpr (kBy < kN)
    return add_moved<2 * kBy>(V(v + moved_up<kBy>(v, std::make_index_sequence<std::size_t(kN)>{})));
  else
    return v;
}
}  // namespace detail

/// Lane i: the sum of `total` and lanes 0 to i, in float64; `total` becomes the last one.
template <class P, class V>
TW_INLINE V running_sums(P, V v, double& total) {
  constexpr int kN = kLanesOf<V>, kPart = P::template kLanes<double>;
  using Part = vec<typename vector_traits<V>::scalar, kPart>;
  using Sums = vec<double, kPart>;
  Part parts[kN / kPart];
  __builtin_memcpy(parts, &v, sizeof(v));
  TW_UNROLL
  for (Part& part : parts) {
    const Sums sums = detail::add_moved<1>(convert<Sums>(part));
    part = convert<Part>(sums + splat<Sums>(total));
    total += sums[kPart - 1];  // all that the next part waits for
  }
  __builtin_memcpy(&v, parts, sizeof(v));
  return v;
}

}  // namespace tw::tile
