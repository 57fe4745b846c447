// Spans of rows as numbers of 8 bits, on a CPU.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::tile {

TW_INLINE float divided(float a, float b) {
  return a / b;
}

/// What many numbers are divided by.
struct Divisor {
  float value;
};

/// The largest magnitude of a row, NaN if there is one.
template <class P, class Row>
TW_INLINE float largest_magnitude(P p, const Row& row) {
  return reduce_row(p, Max{}, row, [&](auto at) {
    const auto v = load(row, at);
    using V = decltype(v + v);
    return select(v < 0.0f, V(0.0f - v), V(v));
  });
}

/// The quotients of a span, no further than the numbers of Q: integers rounded to nearest, or
/// towards zero, and 0 for NaN.
template <class Q, class P, class At, class V>
TW_INLINE void store_quotients(P p, const View<Q, 1>& to, const At& at, V v, Divisor by,
                               bool truncate) {
  using As = QuantizedAs<Q>;
  v = v / splat<V>(by.value);
  v = select(v > As::kLargest, splat<V>(As::kLargest), v);
  v = select(v < As::kLeast, splat<V>(As::kLeast), v);
  if constexpr (same_type<Q, int8_t>) {
    v = select(v == v, v, V{});
    if (!truncate) v = round(v);
  }
  store(p, to, at, v);
}

}  // namespace tw::tile
