// What math and primitives need of a vector, for a thread that holds one element: the names and
// meanings are those of tile/cpu/{vector,arith}.h. Freestanding.
#pragma once

#include "tilewright/tile/compute_type.h"

namespace tw::tile {

template <class T, int kLanes>
using vec = T;

template <class V>
struct vector_traits {
  using scalar = V;
  static constexpr int kLanes = 1;
};
template <class V>
inline constexpr int kLanesOf = 1;

template <class V, class S>
TW_INLINE V splat(S x) {
  return V(x);
}
template <class V>
TW_INLINE V iota(V start) {
  return start;
}
template <class V>
TW_INLINE V select(bool mask, V a, V b) {
  return mask ? a : b;
}
template <class To, class V>
TW_INLINE To bit_cast(V v) {
  static_assert(sizeof(To) == sizeof(V));
  return __builtin_bit_cast(To, v);
}
template <class To, class V>
TW_INLINE To convert(V v) {
  return To(v);
}
template <class V, class F>
TW_INLINE V each_lane(V v, F f) {
  return f(v);
}
template <class V>
TW_INLINE V first_lane(V v) {
  return v;
}

TW_INLINE float fma(float a, float b, float c) {
  return ::fmaf(a, b, c);
}
TW_INLINE double fma(double a, double b, double c) {
  return ::fma(a, b, c);
}
TW_INLINE float sqrt(float a) {
  return ::sqrtf(a);
}
TW_INLINE double sqrt(double a) {
  return ::sqrt(a);
}
/// To the nearest integer, ties to even.
TW_INLINE float round(float a) {
  return ::rintf(a);
}
TW_INLINE double round(double a) {
  return ::rint(a);
}
/// The larger; where a is NaN, b.
template <class V>
TW_INLINE V max(V a, V b) {
  return a > b ? a : b;
}
/// The smaller; where a is NaN, b.
template <class V>
TW_INLINE V min(V a, V b) {
  return a < b ? a : b;
}
template <class V>
TW_INLINE V rsqrt(V a) {
  return 1 / sqrt(a);
}

template <class V>
inline constexpr bool kHasScale = false;

}  // namespace tw::tile
