// What a row can be reduced with, on every target. Freestanding.
#pragma once

#include "tilewright/tile/compute_type.h"

namespace tw::tile {

/// combine(a, b) is a of type V, whether that is a scalar or a vector; what is combined with
/// identity<C>() stays as it is.
template <class R>
concept Reduction = requires(float a) {
  requires same_type<decltype(R::combine(a, a)), float>;
  requires same_type<decltype(R::template identity<float>()), float>;
};

// A target may have an instruction for these, on its own vectors.
template <class V>
TW_INLINE V larger_number(const V& a, const V& b) {
  return max(a, b);
}
template <class V>
TW_INLINE V larger_or_nan(const V& a, const V& b) {
  return select((a > b) | (a != a), a, b);
}
template <class V>
TW_INLINE V smaller_or_nan(const V& a, const V& b) {
  return select((a < b) | (a != a), a, b);
}

/// Two values that are reduced in one pass.
template <class V>
struct Two {
  V first, second;
};
template <class V>
TW_INLINE Two<V> two_of(V first, V second) {
  return {first, second};
}

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
    return larger_or_nan(a, b);
  }
};
/// May or may not see NaN: for those who meet it anyway. A single instruction.
struct MaxOfNumbers {
  template <class C>
  TW_INLINE static constexpr C identity() {
    return C(-__builtin_inf());
  }
  template <class V>
  TW_INLINE static V combine(V a, V b) {
    return larger_number(a, b);
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
    return smaller_or_nan(a, b);
  }
};

}  // namespace tw::tile
