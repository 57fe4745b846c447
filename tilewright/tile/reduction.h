// What a row can be reduced with, on every target. Freestanding.
//
// A reduction is a struct with identity<C>() and combine(a, b), which works on vectors and on
// scalars alike.
#pragma once

#include "tilewright/core/macros.h"

namespace tw::tile {

struct Sum {
  template <class C>
  TW_INLINE static constexpr C identity() {
    return C(0);
  }
  template <class V>
  TW_INLINE static V combine(V a, V b) {
    return a + b;
  }
};
struct Product {
  template <class C>
  TW_INLINE static constexpr C identity() {
    return C(1);
  }
  template <class V>
  TW_INLINE static V combine(V a, V b) {
    return a * b;
  }
};
/// Propagates NaN.
struct Max {
  template <class C>
  TW_INLINE static constexpr C identity() {
    return C(-__builtin_inf());
  }
  template <class V>
  TW_INLINE static V combine(V a, V b) {
    return select((a > b) | (a != a), a, b);
  }
};
/// Propagates NaN.
struct Min {
  template <class C>
  TW_INLINE static constexpr C identity() {
    return C(__builtin_inf());
  }
  template <class V>
  TW_INLINE static V combine(V a, V b) {
    return select((a < b) | (a != a), a, b);
  }
};

}  // namespace tw::tile
