//   out = whether x and other are in a relation, broadcast.
#pragma once

#include "tilewright/kernels/choose.h"
#include "tilewright/kernels/elementwise.h"

namespace tw::kernels {

#define TW_RELATION(Name, condition)            \
  struct Name {                                 \
    template <class V>                          \
    TW_INLINE auto operator()(V x, V y) const { \
      return condition;                         \
    }                                           \
  };
TW_RELATION(IsEqual, x == y)
TW_RELATION(IsUnequal, x != y)
TW_RELATION(IsLess, x < y)
TW_RELATION(IsAtMost, x <= y)
TW_RELATION(IsGreater, x > y)
TW_RELATION(IsAtLeast, x >= y)
TW_RELATION(AreBothTrue, (x != V{}) & (y != V{}))
TW_RELATION(IsEitherTrue, (x != V{}) | (y != V{}))
#undef TW_RELATION

/// In the order of the schema of ops/compare.h.
using Relations =
    OneOf<IsEqual, IsUnequal, IsLess, IsAtMost, IsGreater, IsAtLeast, AreBothTrue, IsEitherTrue>;

template <class T>
struct Compare {
  Rows<const T> x;      // [...]
  Rows<const T> other;  // [...]
  int relation;
  Rows<uint8_t> out;  // [...], 0 or 1: the bytes of bool

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(x, other, out);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return plan_elementwise<P>(out);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    Relations::choose_within<P>(relation, [&](auto holds) {
      elementwise<tile::compute_t<T>>(
          p, out,
          [holds](auto l, auto r) {
            using V = decltype(l);
            return tile::select(holds(l, r), tile::splat<V>(1), V{});
          },
          x, other);
    });
  }
};

}  // namespace tw::kernels
