// Elementary functions on vectors, the same bits on every target. Polynomials are minimax fits,
// rounded to float32. The stated errors are the largest found over every 13th float32 (exp: over
// all of them) against float64.
//
// Vectors of float64 go lane by lane through the C library: tests and scientific inputs use them,
// no model does.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::tile {

namespace detail {

template <class V>
inline constexpr bool is_f64 = same_type<typename vector_traits<V>::scalar, double>;

/// f(|x|) with the sign of x, for odd functions.
template <class V, class F>
TW_INLINE V odd(V x, F f) {
  using I = vec<uint32_t, kLanesOf<V>>;
  const I sign = bit_cast<I>(x) & 0x80000000u;
  return bit_cast<V>(bit_cast<I>(f(bit_cast<V>(bit_cast<I>(x) ^ sign))) | sign);
}

/// p * 2^n for p in [0.5, 2) and whole n in [-160, 129]: rounded once, subnormals and infinity
/// included.
template <class V>
TW_INLINE V scale_by_power_of_2(V p, V n) {
  if constexpr (kHasScale<V>) {
    return scale(p, n);
  } else {
    using I = vec<int32_t, kLanesOf<V>>;
    const I whole = convert<I>(n), half = whole >> 1;  // 2^n itself may be no normal number
    return p * bit_cast<V>((half + 127) << 23) * bit_cast<V>((whole - half + 127) << 23);
  }
}

}  // namespace detail

/// e^x: at most 1.02 ULP, measured over all floats. Overflow gives +inf, -inf gives 0, NaN stays
/// NaN; subnormal results are rounded correctly. Where the hardware has 2^x, a relative error of
/// 3e-6 instead (docs/adr/0007).
template <class V>
TW_INLINE V exp(V x) {
  if constexpr (detail::is_f64<V>) {
    return each_lane(x, [](double lane) { return __builtin_exp(lane); });
  } else if constexpr (kHasExp2Unit<V>) {
    return exp2_unit(x * 0x1.715476p+0f);
  } else {
    const V bounded = min(splat<V>(89.0f), max(splat<V>(-105.0f), x));  // keeps NaN
    const V n = round(bounded * 1.44269504f);
    V r =
        fma(n, splat<V>(-0.693359375f), bounded);  // ln 2 in two parts, the first one exact times n
    r = fma(n, splat<V>(2.12194440e-4f), r);
    // e^r = 1 + r + r^2 q(r), |r| <= ln 2 / 2; q is the minimax polynomial, relative error 3e-9.
    V q = splat<V>(0x1.6a244cp-10f);
    q = fma(q, r, splat<V>(0x1.1239d4p-7f));
    q = fma(q, r, splat<V>(0x1.5558f2p-5f));
    q = fma(q, r, splat<V>(0x1.555492p-3f));
    q = fma(q, r, splat<V>(0x1.fffffcp-2f));
    return detail::scale_by_power_of_2(fma(q, r * r, r) + 1.0f, n);
  }
}

namespace detail {
/// 2^(n + f) for whole n in [-125, 0] and |f| <= 1/2.
template <class V>
TW_INLINE V exp2_of_parts(V n, V f) {
  using I = vec<int32_t, kLanesOf<V>>;
  V p = splat<V>(0x1.41fbbcp-13f);  // relative error 2e-9
  p = fma(p, f, splat<V>(0x1.5f3e52p-10f));
  p = fma(p, f, splat<V>(0x1.3b2d4cp-7f));
  p = fma(p, f, splat<V>(0x1.c6aee8p-5f));
  p = fma(p, f, splat<V>(0x1.ebfbdcp-3f));
  p = fma(p, f, splat<V>(0x1.62e430p-1f));
  p = fma(p, f, splat<V>(1.0f));
  return bit_cast<V>(bit_cast<I>(p) + (convert<I>(n) << 23));
}
}  // namespace detail

/// 2^x for x <= 0, as softmax needs it: at most 0.96 ULP, measured, down to x = -125, and 0 below.
/// NaN stays NaN.
template <class V>
TW_INLINE V exp2_nonpositive(V x) {
  if constexpr (kHasExp2Unit<V>) return exp2_unit(x);
  const V n = round(x);
  return select(x < splat<V>(-125.0f), V{}, detail::exp2_of_parts(n, x - n));
}

/// e^x for x <= 0: at most 1.18 ULP down to x = -86, and 0 below -86.6. NaN stays NaN. Two
/// thirds of the work of exp.
template <class V>
TW_INLINE V exp_nonpositive(V x) {
  if constexpr (detail::is_f64<V> || kHasExp2Unit<V>) {
    return exp(x);
  } else {
    constexpr float kLog2E = 0x1.715476p+0f, kLog2ELow = 0x1.4ae0cp-26f;
    const V n = round(x * kLog2E);
    const V f = fma(x, splat<V>(kLog2ELow), fma(x, splat<V>(kLog2E), -n));
    return select(n < splat<V>(-125.0f), V{}, detail::exp2_of_parts(n, f));
  }
}

/// tanh x: at most 1.33 ULP.
template <class V>
TW_INLINE V tanh(V x) {
  if constexpr (detail::is_f64<V>) {
    return each_lane(x, [](double lane) { return __builtin_tanh(lane); });
  } else {
    return detail::odd(x, [](V a) {
      const V large = 1.0f - 2.0f / (1.0f + exp(a + a));
      const V s = a * a;
      V p = splat<V>(0x1.18e1dep-9f);  // (tanh(a) / a - 1) / a^2, relative error of a tanh 2e-10
      p = fma(p, s, splat<V>(-0x1.0bf4fcp-7f));
      p = fma(p, s, splat<V>(0x1.638b58p-6f));
      p = fma(p, s, splat<V>(-0x1.b9ee90p-5f));
      p = fma(p, s, splat<V>(0x1.111066p-3f));
      p = fma(p, s, splat<V>(-0x1.555554p-2f));
      return select(a < splat<V>(0.625f), fma(p * s, a, a), large);
    });
  }
}

/// The logistic function 1 / (1 + e^-x): at most 2.77 ULP, also where it is tiny.
template <class V>
TW_INLINE V sigmoid(V x) {
  const V e = exp(select(x < V{}, x, -x));
  const V r = 1 / (1 + e);
  return select(x < V{}, e * r, r);
}

/// erf x: at most 1.05 ULP. Two polynomials: of erf(a) / a, and, as N. Juffa does, of log(erfc(a))
/// / a.
template <class V>
TW_INLINE V erf(V x) {
  if constexpr (detail::is_f64<V>) {
    return each_lane(x, [](double lane) { return __builtin_erf(lane); });
  } else {
    return detail::odd(x, [](V magnitude) {
      const V a = min(splat<V>(4.0f), magnitude);  // erf 4 rounds to 1; keeps NaN
      const V s = a * a;
      V p = splat<V>(0x1.5cd4b2p-14f);  // relative error 5e-10
      p = fma(p, s, splat<V>(-0x1.aa3f30p-11f));
      p = fma(p, s, splat<V>(0x1.54c7f6p-8f));
      p = fma(p, s, splat<V>(-0x1.b80e90p-6f));
      p = fma(p, s, splat<V>(0x1.ce2e0ap-4f));
      p = fma(p, s, splat<V>(-0x1.812742p-2f));
      p = fma(p, s, splat<V>(0x1.06eba8p-3f));
      V q = splat<V>(0x1.78dbd8p-17f);  // absolute error of erf 7e-10
      q = fma(q, a, splat<V>(-0x1.527be6p-12f));
      q = fma(q, a, splat<V>(0x1.dd6c98p-9f));
      q = fma(q, a, splat<V>(-0x1.85514ep-6f));
      q = fma(q, a, splat<V>(0x1.b32570p-4f));
      q = fma(q, a, splat<V>(0x1.45328ep-1f));
      q = fma(q, a, splat<V>(0x1.0778dcp-3f));
      return select(a < splat<V>(0.93f), fma(p, a, a), 1.0f - exp(-fma(q, a, a)));
    });
  }
}

/// ln x: at most 0.82 ULP. ln 0 = -inf, of a negative number NaN.
template <class V>
TW_INLINE V log(V x) {
  if constexpr (detail::is_f64<V>) {
    return each_lane(x, [](double lane) { return __builtin_log(lane); });
  } else {
    using I = vec<int32_t, kLanesOf<V>>;
    constexpr int32_t kSqrtHalf =
        0x3f3504f3;  // bits of sqrt(1/2): the mantissa's range starts there
    const auto subnormal = x < splat<V>(0x1p-126f);
    const I bits = bit_cast<I>(select(subnormal, x * 0x1p23f, x)) - kSqrtHalf;
    const V n = convert<V>((bits >> 23) + select(subnormal, I{} - 23, I{}));
    const V f = bit_cast<V>((bits & 0x7fffff) + kSqrtHalf) - 1.0f;
    V p = splat<V>(0x1.1457a6p-4f);  // log(1 + f) = f - f^2 / 2 + f^3 p(f), relative error 8e-10
    p = fma(p, f, splat<V>(-0x1.de3c16p-4f));
    p = fma(p, f, splat<V>(0x1.e6f06ap-4f));
    p = fma(p, f, splat<V>(-0x1.fc2208p-4f));
    p = fma(p, f, splat<V>(0x1.233768p-3f));
    p = fma(p, f, splat<V>(-0x1.555c4ep-3f));
    p = fma(p, f, splat<V>(0x1.99a4b6p-3f));
    p = fma(p, f, splat<V>(-0x1.000006p-2f));
    p = fma(p, f, splat<V>(0x1.555548p-2f));
    const V s = f * f;
    V y = fma(p * f, s, n * -2.12194440e-4f);  // ln 2 in two parts, the first one exact times n
    y = fma(s, splat<V>(-0.5f), y);
    y = fma(n, splat<V>(0.693359375f), y + f);
    y = select(x == V{}, splat<V>(-__builtin_inff()), y);
    y = select(x < splat<V>(__builtin_inff()), y, x);  // +inf and NaN
    return select(x < V{}, splat<V>(__builtin_nanf("")), y);
  }
}

}  // namespace tw::tile
