// Powers and rests of divisions, on vectors of float32. On GPUs the device's own.
#pragma once

#include "tilewright/tile/circular.h"

namespace tw::tile {

#if defined(__CUDACC__)

template <class V>
TW_INLINE V pow(V x, V y) {
  V out = x;
  for (int i = 0; i < kLanesOf<V>; ++i) out[i] = __builtin_powf(x[i], y[i]);
  return out;
}
/// x - y trunc(x / y), exactly.
template <class V>
TW_INLINE V exact_rest(V x, V y) {
  V out = x;
  for (int i = 0; i < kLanesOf<V>; ++i) out[i] = __builtin_fmodf(x[i], y[i]);
  return out;
}

#else

namespace detail {

/// The sum of both, which a single float32 would round.
template <class V>
struct TwoPart {
  V high, low;
};

/// log2 a for a >= 0: n + log2(1 + f), the latter by atanh(f / (2 + f)). Relative error 5e-9.
template <class V>
TW_INLINE TwoPart<V> log2_in_two(V a) {
  using I = with_element<int32_t, V>;
  constexpr int32_t kSqrtHalf = 0x3f3504f3;  // as in log
  const auto subnormal = a < splat<V>(0x1p-126f);
  const I bits = bit_cast<I>(select(subnormal, a * 0x1p23f, a)) - kSqrtHalf;
  const V n = convert<V>((bits >> 23) + select(subnormal, I{} - 23, I{}));
  const V f = bit_cast<V>((bits & 0x7fffff) + kSqrtHalf) - 1.0f;
  const V d = f + 2.0f, d_low = f - (d - 2.0f), inverse = 1.0f / d;
  const V s = f * inverse;
  const V s_low = inverse * fma(-s, d_low, fma(-s, d, f));
  const V t = s * s;
  V p = splat<V>(1.0f / 11);  // atanh(s) = s + s t (1/3 + t/5 + ...), t <= 0.03
  p = fma(p, t, splat<V>(1.0f / 9));
  p = fma(p, t, splat<V>(1.0f / 7));
  p = fma(p, t, splat<V>(1.0f / 5));
  p = fma(p, t, splat<V>(1.0f / 3));
  const V scale_2 = splat<V>(0x1.715476p+1f);  // 2 / ln 2, and what it is rounded by
  const V u = s * scale_2;
  V u_low = fma(s, scale_2, -u);
  u_low = fma(s, splat<V>(0x1.4ae0cp-25f), u_low);
  u_low = fma(fma(s * t, p, s_low), scale_2, u_low);
  const V near = n + u, rest = (u - (near - n)) + u_low, high = near + rest;
  return {high, rest - (high - near)};
}

}  // namespace detail

/// x^y: 1.3 ULP, and 0.08 for each unit of |y ln x|. All that C's pow says of zeros, infinities,
/// NaN and negative x holds.
template <class V>
TW_INLINE V pow(V x, V y) {
  using I = with_element<int32_t, V>;
  const V infinity = splat<V>(__builtin_inff());
  const I sign = bit_cast<I>(x) & int32_t(0x80000000u);
  const V a = bit_cast<V>(bit_cast<I>(x) ^ sign);
  const detail::TwoPart<V> logarithm = detail::log2_in_two(a);
  const V high = select(a == V{}, -infinity, select(a < infinity, logarithm.high, a));
  // y log2 a; beyond what floats hold, no low part is wanted
  const V product = y * high;
  const V bounded = min(splat<V>(129.0f), max(splat<V>(-151.0f), product));  // keeps NaN
  const V low = fma(y, logarithm.low, fma(y, high, -product));
  const V n = bounded + detail::kToWhole;
  const V f = (bounded - (n - detail::kToWhole)) + select(bounded == product, low, V{});
  V r = detail::exp2_of_parts(f, splat<V>(detail::kToWhole));
  r = detail::times_any_power_of_2(r, n);
  r = select((a == splat<V>(1.0f)) | (y == V{}), splat<V>(1.0f), r);
  // Whole numbers from 2^24 on are even.
  const V whole = round(y);
  const V half = y * 0.5f;
  const auto is_whole = whole == y;
  const auto is_odd = is_whole & (round(half) != half);
  r = bit_cast<V>(bit_cast<I>(r) | select(is_odd, sign, I{}));
  const auto is_real = is_whole | (x >= V{}) | (x == -infinity) | (x != x);
  return select(is_real, r, splat<V>(__builtin_nanf("")));
}

/// x - y trunc(x / y), exactly, with the sign of x. A quotient below 2^22 is at most one too large,
/// and what is left then has few enough digits; others go lane by lane through the C library.
template <class V>
TW_INLINE V exact_rest(V x, V y) {
  using I = with_element<int32_t, V>;
  const I sign = bit_cast<I>(x) & int32_t(0x80000000u);
  const V a = bit_cast<V>(bit_cast<I>(x) ^ sign);
  const V b = bit_cast<V>(bit_cast<I>(y) & 0x7fffffff);
  const V quotient = a / b;
  V r = fma(-trunc(quotient), b, a);
  r = select(r < V{}, r + b, r);
  r = bit_cast<V>(bit_cast<I>(r) | sign);
  const auto is_right = (quotient < splat<V>(0x1p22f)) & (b < splat<V>(__builtin_inff()));
  if (fold_lanes(is_right, [](auto p, auto q) { return p & q; }) != 0) [[likely]]
    return r;
  for (int i = 0; i < kLanesOf<V>; ++i)
    if (!is_right[i]) r[i] = __builtin_fmodf(x[i], y[i]);
  return r;
}

#endif

}  // namespace tw::tile
