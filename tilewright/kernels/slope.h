// Elementary functions with their derivatives: functors on vectors that give both, since most of
// the work is shared, for the backwards of elementwise and gated operators.
#pragma once

#include "tilewright/tile/math.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class V>
struct Slope {
  V value, slope;
};

struct LogSlope {
  template <class V>
  TW_INLINE Slope<V> operator()(V x) const {
    return {tile::log(x), 1 / x};
  }
};
struct ErfSlope {
  template <class V>
  TW_INLINE Slope<V> operator()(V x) const {
    const V density = tile::splat<V>(1.1283791670955126) * tile::exp(-x * x);  // 2 / sqrt(pi)
    return {tile::erf(x), density};
  }
};
/// x σ(x), whose derivative is σ(x) (1 + x (1 - σ(x))).
struct SiluSlope {
  template <class V>
  TW_INLINE Slope<V> operator()(V x) const {
    const V s = 1 / (1 + tile::exp_of_moderate(-x));
    return {x * s, s * (1 + x * (1 - s))};
  }
};
/// x Φ(x), whose derivative is Φ(x) + x φ(x).
struct GeluSlope {
  template <class V>
  TW_INLINE Slope<V> operator()(V x) const {
    const V below = tile::normal_cdf(x);
    const V density = tile::splat<V>(0.39894228040143268) * tile::exp_nonpositive(-0.5f * x * x);
    return {x * below, tile::fma(x, density, below)};
  }
};
/// x (1 + tanh(a (x + b x^3))) / 2.
struct GeluTanhSlope {
  template <class V>
  TW_INLINE Slope<V> operator()(V x) const {
    const V a = tile::splat<V>(0.79788456080286536), b = tile::splat<V>(0.044715);
    const V square = x * x;
    const V t = tile::tanh(a * tile::fma(square * x, b, x));
    const V inner = a * tile::fma(square, 3 * b, 1 + V{});
    const V half = 0.5f * (1 + t);
    return {x * half, tile::fma(0.5f * x * (1 - t * t), inner, half)};
  }
};

}  // namespace tw::kernels
