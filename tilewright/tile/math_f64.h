// e^x, tanh x, erf x and ln x of float64, the same bits on every target. The stated errors hold for
// the million numbers that tests/unit/tile/math_test.cc compares with long double.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::tile::detail {

uint32_t uint_like(float);
uint64_t uint_like(double);

/// f(|x|) with the sign of x, for odd functions, of either type.
template <class V, class F>
TW_INLINE V odd(V x, F f) {
  using U = decltype(uint_like(typename vector_traits<V>::scalar{}));
  using I = with_element<U, V>;
  const I sign = bit_cast<I>(x) & U{1} << (8 * sizeof(U) - 1);
  return bit_cast<V>(bit_cast<I>(f(bit_cast<V>(bit_cast<I>(x) ^ sign))) | sign);
}

/// As kToWhole in tile/math.h: added to a number below 2^42 it leaves the nearest whole number n in
/// the lowest bits, as n + 1023.
inline constexpr double kToWhole64 = 0x1.8p52 + 1023;

/// 2^n of the whole number n that `shifted` = n + kToWhole64 holds, in [-1022, 1023].
template <class V>
TW_INLINE V power_of_2(V shifted) {
  return bit_cast<V>(bit_cast<with_element<int64_t, V>>(shifted) << 52);
}

/// The polynomial of these coefficients, the highest first.
template <class V, int kCount>
TW_INLINE V polynomial(V x, const double (&coefficients)[kCount]) {
  V p = splat<V>(coefficients[0]);
  TW_UNROLL
  for (int i = 1; i < kCount; ++i) p = fma(p, x, splat<V>(coefficients[i]));
  return p;
}

/// e^x = 2^n (1 + less), |less| < 0.42.
template <class V>
struct ExpParts {
  V n, less;
};
template <class V>
TW_INLINE ExpParts<V> exp_parts(V x) {
  const V n = fma(x, splat<V>(0x1.71547652b82fep+0), splat<V>(kToWhole64)) - kToWhole64;
  V r =
      fma(n, splat<V>(-0x1.62e42fee00000p-1), x);  // ln 2 in two parts, n times the first is exact
  r = fma(n, splat<V>(-0x1.a39ef35793c76p-33), r);
  // e^r = 1 + r + r^2 q(r), |r| <= ln 2 / 2; q is the minimax polynomial, relative error 6e-20.
  constexpr double kQ[] = {0x1.1e3d06feb704ap-29,
                           0x1.af6c1db8179ebp-26,
                           0x1.27e5b49341957p-22,
                           0x1.71ddf002824dfp-19,
                           0x1.a01a01364e066p-16,
                           0x1.a01a01b38a170p-13,
                           0x1.6c16c16c305ddp-10,
                           0x1.111111110ec3fp-7,
                           0x1.5555555555503p-5,
                           0x1.555555555555bp-3,
                           0.5};
  return {n, fma(polynomial<V>(r, kQ), r * r, r)};
}

/// e^x: at most 0.98 ULP. Overflow gives +inf, -inf gives 0, NaN stays NaN; subnormal results are
/// rounded once.
template <class V>
TW_INLINE V exp_f64(V x) {
  const ExpParts<V> e = exp_parts<V>(min(splat<V>(710.0), max(splat<V>(-746.0), x)));  // keeps NaN
  // By two factors: 2^n itself may be no normal number.
  const V half = fma(e.n, splat<V>(0.5), splat<V>(kToWhole64));
  const V rest = e.n - (half - kToWhole64) + kToWhole64;
  return (e.less + 1.0) * power_of_2(half) * power_of_2(rest);
}

/// tanh a = m / (m + 2), m = e^(2a) - 1: at most 2.7 ULP.
template <class V>
TW_INLINE V tanh_f64(V x) {
  return odd(x, [](V magnitude) TW_INLINED {
    const V a = min(splat<V>(22.0), magnitude);  // tanh 22 rounds to 1; keeps NaN
    const ExpParts<V> e = exp_parts<V>(a + a);
    const V power = power_of_2<V>(e.n + kToWhole64), m = fma(e.less, power, power - 1.0);
    return m / (m + 2.0);
  });
}

/// erf x: at most 1.1 ULP. Two polynomials, as in tile/math.h: of erf(a) / a - 1, relative error
/// 7e-18, and of -log(erfc(a)), absolute error of erf 8e-18.
template <class V>
TW_INLINE V erf_f64(V x) {
  constexpr double kNear[] = {
      -0x1.acaeaf0ad7c2ap-31, 0x1.d774660289880p-27, -0x1.5c149969ddc41p-23, 0x1.b9821db90328bp-20,
      -0x1.f4ca8b6107726p-17, 0x1.f9a2bedeb5897p-14, -0x1.c02db06ce9c32p-11, 0x1.565bccfa73a37p-8,
      -0x1.b82ce31205091p-6,  0x1.ce2f21a040fd2p-4,  -0x1.812746b0379c1p-2,  0x1.06eba8214db68p-3};
  constexpr double kFar[] = {-0x1.5251a0cdf1b17p-54, 0x1.97f2bab6eb32ep-48,  -0x1.d243b2a89bff6p-43,
                             0x1.50022b17206cbp-38,  -0x1.56a4668547669p-34, 0x1.06e9d803aa2eep-30,
                             -0x1.3b1aa3505f083p-27, 0x1.2df81c111b1fep-24,  -0x1.d57883929a6e8p-22,
                             0x1.2a030d78ded91p-19,  -0x1.346084c00bdd1p-17, 0x1.003167fe98fd7p-15,
                             -0x1.472cb521b4d96p-14, 0x1.1806e17ad5969p-13,  -0x1.c140010270a63p-15,
                             -0x1.0f3ce7e57676cp-11, 0x1.af0c3519bc703p-10,  -0x1.7ce04d9d0f2bbp-13,
                             -0x1.39907cccb23ffp-6,  0x1.a4f6e1e6e08b1p-4,   0x1.45f30b0b75555p-1,
                             0x1.20dd72714929cp+0,   0x1.afaf9fb6d7a16p-26};
  return odd(x, [&](V magnitude) TW_INLINED {
    const V a = min(splat<V>(5.95), magnitude);  // erf 5.95 rounds to 1; keeps NaN
    const V near = fma(polynomial<V>(a * a, kNear), a, a);
    return select(a < splat<V>(1.0), near, 1.0 - exp_f64<V>(-polynomial<V>(a, kFar)));
  });
}

/// ln x: at most 0.97 ULP. ln 0 = -inf, of a negative number NaN. ln(1 + f) = f - s (f - s^2
/// p(s^2)), s = f / (2 + f), as fdlibm has it; p is the minimax polynomial, relative error 2e-20.
template <class V>
TW_INLINE V log_f64(V x) {
  using I = with_element<uint64_t, V>;
  constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd;  // its bits: the mantissa's range starts there
  constexpr double kP[] = {0x1.0f6a62775b07dp-3, 0x1.0f5bfcdba7433p-3, 0x1.3b20b48715a36p-3,
                           0x1.745cde01b58edp-3, 0x1.c71c7259a1801p-3, 0x1.249249242ab87p-2,
                           0x1.9999999999e06p-2, 0x1.5555555555555p-1};
  const auto subnormal = x < splat<V>(0x1p-1022);
  const I bits = bit_cast<I>(select(subnormal, x * 0x1p54, x)) - kSqrtHalf;
  const I exponent = (bits + (uint64_t{1023} << 52)) >> 52;
  const V n = bit_cast<V>(exponent | 0x4330000000000000u) -  // the bits of 2^52
              select(subnormal, splat<V>(0x1p52 + 1023 + 54), splat<V>(0x1p52 + 1023));
  const V f = bit_cast<V>((bits & 0xfffffffffffffu) + kSqrtHalf) - 1.0;
  const V s = f / (f + 2.0), z = s * s;
  const V rest = fma(n, splat<V>(0x1.a39ef35793c76p-33), -s * fma(-polynomial<V>(z, kP), z, f));
  V y = fma(n, splat<V>(0x1.62e42fee00000p-1), f + rest);
  y = select(x == V{}, splat<V>(-__builtin_inf()), y);
  y = select(x < splat<V>(__builtin_inf()), y, x);  // +inf and NaN
  return select(x < V{}, splat<V>(__builtin_nan("")), y);
}

}  // namespace tw::tile::detail
