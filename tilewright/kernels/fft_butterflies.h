// Complex numbers, and discrete Fourier transforms of so few of them that they lie in registers.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

namespace detail {

template <class V>
TW_DEVICE constexpr auto lane_of() {
  if constexpr (tile::same_type<V, float> || tile::same_type<V, double>)
    return V{};
  else
    return typename tile::vector_traits<V>::scalar{};
}
/// The type of a lane, or of a number that is none.
template <class V>
using lane_t = decltype(lane_of<V>());

/// a b + c, of vectors or numbers; b may be a number for all lanes.
template <class V, class S>
TW_INLINE V fma(V a, S b, V c) {
  if constexpr (tile::same_type<V, S>)
    return tile::fma(a, b, c);
  else
    return tile::fma(a, tile::splat<V>(b), c);
}

}  // namespace detail

/// A complex number, or as many of them as V has lanes. A single one is read as one word.
template <class V>
struct alignas(sizeof(V) <= 8 ? 2 * sizeof(V) : alignof(V)) Complex {
  V re, im;

  TW_INLINE friend Complex operator+(const Complex& a, const Complex& b) {
    return {a.re + b.re, a.im + b.im};
  }
  TW_INLINE friend Complex operator-(const Complex& a, const Complex& b) {
    return {a.re - b.re, a.im - b.im};
  }
  /// -i times this.
  TW_INLINE Complex turned() const { return {im, -re}; }
  /// The two parts exchanged: the inverse transform is the forward one of such numbers.
  TW_INLINE Complex exchanged() const { return {im, re}; }
  TW_INLINE Complex conjugate() const { return {re, -im}; }
  template <class C>
  TW_INLINE Complex times(const Complex<C>& w) const {
    return {detail::fma(re, w.re, -(im * w.im)), detail::fma(re, w.im, im * w.re)};
  }
};

namespace detail {

/// sin x, |x| <= pi, by its series.
TW_DEVICE constexpr double sine(double x) {
  double term = x, sum = 0;
  for (int i = 1; i < 30; i += 2) {
    sum += term;
    term *= -x * x / ((i + 1) * (i + 2));
  }
  return sum;
}
/// The sine and cosine of 2 pi k / n for 0 <= k < n, from angles up to pi / 4.
TW_DEVICE constexpr double sine_of_turn(int k, int n) {
  constexpr double kPi = 3.14159265358979324;
  if (2 * k > n) return -sine_of_turn(n - k, n);
  if (4 * k > n) return sine_of_turn(n - 2 * k, 2 * n);
  if (8 * k <= n) return sine(2 * kPi * k / n);
  const double half = sine(kPi * (n - 4 * k) / (4 * n));  // cos y = 1 - 2 sin^2 (y / 2)
  return 1 - 2 * half * half;
}
TW_DEVICE constexpr double cosine_of_turn(int k, int n) {
  return sine_of_turn((4 * k + n) % (4 * n), 4 * n);
}

/// f.template operator()<i>() for i < kCount.
template <int kCount, int kFirst = 0, class F>
TW_INLINE void each_constant(F&& f) {
  if constexpr (kFirst < kCount) {
    f.template operator()<kFirst>();
    each_constant<kCount, kFirst + 1>(f);
  }
}

/// v exp(-2 pi i k / n).
template <int kAt, int kN, class V>
TW_INLINE Complex<V> turned_by(const Complex<V>& v) {
  using S = detail::lane_t<V>;
  if constexpr (kAt == 0) {
    return v;
  } else if constexpr (4 * kAt == kN) {
    return v.turned();
  } else if constexpr (8 * kAt == kN) {
    constexpr S kHalf = S(0.70710678118654752);
    return {(v.re + v.im) * kHalf, (v.im - v.re) * kHalf};
  } else if constexpr (8 * kAt == 3 * kN) {
    constexpr S kHalf = S(0.70710678118654752);
    return {(v.im - v.re) * kHalf, (v.re + v.im) * -kHalf};
  } else {
    constexpr S kCos = S(cosine_of_turn(kAt, kN)), kSin = S(sine_of_turn(kAt, kN));
    return {fma(v.re, kCos, v.im * kSin), fma(v.im, kCos, v.re * -kSin)};
  }
}

/// The smaller factor of a radix that is no prime.
TW_INLINE constexpr int factor_of(int radix) {
  return radix == 16 ? 4 : radix % 2 == 0 ? 2 : radix % 3 == 0 ? 3 : radix;
}

}  // namespace detail

/// The transform of x in place, in natural order: of an odd prime by sums and differences of what
/// lies symmetrically, of a product by those of its factors (Cooley and Tukey).
template <int kRadix, class V>
TW_INLINE void butterfly(Complex<V> (&x)[kRadix]) {
  using S = detail::lane_t<V>;
  constexpr int kOuter = detail::factor_of(kRadix), kInner = kRadix / kOuter;
  if constexpr (kRadix == 2) {
    const Complex<V> a = x[0];
    x[0] = a + x[1];
    x[1] = a - x[1];
  } else if constexpr (kOuter < kRadix) {
    Complex<V> y[kOuter][kInner];  // y[k] has number k of each of the first transforms
    detail::each_constant<kInner>([&]<int j>() TW_INLINED {
      Complex<V> part[kOuter];
      TW_UNROLL
      for (int i = 0; i < kOuter; ++i) part[i] = x[kInner * i + j];
      butterfly<kOuter>(part);
      detail::each_constant<kOuter>(
          [&]<int k>() TW_INLINED { y[k][j] = detail::turned_by<j * k, kRadix>(part[k]); });
    });
    TW_UNROLL
    for (int k = 0; k < kOuter; ++k) {
      butterfly<kInner>(y[k]);
      TW_UNROLL
      for (int i = 0; i < kInner; ++i) x[k + kOuter * i] = y[k][i];
    }
  } else {
    constexpr int kHalf = kRadix / 2;
    Complex<V> sum[kHalf], difference[kHalf], all = x[0];
    TW_UNROLL
    for (int j = 0; j < kHalf; ++j) {
      sum[j] = x[j + 1] + x[kRadix - 1 - j];
      difference[j] = x[j + 1] - x[kRadix - 1 - j];
      all = all + sum[j];
    }
    detail::each_constant<kHalf>([&]<int k>() TW_INLINED {
      Complex<V> even = x[0], odd = {};
      detail::each_constant<kHalf>([&]<int j>() TW_INLINED {
        constexpr int kAt = (j + 1) * (k + 1) % kRadix;
        constexpr S kCos = S(detail::cosine_of_turn(kAt, kRadix));
        constexpr S kSin = S(detail::sine_of_turn(kAt, kRadix));
        even = {detail::fma(sum[j].re, kCos, even.re), detail::fma(sum[j].im, kCos, even.im)};
        odd = {detail::fma(difference[j].re, kSin, odd.re),
               detail::fma(difference[j].im, kSin, odd.im)};
      });
      x[k + 1] = even + odd.turned();
      x[kRadix - 1 - k] = even - odd.turned();
    });
    x[0] = all;
  }
}

}  // namespace tw::kernels
