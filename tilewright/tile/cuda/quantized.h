// Spans of rows as numbers of 8 bits, on CUDA. Freestanding.
//
// Quotients of one divisor come from its reciprocal y = RN(1 / b): with q faithful, which the
// second line makes it, RN(q + (a - b q) y) is a / b rounded to nearest (Markstein, IBM J. Res.
// Dev. 34, 1990) unless something underflows or overflows.
//
//   q = a y,  q = q + (a - b q) y,  q = q + (a - b q) y
//
// Their sign is a's, also where a is -0.
#pragma once

#include "tilewright/tile/cuda/convert.h"
#include "tilewright/tile/cuda/primitives.h"

namespace tw::tile {

__device__ __forceinline__ float divided(float a, float b) {
  return __fdiv_rn(a, b);  // plain division is not rounded to nearest here
}

/// What many numbers are divided by. Beyond these bounds, both are multiplied by a power of two, so
/// that only quotients underflow that are 0 in 8 bits.
struct Divisor {
  float factor, value, reciprocal;
  __device__ __forceinline__ explicit Divisor(float by)
      : factor(by > 0x1p-60f ? by < 0x1p60f ? 1.0f : 0x1p-64f : 0x1p96f), value(by * factor) {
    reciprocal = __frcp_rn(value);
    if (value == __builtin_inff()) value = 0;  // inf - inf is NaN, but what is finite becomes 0
  }
  __device__ __forceinline__ bool is_moderate() const { return factor == 1.0f; }
};

/// The largest magnitude of a row, NaN if there is one.
template <class P, class Row>
__device__ __forceinline__ float largest_magnitude(P p, const Row& row) {
  return reduce_row(p, Max{}, row, [&](const auto& at) {
    return each_lane(load(row, at), [](float v) { return ::fabsf(v); });
  });
}

namespace detail {

/// a / by for each lane: what rounds to a number of Q, and for integers 0 instead of NaN.
template <class Q, int kN>
__device__ __forceinline__ Pack<float, kN> quotients(Pack<float, kN> a, Divisor by) {
  if (!by.is_moderate()) a = a * by.factor;
  Pack<float, kN> out = lanes<float, kN>([&](int i) {
    float q = __fmul_rn(a[i], by.reciprocal);
    q = __fmaf_rn(__fmaf_rn(-by.value, q, a[i]), by.reciprocal, q);
    q = __fmaf_rn(__fmaf_rn(-by.value, q, a[i]), by.reciprocal, q);
    return same_type<Q, int8_t> ? q : ::copysignf(q, a[i]);
  });
  if (by.is_moderate()) return out;
  using As = QuantizedAs<Q>;
  return each_lane(out, [](float q) {  // subnormal scales are rounded to fewer digits
    if constexpr (same_type<Q, int8_t>) q = q == q ? q : 0.0f;
    return q > As::kLargest ? As::kLargest : q < As::kLeast ? As::kLeast : q;
  });
}

/// Numbers that round to those of Q.
template <class Q, int kN>
__device__ __forceinline__ Raw<Q, kN> rounded(const Pack<float, kN>& v, bool truncate) {
  static_assert(kN % 4 == 0);
  uint32_t words[kN / 4];
  TW_UNROLL
  for (int i = 0; i < kN; i += 4) {
    if constexpr (same_type<Q, int8_t>) {
      uint32_t bits[4];
      TW_UNROLL
      for (int k = 0; k < 4; ++k) {  // 1.5 * 2^23 has the nearest whole number in its lowest bits
        const float whole = truncate ? ::truncf(v[i + k]) : v[i + k];
        bits[k] = __float_as_uint(__fadd_rn(whole, 0x1.8p23f));
      }
      words[i / 4] = __byte_perm(__byte_perm(bits[0], bits[1], 0x0040),
                                 __byte_perm(bits[2], bits[3], 0x0040), 0x5410);
    } else {
#if __CUDA_ARCH__ >= 890
      words[i / 4] = cuda::pack_e4m3(v[i], v[i + 1], v[i + 2], v[i + 3]);
#else
      return Raw<Q, kN>::narrow(v);
#endif
    }
  }
  Raw<Q, kN> out;
  __builtin_memcpy(out.words, words, sizeof(words));
  return out;
}

}  // namespace detail

/// The quotients of a span, no further than the numbers of Q, for which the divisor is a scale:
/// integers rounded to nearest, or towards zero, and 0 for NaN.
template <class Q, class Row, class P, bool kFull, int kN>
__device__ __forceinline__ void store_quotients(P, const Row& to, const Span<P, float, kFull>& at,
                                                const Pack<float, kN>& v, Divisor by,
                                                bool truncate) {
  store_raw(to, at, detail::rounded<Q>(detail::quotients<Q>(v, by), truncate));
}

}  // namespace tw::tile
