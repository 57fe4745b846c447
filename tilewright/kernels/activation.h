// Activations as functors on vectors of float32 or float64, shared by the elementwise operators and
// by the epilogues of matrix multiplication.
#pragma once

#include "tilewright/tile/math.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// The order of the schema choice `none|relu|gelu|gelu_tanh|silu`.
enum class Activation : int { kNone, kRelu, kGelu, kGeluTanh, kSilu };

struct Identity {
  static constexpr bool kCheap = true;  // an instruction or none
  template <class V>
  TW_INLINE V operator()(V x) const {
    return x;
  }
};
/// max(x, 0); NaN stays NaN.
struct Relu {
  static constexpr bool kCheap = true;
  template <class V>
  TW_INLINE V operator()(V x) const {
    return tile::select(x < V{}, V{}, x);
  }
};
/// x Φ(x), Φ the normal distribution's. Hendrycks & Gimpel, arXiv:1606.08415.
struct Gelu {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return x * tile::normal_cdf(x);
  }
};
/// The tanh approximation of Gelu, ibid. section 2.
struct GeluTanh {
  template <class V>
  TW_INLINE V operator()(V x) const {
    const V inner =
        tile::splat<V>(0.79788456080286536) * tile::fma(x * x * x, tile::splat<V>(0.044715), x);
    return tile::quotient(
        x,
        1 + tile::exp_of_moderate(-2 * inner));  // (1 + tanh u) / 2 is the logistic function of 2 u
  }
};
/// σ(x) = 1 / (1 + e^-x).
struct Sigmoid {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return tile::sigmoid(x);
  }
};
struct Tanh {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return tile::tanh(x);
  }
};
/// x σ(x).
struct Silu {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return tile::quotient(x, 1 + tile::exp_of_moderate(-x));
  }
};

/// Calls f with the functor of `activation`.
template <class F>
TW_INLINE void with_activation(Activation activation, F&& f) {
  switch (activation) {
    case Activation::kNone:
      return f(Identity{});
    case Activation::kRelu:
      return f(Relu{});
    case Activation::kGelu:
      return f(Gelu{});
    case Activation::kGeluTanh:
      return f(GeluTanh{});
    case Activation::kSilu:
      return f(Silu{});
  }
}

}  // namespace tw::kernels
