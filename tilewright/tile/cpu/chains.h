// Several native vectors worked on side by side. A function like exp is one long chain of dependent
// instructions, and the processor looks only a few such chains ahead: where the program interleaves
// them, no unit waits for the latency of another. Arithmetic is that of vector.h and arith.h.
#pragma once

#include "tilewright/tile/cpu/arith.h"

namespace tw::tile {

/// kPaired: of adjacent elements 2 i and 2 i + 1 of a row, lane i of one part has the first and
/// lane i of the next part the second, as two 16-bit numbers lie in 32 bits. No expression mixes
/// both.
template <class V, int kN, bool kPaired = false>
struct Chains {
  using Part = V;
  V part[kN];
};

template <class V, int kN, bool kPaired>
struct vector_traits<Chains<V, kN, kPaired>> {
  using scalar = typename vector_traits<V>::scalar;
  static constexpr int kLanes = kN * vector_traits<V>::kLanes;
};
template <class V, int kN, bool kPaired>
inline constexpr bool kHasScale<Chains<V, kN, kPaired>> = kHasScale<V>;
template <class V, int kN, bool kPaired>
inline constexpr int kLanesOf<Chains<V, kN, kPaired>> = kN * kLanesOf<V>;
template <class T, class V, int kN, bool kPaired>
struct WithElement<T, Chains<V, kN, kPaired>> {
  using type = Chains<with_element<T, V>, kN, kPaired>;
};

namespace detail {
template <class X>
inline constexpr bool is_chains = false;
template <class V, int kN, bool kPaired>
inline constexpr bool is_chains<Chains<V, kN, kPaired>> = true;
template <class X>
inline constexpr bool is_paired = false;
template <class V, int kN>
inline constexpr bool is_paired<Chains<V, kN, true>> = true;

/// Of the elements of two vectors of a row, which lie as they follow each other: those that a pair
/// of parts would have.
template <class V>
TW_INLINE void split_pairs(V& a, V& b) {
  const V first = a, second = b;
  if constexpr (kLanesOf<V> == 8) {
    a = __builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14);
    b = __builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15);
  } else {
    a = __builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26,
                                28, 30);
    b = __builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27,
                                29, 31);
  }
}

template <int kN, bool kPaired = false, class F>
TW_INLINE auto in_each_chain(F&& f) {
  Chains<decltype(f(0)), kN, kPaired> out;
  TW_UNROLL
  for (int i = 0; i < kN; ++i) out.part[i] = f(i);
  return out;
}
}  // namespace detail

template <class X, class S>
  requires(detail::is_chains<X>)
TW_INLINE X splat(S x) {
  X out;
  const auto all = splat<typename X::Part>(x);
  for (auto& part : out.part) part = all;
  return out;
}
template <class To, class V, int kN, bool kPaired>
TW_INLINE To bit_cast(const Chains<V, kN, kPaired>& a) {
  return detail::in_each_chain<kN, kPaired>(
      [&](int i) TW_INLINED { return bit_cast<typename To::Part>(a.part[i]); });
}
template <class To, class V, int kN, bool kPaired>
TW_INLINE To convert(const Chains<V, kN, kPaired>& a) {
  return detail::in_each_chain<kN, kPaired>(
      [&](int i) TW_INLINED { return convert<typename To::Part>(a.part[i]); });
}

// Operators of two, or of one and a scalar that is converted to its element.
#define TW_EACH_CHAIN(op)                                                                          \
  template <class V, int kN, bool kPaired>                                                         \
  TW_INLINE auto operator op(const Chains<V, kN, kPaired>& a, const Chains<V, kN, kPaired>& b) {   \
    return detail::in_each_chain<kN, kPaired>([&](int i)                                           \
                                                  TW_INLINED { return a.part[i] op b.part[i]; });  \
  }                                                                                                \
  template <class V, int kN, bool kPaired, class S>                                                \
    requires(!detail::is_chains<S>)                                                                \
  TW_INLINE auto operator op(const Chains<V, kN, kPaired>& a, S b) {                               \
    const V all = splat<V>(b);                                                                     \
    return detail::in_each_chain<kN, kPaired>([&](int i) TW_INLINED { return a.part[i] op all; }); \
  }                                                                                                \
  template <class V, int kN, bool kPaired, class S>                                                \
    requires(!detail::is_chains<S>)                                                                \
  TW_INLINE auto operator op(S a, const Chains<V, kN, kPaired>& b) {                               \
    const V all = splat<V>(a);                                                                     \
    return detail::in_each_chain<kN, kPaired>([&](int i) TW_INLINED { return all op b.part[i]; }); \
  }
TW_EACH_CHAIN(+)
TW_EACH_CHAIN(-)
TW_EACH_CHAIN(*)
TW_EACH_CHAIN(/)
TW_EACH_CHAIN(&)
TW_EACH_CHAIN(|)
TW_EACH_CHAIN(^)
TW_EACH_CHAIN(<)
TW_EACH_CHAIN(>)
TW_EACH_CHAIN(<=)
TW_EACH_CHAIN(>=)
TW_EACH_CHAIN(==)
TW_EACH_CHAIN(!=)
#undef TW_EACH_CHAIN

template <class V, int kN, bool kPaired>
TW_INLINE auto operator<<(const Chains<V, kN, kPaired>& a, int bits) {
  return detail::in_each_chain<kN, kPaired>([&](int i) TW_INLINED { return a.part[i] << bits; });
}
template <class V, int kN, bool kPaired>
TW_INLINE auto operator>>(const Chains<V, kN, kPaired>& a, int bits) {
  return detail::in_each_chain<kN, kPaired>([&](int i) TW_INLINED { return a.part[i] >> bits; });
}
template <class V, int kN, bool kPaired>
TW_INLINE auto operator-(const Chains<V, kN, kPaired>& a) {
  return detail::in_each_chain<kN, kPaired>([&](int i) TW_INLINED { return -a.part[i]; });
}

#define TW_EACH_CHAIN(f)                                                                       \
  template <class V, int kN, bool kPaired>                                                     \
  TW_INLINE Chains<V, kN, kPaired> f(const Chains<V, kN, kPaired>& a) {                        \
    return detail::in_each_chain<kN, kPaired>([&](int i) TW_INLINED { return f(a.part[i]); }); \
  }
TW_EACH_CHAIN(sqrt)
TW_EACH_CHAIN(round)
#undef TW_EACH_CHAIN
#define TW_EACH_CHAIN(f)                                                                           \
  template <class V, int kN, bool kPaired>                                                         \
  TW_INLINE Chains<V, kN, kPaired> f(const Chains<V, kN, kPaired>& a,                              \
                                     const Chains<V, kN, kPaired>& b) {                            \
    return detail::in_each_chain<kN, kPaired>([&](int i)                                           \
                                                  TW_INLINED { return f(a.part[i], b.part[i]); }); \
  }
TW_EACH_CHAIN(max)
TW_EACH_CHAIN(min)
TW_EACH_CHAIN(scale)
#undef TW_EACH_CHAIN

template <class V, int kN, bool kPaired>
TW_INLINE Chains<V, kN, kPaired> fma(const Chains<V, kN, kPaired>& a,
                                     const Chains<V, kN, kPaired>& b,
                                     const Chains<V, kN, kPaired>& c) {
  return detail::in_each_chain<kN, kPaired>(
      [&](int i) TW_INLINED { return fma(a.part[i], b.part[i], c.part[i]); });
}
template <class M, class V, int kN, bool kPaired>
TW_INLINE Chains<V, kN, kPaired> select(const Chains<M, kN, kPaired>& mask,
                                        const Chains<V, kN, kPaired>& a,
                                        const Chains<V, kN, kPaired>& b) {
  return detail::in_each_chain<kN, kPaired>(
      [&](int i) TW_INLINED { return select(mask.part[i], a.part[i], b.part[i]); });
}
template <class V, int kN, bool kPaired, class F>
TW_INLINE Chains<V, kN, kPaired> each_lane(const Chains<V, kN, kPaired>& a, F f) {
  return detail::in_each_chain<kN, kPaired>([&](int i)
                                                TW_INLINED { return each_lane(a.part[i], f); });
}

template <class M, class V, int kN, bool kPaired, class F>
TW_INLINE Chains<V, kN, kPaired> mend_lanes(const Chains<M, kN, kPaired>& is_right,
                                            const Chains<V, kN, kPaired>& y,
                                            const Chains<V, kN, kPaired>& x, F f) {
  return detail::in_each_chain<kN, kPaired>(
      [&](int i) TW_INLINED { return mend_lanes(is_right.part[i], y.part[i], x.part[i], f); });
}

}  // namespace tw::tile
