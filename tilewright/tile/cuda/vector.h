// The vectors of CUDA: a thread's lanes, as an array in registers. What math and primitives need of
// them: the names and meanings are those of tile/cpu/{vector,arith}.h. Freestanding.
#pragma once

#include "tilewright/tile/compute_type.h"

namespace tw::tile {

template <class T, int kN>
struct Pack {
  T lane[kN];
  __device__ __forceinline__ T& operator[](int i) { return lane[i]; }
  const __device__ __forceinline__ T& operator[](int i) const { return lane[i]; }
};

template <class T, int kN>
struct VectorOf {
  using type = Pack<T, kN>;
};
template <class T>
struct VectorOf<T, 1> {
  using type = T;
};
template <class T, int kN>
using vec = typename VectorOf<T, kN>::type;

template <class V>
struct vector_traits {
  using scalar = V;
  static constexpr int kLanes = 1;
};
template <class T, int kN>
struct vector_traits<Pack<T, kN>> {
  using scalar = T;
  static constexpr int kLanes = kN;
};
template <class V>
inline constexpr int kLanesOf = vector_traits<V>::kLanes;
/// The vector of elements T with as many lanes as V.
template <class T, class V>
using with_element = vec<T, kLanesOf<V>>;

namespace detail {

/// f(i) for each lane.
template <class R, int kN, class F>
__device__ __forceinline__ Pack<R, kN> lanes(F f) {
  Pack<R, kN> out;
  TW_UNROLL
  for (int i = 0; i < kN; ++i) out.lane[i] = f(i);
  return out;
}

}  // namespace detail

// Operators of two vectors, or of a vector and a scalar that is converted to its element.
#define TW_LANEWISE(op)                                                                     \
  template <class T, int kN>                                                                \
  __device__ __forceinline__ auto operator op(const Pack<T, kN>& a, const Pack<T, kN>& b) { \
    using R = decltype(T(a[0] op b[0]));                                                    \
    return detail::lanes<R, kN>([&](int i) { return R(a[i] op b[i]); });                    \
  }                                                                                         \
  template <class T, int kN, class S>                                                       \
    requires(vector_traits<S>::kLanes == 1)                                                 \
  __device__ __forceinline__ auto operator op(const Pack<T, kN>& a, S b) {                  \
    return detail::lanes<T, kN>([&](int i) { return T(a[i] op T(b)); });                    \
  }                                                                                         \
  template <class T, int kN, class S>                                                       \
    requires(vector_traits<S>::kLanes == 1)                                                 \
  __device__ __forceinline__ auto operator op(S a, const Pack<T, kN>& b) {                  \
    return detail::lanes<T, kN>([&](int i) { return T(T(a) op b[i]); });                    \
  }                                                                                         \
  template <class T, int kN, class S>                                                       \
  __device__ __forceinline__ Pack<T, kN>& operator op##=(Pack<T, kN>& a, const S & b) {     \
    return a = a op b;                                                                      \
  }
TW_LANEWISE(+)
TW_LANEWISE(-)
TW_LANEWISE(*)
TW_LANEWISE(/)
TW_LANEWISE(&)
TW_LANEWISE(|)
TW_LANEWISE(^)
#undef TW_LANEWISE

#define TW_SHIFT(op)                                                                \
  template <class T, int kN>                                                        \
  __device__ __forceinline__ Pack<T, kN> operator op(const Pack<T, kN>& a, int b) { \
    return detail::lanes<T, kN>([&](int i) { return T(a[i] op b); });               \
  }
TW_SHIFT(<<)
TW_SHIFT(>>)
#undef TW_SHIFT

#define TW_COMPARISON(op)                                                            \
  template <class T, int kN>                                                         \
  __device__ __forceinline__ Pack<bool, kN> operator op(const Pack<T, kN>& a,        \
                                                        const Pack<T, kN>& b) {      \
    return detail::lanes<bool, kN>([&](int i) { return a[i] op b[i]; });             \
  }                                                                                  \
  template <class T, int kN, class S>                                                \
    requires(vector_traits<S>::kLanes == 1)                                          \
  __device__ __forceinline__ Pack<bool, kN> operator op(const Pack<T, kN>& a, S b) { \
    return detail::lanes<bool, kN>([&](int i) { return a[i] op T(b); });             \
  }
TW_COMPARISON(<)
TW_COMPARISON(>)
TW_COMPARISON(<=)
TW_COMPARISON(>=)
TW_COMPARISON(==)
TW_COMPARISON(!=)
#undef TW_COMPARISON

template <class T, int kN>
__device__ __forceinline__ Pack<T, kN> operator-(const Pack<T, kN>& a) {
  return detail::lanes<T, kN>([&](int i) { return T(-a[i]); });
}

template <class V, class S>
TW_INLINE V splat(S x) {
  if constexpr (kLanesOf<V> == 1) {
    return V(x);
  } else {
    V out;
    TW_UNROLL
    for (int i = 0; i < kLanesOf<V>; ++i) out.lane[i] = typename vector_traits<V>::scalar(x);
    return out;
  }
}
/// Lane i holds start + i.
template <class V>
TW_INLINE V iota(typename vector_traits<V>::scalar start) {
  if constexpr (kLanesOf<V> == 1) {
    return start;
  } else {
    V out;
    TW_UNROLL
    for (int i = 0; i < kLanesOf<V>; ++i)
      out.lane[i] = start + typename vector_traits<V>::scalar(i);
    return out;
  }
}
template <class V>
TW_INLINE V select(bool mask, V a, V b) {
  return mask ? a : b;
}
template <class T, int kN>
__device__ __forceinline__ Pack<T, kN> select(const Pack<bool, kN>& mask, const Pack<T, kN>& a,
                                              const Pack<T, kN>& b) {
  return detail::lanes<T, kN>([&](int i) { return mask[i] ? a[i] : b[i]; });
}
template <class To, class V>
TW_INLINE To bit_cast(V v) {
  static_assert(sizeof(To) == sizeof(V));
  if constexpr (kLanesOf<V> == 1) {
    return __builtin_bit_cast(To, v);
  } else {
    To out;
    TW_UNROLL
    for (int i = 0; i < kLanesOf<V>; ++i)
      out.lane[i] = __builtin_bit_cast(typename vector_traits<To>::scalar, v.lane[i]);
    return out;
  }
}
template <class To, class V>
TW_INLINE To convert(V v) {
  if constexpr (kLanesOf<V> == 1) {
    return To(v);
  } else {
    To out;
    TW_UNROLL
    for (int i = 0; i < kLanesOf<V>; ++i)
      out.lane[i] = typename vector_traits<To>::scalar(v.lane[i]);
    return out;
  }
}
template <class V, class F>
TW_INLINE V each_lane(V v, F f) {
  if constexpr (kLanesOf<V> == 1) {
    return f(v);
  } else {
    TW_UNROLL
    for (int i = 0; i < kLanesOf<V>; ++i) v.lane[i] = f(v.lane[i]);
    return v;
  }
}
template <class V>
TW_INLINE typename vector_traits<V>::scalar first_lane(V v) {
  if constexpr (kLanesOf<V> == 1)
    return v;
  else
    return v.lane[0];
}
/// Folds the lanes pairwise, in the order of tile/cpu/vector.h.
template <class V, class Op>
TW_INLINE auto fold_lanes(V v, Op op) {
  TW_UNROLL
  for (int half = kLanesOf<V> / 2; half > 0; half /= 2) {
    TW_UNROLL
    for (int i = 0; i < half; ++i) v.lane[i] = op(v.lane[i], v.lane[i + half]);
  }
  return v.lane[0];
}

/// One lane after the other: the code of f, which few need, is there once.
template <class M, class V, class F>
TW_INLINE V mend_lanes(const M& is_right, V y, const V& x, F f) {
  if constexpr (kLanesOf<V> == 1) {
    return is_right ? y : f(x);
  } else {
    bool are_right = true;
    TW_UNROLL
    for (int i = 0; i < kLanesOf<V>; ++i) are_right &= is_right.lane[i];
    if (are_right) return y;
    TW_ROLLED
    for (int i = 0; i < kLanesOf<V>; ++i) {
      auto its = x.lane[0];
      TW_UNROLL
      for (int j = 1; j < kLanesOf<V>; ++j) its = i == j ? x.lane[j] : its;
      its = f(its);
      TW_UNROLL
      for (int j = 0; j < kLanesOf<V>; ++j)
        if (i == j && !is_right.lane[j]) y.lane[j] = its;
    }
    return y;
  }
}

TW_INLINE float fma(float a, float b, float c) {
  return ::fmaf(a, b, c);
}
TW_INLINE double fma(double a, double b, double c) {
  return ::fma(a, b, c);
}
TW_INLINE float sqrt(float a) {
  return ::sqrtf(a);
}
TW_INLINE double sqrt(double a) {
  return ::sqrt(a);
}
/// To the nearest integer, ties to even.
TW_INLINE float round(float a) {
  return ::rintf(a);
}
TW_INLINE double round(double a) {
  return ::rint(a);
}
template <class T, int kN>
__device__ __forceinline__ Pack<T, kN> fma(const Pack<T, kN>& a, const Pack<T, kN>& b,
                                           const Pack<T, kN>& c) {
  return detail::lanes<T, kN>([&](int i) { return fma(a[i], b[i], c[i]); });
}
template <class T, int kN>
__device__ __forceinline__ Pack<T, kN> sqrt(const Pack<T, kN>& a) {
  return detail::lanes<T, kN>([&](int i) { return sqrt(a[i]); });
}
template <class T, int kN>
__device__ __forceinline__ Pack<T, kN> round(const Pack<T, kN>& a) {
  return detail::lanes<T, kN>([&](int i) { return round(a[i]); });
}
/// The larger; where a is NaN, b.
template <class V>
TW_INLINE V max(V a, V b) {
  return select(a > b, a, b);
}
/// The smaller; where a is NaN, b.
template <class V>
TW_INLINE V min(V a, V b) {
  return select(a < b, a, b);
}
template <class V>
TW_INLINE V rsqrt(V a) {
  return 1 / sqrt(a);
}

/// The larger and the smaller, NaN if one is: what reduction.h does with comparisons.
__device__ __forceinline__ float larger_or_nan(float a, float b) {
  float out;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  return out;
}
__device__ __forceinline__ float smaller_or_nan(float a, float b) {
  float out;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  return out;
}
template <int kN>
__device__ __forceinline__ Pack<float, kN> larger_or_nan(const Pack<float, kN>& a,
                                                         const Pack<float, kN>& b) {
  return detail::lanes<float, kN>([&](int i) { return larger_or_nan(a[i], b[i]); });
}
template <int kN>
__device__ __forceinline__ Pack<float, kN> smaller_or_nan(const Pack<float, kN>& a,
                                                          const Pack<float, kN>& b) {
  return detail::lanes<float, kN>([&](int i) { return smaller_or_nan(a[i], b[i]); });
}

/// The same of both 16-bit floats of a word.
template <class T>
__device__ __forceinline__ uint32_t larger_pair(uint32_t a, uint32_t b) {
  uint32_t out;
  if constexpr (same_type<T, bf16>)
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
  else
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
  return out;
}

__device__ __forceinline__ float larger_number(float a, float b) {
  return larger_or_nan(a, b);
}
template <int kN>
__device__ __forceinline__ Pack<float, kN> larger_number(const Pack<float, kN>& a,
                                                         const Pack<float, kN>& b) {
  return larger_or_nan(a, b);
}

template <class V>
inline constexpr bool kHasScale = false;

/// 2^x by the special function unit: a relative error of 2^-22 of the result, and that of x.
/// Subnormal results are 0.
__device__ __forceinline__ float exp2_unit(float x) {
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}
template <int kN>
__device__ __forceinline__ Pack<float, kN> exp2_unit(const Pack<float, kN>& x) {
  return detail::lanes<float, kN>([&](int i) { return exp2_unit(x[i]); });
}
/// 1 / x by the special function unit: a relative error of 2^-23; 0 where the result is subnormal.
__device__ __forceinline__ float reciprocal_unit(float x) {
  float out;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}
template <int kN>
__device__ __forceinline__ Pack<float, kN> reciprocal_unit(const Pack<float, kN>& x) {
  return detail::lanes<float, kN>([&](int i) { return reciprocal_unit(x[i]); });
}
/// Whether exp2_unit and reciprocal_unit take V.
template <class V>
inline constexpr bool kHasExp2Unit = same_type<typename vector_traits<V>::scalar, float>;

}  // namespace tw::tile
