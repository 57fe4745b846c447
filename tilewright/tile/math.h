// Elementary functions on vectors, the same bits on every target. Polynomials are minimax fits,
// rounded to float32. The stated errors are the largest found over every 13th float32 (exp: over
// all of them) against float64.
#pragma once

#include "tilewright/tile/math_f64.h"
#include "tilewright/tile/tile.h"

namespace tw::tile {

/// Vectors to a span of a loop that spends its time in these functions (tile/cpu/chains.h).
inline constexpr int kMathChains = 4;

namespace detail {

template <class V>
inline constexpr bool is_f64 = same_type<typename vector_traits<V>::scalar, double>;

/// Added to a number below 2^21 it leaves the nearest whole number n in the lowest bits, as n +
/// 127: moved to the exponent's place they are 2^n, from 0 for n = -127 to infinity for n = 128.
inline constexpr float kToWhole = 0x1.8p23f + 127;

/// p * 2^n, rounded once, for p in [0.5, 2) and the whole number n that `shifted` = n + kToWhole
/// holds. Not by scale, which makes a subnormal number of n = -127: masked weights must be 0.
template <class V>
TW_INLINE V times_power_of_2(V p, V shifted) {
  return p * bit_cast<V>(bit_cast<with_element<int32_t, V>>(shifted) << 23);
}
/// The same for any n in [-160, 129], subnormals included.
template <class V>
TW_INLINE V times_any_power_of_2(V p, V shifted) {
  if constexpr (kHasScale<V>) {
    return scale(p, shifted - kToWhole);
  } else {
    using I = with_element<int32_t, V>;
    const I n = bit_cast<I>(shifted) - __builtin_bit_cast(int32_t, kToWhole);
    const I half = n >> 1;  // 2^n itself may be no normal number
    return p * bit_cast<V>((half + 127) << 23) * bit_cast<V>((n - half + 127) << 23);
  }
}

/// e^r, r = x - n ln 2, for the whole number n that `shifted` holds.
template <class V>
TW_INLINE V exp_of_rest(V x, V shifted) {
  const V n = shifted - kToWhole;
  V r = fma(n, splat<V>(-0.693359375f), x);  // ln 2 in two parts, the first one exact times n
  r = fma(n, splat<V>(2.12194440e-4f), r);
  // e^r = 1 + r + r^2 q(r), |r| <= ln 2 / 2; q is the minimax polynomial, relative error 3e-9.
  V q = splat<V>(0x1.6a244cp-10f);
  q = fma(q, r, splat<V>(0x1.1239d4p-7f));
  q = fma(q, r, splat<V>(0x1.5558f2p-5f));
  q = fma(q, r, splat<V>(0x1.555492p-3f));
  q = fma(q, r, splat<V>(0x1.fffffcp-2f));
  return fma(q, r * r, r) + 1.0f;
}

/// 2^x by way of 2^f, f = x - n, for x >= -127; 0 where the result is subnormal.
template <class V>
TW_INLINE V exp2_of_parts(V f, V shifted) {
  V p = splat<V>(0x1.41fbbcp-13f);  // relative error 2e-9
  p = fma(p, f, splat<V>(0x1.5f3e52p-10f));
  p = fma(p, f, splat<V>(0x1.3b2d4cp-7f));
  p = fma(p, f, splat<V>(0x1.c6aee8p-5f));
  p = fma(p, f, splat<V>(0x1.ebfbdcp-3f));
  p = fma(p, f, splat<V>(0x1.62e430p-1f));
  p = fma(p, f, splat<V>(1.0f));
  return times_power_of_2(p, shifted);
}

}  // namespace detail

/// e^x: at most 1.02 ULP, measured over all floats. Overflow gives +inf, -inf gives 0, NaN stays
/// NaN; subnormal results are rounded correctly. Where the hardware has 2^x, a relative error of
/// 3e-6 instead (docs/adr/0007).
template <class V>
TW_INLINE V exp(V x) {
  if constexpr (detail::is_f64<V>) {
    return detail::exp_f64(x);
  } else if constexpr (kHasExp2Unit<V>) {
    return exp2_unit(x * 0x1.715476p+0f);
  } else {
    const V bounded = min(splat<V>(89.0f), max(splat<V>(-105.0f), x));  // keeps NaN
    const V n = fma(bounded, splat<V>(1.44269504f), splat<V>(detail::kToWhole));
    return detail::times_any_power_of_2(detail::exp_of_rest(bounded, n), n);
  }
}

/// exp to add to 1, or for what comes near to it: 0 below -87.3 and infinity above 88.3. Two thirds
/// of the work.
template <class V>
TW_INLINE V exp_of_moderate(V x) {
  if constexpr (detail::is_f64<V> || kHasExp2Unit<V>) {
    return exp(x);
  } else {
    const V bounded = min(splat<V>(89.0f), max(splat<V>(-88.0f), x));  // keeps NaN
    const V n = fma(bounded, splat<V>(1.44269504f), splat<V>(detail::kToWhole));
    return detail::times_power_of_2(detail::exp_of_rest(bounded, n), n);
  }
}

/// 2^x for x <= 0, as softmax needs it: at most 0.96 ULP, measured, down to x = -126, and 0 below
/// -126.5. NaN stays NaN.
template <class V>
TW_INLINE V exp2_nonpositive(V x) {
  if constexpr (kHasExp2Unit<V>) {
    return exp2_unit(x);
  } else {
    const V bounded = max(splat<V>(-127.0f), x);  // keeps NaN
    const V n = bounded + detail::kToWhole;
    return detail::exp2_of_parts(bounded - (n - detail::kToWhole), n);
  }
}

/// e^x for x <= 0: at most 1.18 ULP down to x = -87.3, and 0 below -87.7. NaN stays NaN. Two
/// thirds of the work of exp.
template <class V>
TW_INLINE V exp_nonpositive(V x) {
  if constexpr (detail::is_f64<V> || kHasExp2Unit<V>) {
    return exp(x);
  } else {
    const V log2_e = splat<V>(0x1.715476p+0f), bounded = max(splat<V>(-88.0f), x);  // keeps NaN
    const V n = fma(bounded, log2_e, splat<V>(detail::kToWhole));
    const V high = fma(bounded, log2_e, detail::kToWhole - n);
    return detail::exp2_of_parts(fma(bounded, splat<V>(0x1.4ae0cp-26f), high), n);
  }
}

/// e^(x - base) for x <= base. Where the hardware computes 2^x, as 2^(x log2 e - base log2 e): one
/// multiply-add, and what base log2 e is rounded by is the same for all x.
template <class V>
TW_INLINE V exp_below(V x, typename vector_traits<V>::scalar base) {
  if constexpr (kHasExp2Unit<V>) {
    constexpr float kLog2E = 0x1.715476p+0f;
    return exp2_unit(fma(x, splat<V>(kLog2E), splat<V>(-base * kLog2E)));
  } else {
    return exp_nonpositive(x - base);
  }
}

/// tanh x: at most 1.33 ULP.
template <class V>
TW_INLINE V tanh(V x) {
  if constexpr (detail::is_f64<V>) {
    return detail::tanh_f64(x);
  } else {
    return detail::odd(x, [](V a) TW_INLINED {
      const V large = 1.0f - 2.0f / (1.0f + exp_of_moderate(a + a));
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

/// a / b for b >= 1. Where the hardware has 1/x, by that: a division takes three times as long.
template <class V>
TW_INLINE V quotient(V a, V b) {
  if constexpr (kHasExp2Unit<V>)
    return a * reciprocal_unit(b);
  else
    return a / b;
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
    return detail::erf_f64(x);
  } else {
    return detail::odd(x, [](V magnitude) TW_INLINED {
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
      return select(a < splat<V>(0.93f), fma(p, a, a), 1.0f - exp_of_moderate(-fma(q, a, a)));
    });
  }
}

/// The normal distribution's cumulative probability, 1/2 (1 + erf(x / sqrt 2)), with an absolute
/// error of 1e-7: from the logarithm of the tail. Where the hardware computes 2^x, by Abramowitz &
/// Stegun 7.1.26.
template <class V>
TW_INLINE V normal_cdf(V x) {
  if constexpr (detail::is_f64<V>) {
    return 0.5f * (1 + erf(x * splat<V>(0.70710678118654752)));
  } else {
    const V a = bit_cast<V>(bit_cast<with_element<uint32_t, V>>(x) & 0x7fffffffu);
    V tail;
    if constexpr (kHasExp2Unit<V>) {
      const V t = reciprocal_unit(fma(a, splat<V>(0.3275911f * 0.70710678f), splat<V>(1.0f)));
      V p = splat<V>(0.5f * 1.061405429f);
      p = fma(p, t, splat<V>(0.5f * -1.453152027f));
      p = fma(p, t, splat<V>(0.5f * 1.421413741f));
      p = fma(p, t, splat<V>(0.5f * -0.284496736f));
      p = fma(p, t, splat<V>(0.5f * 0.254829592f));
      tail = p * t * exp2_unit(x * x * -0.72134752f);
    } else {
      V p = splat<V>(-0x1.7c7edap-19f);  // log2 of the tail; absolute error of the tail 8e-9
      p = fma(p, a, splat<V>(0x1.4a52f0p-15f));
      p = fma(p, a, splat<V>(-0x1.8672c0p-13f));
      p = fma(p, a, splat<V>(-0x1.1f2d2cp-13f));
      p = fma(p, a, splat<V>(0x1.cee886p-8f));
      p = fma(p, a, splat<V>(-0x1.ae0c78p-5f));
      p = fma(p, a, splat<V>(-0x1.d63aacp-2f));
      p = fma(p, a, splat<V>(-0x1.26aed4p+0f));
      tail = exp2_nonpositive(fma(p, a, splat<V>(-1.0f)));
    }
    return select(x < V{}, tail, 1.0f - tail);
  }
}

/// ln x: at most 0.82 ULP. ln 0 = -inf, of a negative number NaN.
template <class V>
TW_INLINE V log(V x) {
  if constexpr (detail::is_f64<V>) {
    return detail::log_f64(x);
  } else {
    using I = with_element<int32_t, V>;
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
