// The lanes of a vector in the opposite order.
#pragma once

#include <cstddef>
#include <utility>

#include "tilewright/tile/cpu/vector.h"

namespace tw::tile {

namespace detail {
template <class V, std::size_t... kLane>
TW_INLINE V reversed(V v, std::index_sequence<kLane...>) {
  return __builtin_shufflevector(v, v, (kLanesOf<V> - 1 - int(kLane))...);
}
}  // namespace detail

template <class V>
TW_INLINE V reversed(V v) {
  return detail::reversed(v, std::make_index_sequence<std::size_t(kLanesOf<V>)>{});
}

}  // namespace tw::tile
