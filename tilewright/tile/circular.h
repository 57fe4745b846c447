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

/// sin and cos of up to pi / 4, by Taylor's series; absolute errors of 4e-9.
template <class V>
TW_INLINE V sin_of_small(V r) {
  const V s = r * r;
  V p = splat<V>(2.7557319e-6f);
  p = fma(p, s, splat<V>(-1.9841270e-4f));
  p = fma(p, s, splat<V>(8.3333333e-3f));
  p = fma(p, s, splat<V>(-1.6666667e-1f));
  return fma(p * s, r, r);
}
template <class V>
TW_INLINE V cos_of_small(V r) {
  const V s = r * r;
  V p = splat<V>(-2.7557319e-7f);
  p = fma(p, s, splat<V>(2.4801587e-5f));
  p = fma(p, s, splat<V>(-1.3888889e-3f));
  p = fma(p, s, splat<V>(4.1666667e-2f));
  p = fma(p, s, splat<V>(-0.5f));
  return fma(p, s, splat<V>(1.0f));
}

/// sin(x + turn pi / 2). Arguments whose rest modulo pi / 2 three floats cannot hold (Cody & Waite)
/// go lane by lane through `exact`.
template <class V, class F>
TW_INLINE V sin_after_turns(V x, int turn, F exact) {
  using I = with_element<int32_t, V>;
  constexpr float kMost = 32768;
  const V n = round(x * 0x1.45f306p-1f);
  V r = fma(n, splat<V>(-0x1.921fb4p+0f), x);
  r = fma(n, splat<V>(-0x1.4442d0p-24f), r);
  r = fma(n, splat<V>(-0x1.846988p-48f), r);
  const auto is_near = (x < splat<V>(kMost)) & (x > splat<V>(-kMost));
  const I quarter = convert<I>(select(is_near, n, V{})) + turn;
  const V y = select((quarter & 1) == 0, sin_of_small(r), cos_of_small(r));
  const V near = select((quarter & 2) == 0, y, -y);
  const V far =
      each_lane(x, [&](float lane) { return lane < kMost && lane > -kMost ? 0.0f : exact(lane); });
  return select(is_near, near, far);
}

}  // namespace detail

/// sin x and cos x: an absolute error of 1e-7.
template <class V>
TW_INLINE V sin(V x) {
  return detail::sin_after_turns(x, 0, [](float lane) { return __builtin_sinf(lane); });
}
template <class V>
TW_INLINE V cos(V x) {
  return detail::sin_after_turns(x, 1, [](float lane) { return __builtin_cosf(lane); });
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
