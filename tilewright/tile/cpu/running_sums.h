// Totals in float64 of what comes by and by: along lanes, in as many steps as a vector's halves
// have halves, where additions one by one would wait for each other; or one for each lane.
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

/// totals[i] becomes the reduction of it and lane i, which it is rounded to.
template <class R, class P, class V>
TW_INLINE V combine_totals(P, V v, double* totals) {
  constexpr int kN = kLanesOf<V>, kPart = P::template kLanes<double>;
  using Part = vec<typename vector_traits<V>::scalar, kPart>;
  using Totals = vec<double, kPart>;
  Part parts[kN / kPart];
  Totals all[kN / kPart];
  __builtin_memcpy(parts, &v, sizeof(v));
  __builtin_memcpy(all, totals, sizeof(all));
  TW_UNROLL
  for (int i = 0; i < kN / kPart; ++i) {
    all[i] = R::combine(all[i], convert<Totals>(parts[i]));
    parts[i] = convert<Part>(all[i]);
  }
  __builtin_memcpy(totals, all, sizeof(all));
  __builtin_memcpy(&v, parts, sizeof(v));
  return v;
}

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
