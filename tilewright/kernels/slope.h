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
    const V s = tile::quotient(1 + V{}, 1 + tile::exp_of_moderate(-x));
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
/// x (1 + tanh(a (x + b x^3))) / 2 = x σ(u), u = 2 a (x + b x^3), whose derivative is
/// σ(u) (1 + x u' σ(-u)). Beyond 10 that is 0 or 1, of which x^3 could make no number.
struct GeluTanhSlope {
  template <class V>
  TW_INLINE Slope<V> operator()(V x) const {
    const V a = tile::splat<V>(2 * 0.79788456080286536), ab = a * tile::splat<V>(0.044715);
    const V within = tile::min(tile::splat<V>(10), tile::max(tile::splat<V>(-10), x));
    const V square = within * within;
    const V e = tile::exp_of_moderate(-within * tile::fma(square, ab, a));
    const V s = tile::quotient(1 + V{}, 1 + e);  // and σ(-u) = e s
    const V product = within * tile::fma(square, 3 * ab, a);
    return {x * s, s * tile::fma(product, e * s, 1 + V{})};
  }
};

}  // namespace tw::kernels
