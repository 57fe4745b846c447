// Rounding to whole numbers, sine and cosine, and exp and log near 1, on vectors of float32.
#pragma once

#include "tilewright/tile/math.h"

namespace tw::tile {

/// The largest whole number that is not above x.
template <class V>
TW_INLINE V floor(V x) {
  const V nearest = round(x);
  return select(nearest > x, nearest - 1, nearest);
}
/// The whole number next to x on the way to zero.
template <class V>
TW_INLINE V trunc(V x) {
  return select(x < V{}, -floor(-x), floor(x));
}

/// x / y rounded as IEEE 754 says: what is whole stays whole. On GPUs a plain quotient is an
/// approximation (cmake/cuda.cmake).
template <class V>
TW_INLINE V divide(V x, V y) {
#if defined(__CUDA_ARCH__)
  V out = x;
  for (int i = 0; i < kLanesOf<V>; ++i) out[i] = __fdiv_rn(x[i], y[i]);
  return out;
#else
  return x / y;
#endif
}

namespace detail {

/// sin(x + half turns pi / 2), of up to one half turn: sin r for the multiple n pi that is nearest,
/// n whole or, with a half turn, between whole numbers; the sign is that of the whole number.
/// Arguments whose rest three floats cannot hold (Cody & Waite) go lane by lane through `exact`.
template <bool kHalfTurn, class V, class F>
TW_INLINE V sin_of_rest(V x, F exact) {
  using I = with_element<int32_t, V>;
  constexpr float kMost = 32768, kWhole = 0x1.8p23f, kShift = kHalfTurn ? 0.5f : 0.0f;
  const V shifted = fma(x, splat<V>(0x1.45f306p-2f), splat<V>(kShift)) + kWhole;
  const V n = (shifted - kWhole) - kShift;
  V r = fma(n, splat<V>(-0x1.921fb4p+1f), x);
  r = fma(n, splat<V>(-0x1.4442d0p-23f), r);
  r = fma(n, splat<V>(-0x1.846988p-47f), r);
  const V s = r * r;
  V p = splat<V>(0x1.5cf934p-19f);  // (sin r - r) / r^3, |r| <= pi / 2: an error of sin of 5e-9
  p = fma(p, s, splat<V>(-0x1.9f5ff4p-13f));
  p = fma(p, s, splat<V>(0x1.110e6ap-7f));
  p = fma(p, s, splat<V>(-0x1.555548p-3f));
  const V y = fma(p * s, r, r);
  const V near = bit_cast<V>(bit_cast<I>(y) ^ (bit_cast<I>(shifted) << 31));
  return mend_lanes((x < splat<V>(kMost)) & (x > splat<V>(-kMost)), near, x, exact);
}

}  // namespace detail

/// sin x and cos x: an absolute error of 1.3e-7.
template <class V>
TW_INLINE V sin(V x) {
  return detail::sin_of_rest<false>(x, [](float lane) { return __builtin_sinf(lane); });
}
template <class V>
TW_INLINE V cos(V x) {
  return detail::sin_of_rest<true>(x, [](float lane) { return __builtin_cosf(lane); });
}

/// e^x - 1, with all digits near 0.
template <class V>
TW_INLINE V expm1(V x) {
  V p = splat<V>(1.0f / 40320);  // Taylor's series up to x^8 / 8!: a relative error of 1e-8 at 1/2
  p = fma(p, x, splat<V>(1.0f / 5040));
  p = fma(p, x, splat<V>(1.0f / 720));
  p = fma(p, x, splat<V>(1.0f / 120));
  p = fma(p, x, splat<V>(1.0f / 24));
  p = fma(p, x, splat<V>(1.0f / 6));
  p = fma(p, x, splat<V>(0.5f));
  const auto is_small = (x < splat<V>(0.5f)) & (x > splat<V>(-0.5f));
  return select(is_small, fma(p * x, x, x), exp(x) - 1.0f);
}

/// ln(1 + x), with all digits near 0: what 1 + x is rounded by is added to first order.
template <class V>
TW_INLINE V log1p(V x) {
  const V u = 1.0f + x;
  const V rest = (x - (u - 1.0f)) / u;
  const auto has_rest = (u > V{}) & (u < splat<V>(__builtin_inff()));
  return log(u) + select(has_rest, rest, V{});
}

}  // namespace tw::tile
