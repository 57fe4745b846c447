// Elementary functions on vectors of float32.
#pragma once

#include "tilewright/tile/cpu/arith.h"
#include "tilewright/tile/cpu/memory.h"

namespace tw::tile {

/// e^x, within 2 ULP; the argument is clamped to [-87.3, 88.3].
template <class V>
TW_INLINE V exp(V x) {
  using I = vec<int32_t, kLanesOf<V>>;
  const V bounded = x < splat<V>(-87.3f) ? splat<V>(-87.3f) : (x > splat<V>(88.3f) ? splat<V>(88.3f) : x);
  const V n = round(bounded * 1.44269504f);
  V r = fma(n, splat<V>(-0.693359375f), bounded);
  r = fma(n, splat<V>(2.12194440e-4f), r);
  V p = splat<V>(1.9875691500e-4f);
  p = fma(p, r, splat<V>(1.3981999507e-3f));
  p = fma(p, r, splat<V>(8.3334519073e-3f));
  p = fma(p, r, splat<V>(4.1665795894e-2f));
  p = fma(p, r, splat<V>(1.6666665459e-1f));
  p = fma(p, r, splat<V>(5.0000001201e-1f));
  p = fma(p, r * r, r + 1.0f);
  const I scale = (convert<I>(n) + 127) << 23;
  return p * bit_cast<V>(scale);
}

/// tanh x, absolute error below 3e-7.
template <class V>
TW_INLINE V tanh(V x) {
  const V e = exp(abs(x) * -2.0f);
  const V large = (1.0f - e) / (1.0f + e);
  const V s = x * x;
  V p = splat<V>(-5.70498872745e-3f);
  p = fma(p, s, splat<V>(2.06390887954e-2f));
  p = fma(p, s, splat<V>(-5.37397155531e-2f));
  p = fma(p, s, splat<V>(1.33314422036e-1f));
  p = fma(p, s, splat<V>(-3.33332819422e-1f));
  const V small = fma(p * s, x, x);
  return select(abs(x) < splat<V>(0.625f), small, select(x < V{}, -large, large));
}

/// erf x, absolute error below 5e-7. Abramowitz & Stegun 7.1.26.
template <class V>
TW_INLINE V erf(V x) {
  const V t = 1.0f / fma(abs(x), splat<V>(0.3275911f), splat<V>(1.0f));
  V p = splat<V>(1.061405429f);
  p = fma(p, t, splat<V>(-1.453152027f));
  p = fma(p, t, splat<V>(1.421413741f));
  p = fma(p, t, splat<V>(-0.284496736f));
  p = fma(p, t, splat<V>(0.254829592f));
  const V y = 1.0f - p * t * exp(-(x * x));
  return select(x < V{}, -y, y);
}

}  // namespace tw::tile
