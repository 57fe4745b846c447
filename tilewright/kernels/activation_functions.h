//   out = f(x), elementwise, for activations with parameters and cuts of the range of x.
#pragma once

#include "tilewright/kernels/choose.h"
#include "tilewright/kernels/elementwise.h"
#include "tilewright/tile/circular.h"

namespace tw::kernels {

/// The parameters of an activation; what each means, its functor says.
struct ActivationParameters {
  float a, b, c;
};

/// x between a and b; where a is above b, b. NaN stays NaN.
struct ClampToRange {
  template <class V>
  TW_INLINE V operator()(V x, ActivationParameters p) const {
    return tile::min(tile::splat<V>(p.b), tile::max(tile::splat<V>(p.a), x));
  }
};
/// A line from 0 at -3 to 1 at 3.
struct Hardsigmoid {
  template <class V>
  TW_INLINE V operator()(V x, ActivationParameters) const {
    return ClampToRange{}(x + 3.0f, {0.0f, 6.0f, 0.0f}) / 6.0f;
  }
};
/// x hardsigmoid(x). Howard et al., arXiv:1905.02244.
struct Hardswish {
  template <class V>
  TW_INLINE V operator()(V x, ActivationParameters) const {
    return x * ClampToRange{}(x + 3.0f, {0.0f, 6.0f, 0.0f}) / 6.0f;
  }
};
/// x tanh(ln(1 + e^x)) = x n / (n + 2), n = e^x (e^x + 2). Misra, arXiv:1908.08681.
struct Mish {
  template <class V>
  TW_INLINE V operator()(V x, ActivationParameters) const {
    const V e = tile::exp(tile::min(tile::splat<V>(20.0f), x));  // beyond, the factor is 1
    const V n = e * (e + 2.0f);
    return x * (n / (n + 2.0f));
  }
};
/// x above 0, a x below.
struct LeakyRelu {
  template <class V>
  TW_INLINE V operator()(V x, ActivationParameters p) const {
    return tile::select(x > V{}, x, x * p.a);
  }
};
/// x above 0, a (e^x - 1) below, times b. Clevert et al., arXiv:1511.07289.
struct Elu {
  template <class V>
  TW_INLINE V operator()(V x, ActivationParameters p) const {
    return tile::select(x > V{}, x, tile::expm1(x) * p.a) * p.b;
  }
};
/// ln(1 + e^(a x)) / a; x where a x is above b.
struct Softplus {
  template <class V>
  TW_INLINE V operator()(V x, ActivationParameters p) const {
    const V scaled = x * p.a;
    const V bent = tile::log1p(tile::exp(scaled)) / p.a;
    return tile::select(scaled > tile::splat<V>(p.b), x, bent);
  }
};
/// a for NaN, b for infinity, c for minus infinity.
struct NanToNum {
  template <class V>
  TW_INLINE V operator()(V x, ActivationParameters p) const {
    const V infinity = tile::splat<V>(__builtin_inff());
    V y = tile::select(x == infinity, tile::splat<V>(p.b), x);
    y = tile::select(x == -infinity, tile::splat<V>(p.c), y);
    return tile::select(x != x, tile::splat<V>(p.a), y);
  }
};
/// x to a digits after the point, ties to even; before the point for a negative a.
struct RoundToDigits {
  template <class V>
  TW_INLINE V operator()(V x, ActivationParameters p) const {
    float power = 1;
    for (float i = 0; i < (p.a < 0 ? -p.a : p.a); ++i) power *= 10;
    if (p.a < 0) return tile::round(x / power) * power;
    return tile::round(x * power) / power;
  }
};

/// In the order of the schema of ops/activation.h.
using ActivationFunctions = OneOf<ClampToRange, Hardsigmoid, Hardswish, Mish, LeakyRelu, Elu,
                                  Softplus, NanToNum, RoundToDigits>;

template <class T>
struct ActivationChoice {
  Rows<const T> x;  // [...]
  int function;
  tile::compute_t<T> a, b, c;
  Rows<T> out;  // [...], may alias x

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(x, out);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return plan_elementwise<P>(out);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const ActivationParameters given{a, b, c};
    ActivationFunctions::choose_within<P>(function, [&](auto f) {
      elementwise<tile::compute_t<T>, tile::kMathChains>(
          p, out, [f, given](auto v) TW_INLINED { return f(v, given); }, x);
    });
  }
};

}  // namespace tw::kernels
