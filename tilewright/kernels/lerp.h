//   out = x + weight (end - x), broadcast.
#pragma once

#include "tilewright/kernels/elementwise.h"

namespace tw::kernels {

template <class T>
struct Lerp {
  Rows<const T> x;       // [...]
  Rows<const T> end;     // [...]
  Rows<const T> weight;  // [...], or no data: `amount`
  tile::compute_t<T> amount;
  Rows<T> out;  // [...], may alias an input

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return weight ? f(x, end, weight, out) : f(x, end, out);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return plan_elementwise<P>(out);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    using C = tile::compute_t<T>;
    const auto between = [](auto from, auto to, auto w) {
      const auto way = to - from;  // from the nearer end, so that w = 1 gives `end` exactly
      using V = decltype(way + way);
      return tile::select(w < tile::splat<V>(0.5f), from + w * way, to - way * (1.0f - w));
    };
    if (weight)
      elementwise<C>(p, out, between, x, end, weight);
    else
      elementwise<C>(
          p, out,
          [between, w = amount](auto from, auto to) {
            return between(from, to, tile::splat<decltype(to - from)>(w));
          },
          x, end);
  }
};

}  // namespace tw::kernels
