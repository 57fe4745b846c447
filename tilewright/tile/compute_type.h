// The type arithmetic on a storage type happens in, on every target. Freestanding.
#pragma once

#include "tilewright/core/types.h"

namespace tw::tile {

/// Types narrower than float32 are widened to it; everything else keeps its type.
template <class T>
struct compute_type {
  using type = T;
};
template <>
struct compute_type<f16> {
  using type = float;
};
template <>
struct compute_type<bf16> {
  using type = float;
};
template <>
struct compute_type<f8_e4m3fn> {
  using type = float;
};
template <>
struct compute_type<f8_e5m2> {
  using type = float;
};
template <class T>
struct compute_type<const T> : compute_type<T> {};
template <class T>
using compute_t = typename compute_type<T>::type;

template <class A, class B>
inline constexpr bool same_type = false;
template <class A>
inline constexpr bool same_type<A, A> = true;

}  // namespace tw::tile
