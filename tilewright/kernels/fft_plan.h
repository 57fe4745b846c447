// What the schedules of fft.h have in common: the radices of a transform's passes, the powers of w,
// and how a length is cut in two or replaced by another one.
#pragma once

#include "tilewright/kernels/fft_butterflies.h"

namespace tw::kernels {

/// The radices of the passes of a transform, the largest first.
struct FftPasses {
  static constexpr int kMost = 32;
  int count = 0;
  int8_t radix[kMost] = {};

  TW_INLINE int first() const { return count > 0 ? radix[0] : 0; }
  TW_INLINE int last() const { return count > 0 ? radix[count - 1] : 0; }

  /// Of the n that only primes up to 13 divide; products of them up to `largest` are one pass.
  TW_INLINE static FftPasses of(int64_t n, int largest) {
    FftPasses passes;
    for (int r = largest > kLargestPrime ? largest : kLargestPrime; r > 1; --r)
      while (n > 1 && is_radix(r, largest) && n % r == 0) {
        passes.radix[passes.count++] = int8_t(r);
        n /= r;
      }
    return passes;
  }
  static constexpr int kLargestPrime = 13;
  TW_INLINE static constexpr bool is_radix(int r, int largest) {
    if (r == 2 || r == 3 || r == 5 || r == 7 || r == 11 || r == 13) return true;
    return r <= largest && (r == 4 || r == 6 || r == 8 || r == 9 || r == 10 || r == 16);
  }
  TW_INLINE static bool are_for(int64_t n) {
    for (const int prime : {2, 3, 5, 7, 11, 13})
      while (n > 1 && n % prime == 0) n /= prime;
    return n <= 1;
  }
};

/// f.template operator()<r>() for the radix r.
template <int kLargest, class F>
TW_INLINE void with_radix(int radix, F&& f) {
  const auto call = [&]<int kRadix>() TW_INLINED {
    if constexpr (FftPasses::is_radix(kRadix, kLargest)) f.template operator()<kRadix>();
  };
  // clang-format off
  switch (radix) {
    case 2: return call.template operator()<2>();
    case 3: return call.template operator()<3>();
    case 4: return call.template operator()<4>();
    case 5: return call.template operator()<5>();
    case 6: return call.template operator()<6>();
    case 7: return call.template operator()<7>();
    case 8: return call.template operator()<8>();
    case 9: return call.template operator()<9>();
    case 10: return call.template operator()<10>();
    case 11: return call.template operator()<11>();
    case 13: return call.template operator()<13>();
    default: return call.template operator()<16>();
  }
  // clang-format on
}

/// exp(-2 pi i at / n) for 0 <= at < n.
template <class C, class Int>
TW_INLINE Complex<C> root_of_unity(Int at, Int n) {
  const Int near = 2 * at > n ? at - n : at;
#if defined(__CUDA_ARCH__)
  Complex<C> w;
  if constexpr (sizeof(C) == sizeof(float))
    ::sincospif(float(near) * (-2.0f / float(n)), &w.im, &w.re);
  else
    ::sincospi(double(near) * (-2.0 / double(n)), &w.im, &w.re);
  return w;
#else
  const double angle = -6.283185307179586 * double(near) / double(n);
  return {C(__builtin_cos(angle)), C(__builtin_sin(angle))};
#endif
}

/// Bluestein's chirp, exp(-pi i j^2 / n): as 2 j k = j^2 + k^2 - (k - j)^2, a transform is a
/// product by it, a convolution with its conjugate, and another product.
template <class C>
TW_INLINE Complex<C> chirp(int64_t j, int64_t n) {
  constexpr int64_t kShort = int64_t{1} << 16;
  if (n <= kShort) {  // a remainder of 64 bits takes four times as long
    const unsigned turn = unsigned(2 * n), at = unsigned(j) * unsigned(j) % turn;
    return root_of_unity<C>(int(at), int(turn));
  }
  return root_of_unity<C>(j * j % (2 * n), 2 * n);
}
/// The convolution's length: the power of two from 2 n - 1 on.
TW_INLINE int64_t chirp_length(int64_t n) {
  int64_t length = 1;
  while (length < 2 * n - 1) length *= 2;
  return length;
}

/// The largest divisor of n that is not above its square root.
TW_INLINE int64_t smaller_half(int64_t n) {
  int64_t half = 1;
  while ((half + 1) * (half + 1) <= n) ++half;
  while (n % half != 0) --half;
  return half;
}

}  // namespace tw::kernels
