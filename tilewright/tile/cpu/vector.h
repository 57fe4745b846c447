// Native vectors as the compilers' vector extension, and what all instruction sets share.
//
// Everything here is forcibly inlined: the same header is compiled once per instruction set and no
// symbol may be shared between those builds (tools/lint/isa_symbols.py checks the objects).
#pragma once

#include <utility>

#include "tilewright/core/types.h"

namespace tw::tile {

template <class T, int kLanes>
struct VectorOf {
  using type __attribute__((vector_size(sizeof(T) * kLanes))) = T;
};
template <class T, int kLanes>
using vec = typename VectorOf<T, kLanes>::type;

using f32x8 = vec<float, 8>;
using f32x16 = vec<float, 16>;
using i32x8 = vec<int32_t, 8>;
using i32x16 = vec<int32_t, 16>;
using u8x32 = vec<uint8_t, 32>;
using u8x64 = vec<uint8_t, 64>;

/// Facts about a vector type: its element and its number of lanes.
template <class V>
struct vector_traits {
  using scalar = __typeof__(V{}[0] + 0);
  static constexpr int kLanes = int(sizeof(V) / sizeof(V{}[0]));
};

template <class V>
inline constexpr int kLanesOf = int(sizeof(V) / sizeof(V{}[0]));

/// The vector of elements T with as many lanes as V.
template <class T, class V>
struct WithElement {
  using type = vec<T, kLanesOf<V>>;
};
template <class T, class V>
using with_element = typename WithElement<T, V>::type;

/// All lanes equal to x. (Not `V{} + x`, which costs a real addition.)
template <class V, class S>
TW_INLINE V splat(S x) {
  using E = __typeof__(V{}[0]);
  constexpr int kN = kLanesOf<V>;
  const E e = E(x);
  if constexpr (kN == 2)
    return V{e, e};
  else if constexpr (kN == 4)
    return V{e, e, e, e};
  else if constexpr (kN == 8)
    return V{e, e, e, e, e, e, e, e};
  else if constexpr (kN == 16)
    return V{e, e, e, e, e, e, e, e, e, e, e, e, e, e, e, e};
  else {
    V out;
    for (int i = 0; i < kN; ++i) out[i] = e;
    return out;
  }
}

/// Lane i holds start + i.
template <class V>
TW_INLINE V iota(typename vector_traits<V>::scalar start) {
  using S = typename vector_traits<V>::scalar;
  V out;
  for (int i = 0; i < kLanesOf<V>; ++i) out[i] = start + S(i);
  return out;
}

/// mask ? a : b per lane; mask is what a comparison of vectors yields (0 or -1).
template <class M, class V>
TW_INLINE V select(M mask, V a, V b) {
  return mask ? a : b;
}

template <class To, class V>
TW_INLINE To bit_cast(V v) {
  static_assert(sizeof(To) == sizeof(V));
  return __builtin_bit_cast(To, v);
}

/// Conversion lane by lane, rounding toward zero to integers.
template <class To, class V>
TW_INLINE To convert(V v) {
  return __builtin_convertvector(v, To);
}

/// f of each lane.
template <class V, class F>
TW_INLINE V each_lane(V v, F f) {
  for (int i = 0; i < kLanesOf<V>; ++i) v[i] = f(v[i]);
  return v;
}

template <class V>
TW_INLINE typename vector_traits<V>::scalar first_lane(V v) {
  return v[0];
}

namespace detail {

/// The lanes from `first` on, half of them.
template <int kFirst, class V, int... i>
TW_INLINE auto half_of(V v, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(v, v, (kFirst + i)...);
}

}  // namespace detail

/// Folds the lanes pairwise: ((0 op 8) op (4 op 12)) ... A fixed tree, so bits do not depend on how
/// the row was split. Works for any lane count that is a power of two. An op of vectors, too, folds
/// them by halves.
template <class V, class Op>
TW_INLINE auto fold_lanes(V v, Op op) {
  constexpr int kN = kLanesOf<V>;
  using Half = vec<typename vector_traits<V>::scalar, kN / 2>;
  if constexpr (kN > 4 && requires(Half half) { op(half, half); }) {
    constexpr auto kHalf = std::make_integer_sequence<int, kN / 2>{};
    return fold_lanes(op(detail::half_of<0>(v, kHalf), detail::half_of<kN / 2>(v, kHalf)), op);
  } else {
    __typeof__(v[0] + 0) lanes[kN];
    for (int i = 0; i < kN; ++i) lanes[i] = v[i];
    TW_UNROLL
    for (int half = kN / 2; half > 0; half /= 2) {
      TW_UNROLL
      for (int i = 0; i < half; ++i) lanes[i] = op(lanes[i], lanes[i + half]);
    }
    return lanes[0];
  }
}

/// y where the mask, which is nearly everywhere; elsewhere f of x's lanes.
template <class M, class V, class F>
TW_INLINE V mend_lanes(M is_right, V y, V x, F f) {
  if (fold_lanes(is_right, [](auto a, auto b) { return a & b; }) != 0) return y;
  for (int i = 0; i < kLanesOf<V>; ++i)
    if (!is_right[i]) y[i] = f(x[i]);
  return y;
}

}  // namespace tw::tile
