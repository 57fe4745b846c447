// Several native vectors worked on side by side. A function like exp is one long chain of dependent
// instructions, and the processor looks only a few such chains ahead: where the program interleaves
// them, no unit waits for the latency of another. Arithmetic is that of vector.h and arith.h.
#pragma once

#include "tilewright/tile/cpu/arith.h"

namespace tw::tile {

template <class V, int kN>
struct Chains {
  using Part = V;
  V part[kN];
};

template <class V, int kN>
struct vector_traits<Chains<V, kN>> {
  using scalar = typename vector_traits<V>::scalar;
  static constexpr int kLanes = kN * vector_traits<V>::kLanes;
};
template <class V, int kN>
inline constexpr bool kHasScale<Chains<V, kN>> = kHasScale<V>;
template <class V, int kN>
inline constexpr int kLanesOf<Chains<V, kN>> = kN * kLanesOf<V>;
template <class T, class V, int kN>
struct WithElement<T, Chains<V, kN>> {
  using type = Chains<with_element<T, V>, kN>;
};

namespace detail {
template <class X>
inline constexpr bool is_chains = false;
template <class V, int kN>
inline constexpr bool is_chains<Chains<V, kN>> = true;

template <int kN, class F>
TW_INLINE auto in_each_chain(F&& f) {
  Chains<decltype(f(0)), kN> out;
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
template <class To, class V, int kN>
TW_INLINE To bit_cast(const Chains<V, kN>& a) {
  return detail::in_each_chain<kN>(
      [&](int i) TW_INLINED { return bit_cast<typename To::Part>(a.part[i]); });
}
template <class To, class V, int kN>
TW_INLINE To convert(const Chains<V, kN>& a) {
  return detail::in_each_chain<kN>(
      [&](int i) TW_INLINED { return convert<typename To::Part>(a.part[i]); });
}

// Operators of two, or of one and a scalar that is converted to its element.
#define TW_EACH_CHAIN(op)                                                                       \
  template <class V, int kN>                                                                    \
  TW_INLINE auto operator op(const Chains<V, kN>& a, const Chains<V, kN>& b) {                  \
    return detail::in_each_chain<kN>([&](int i) TW_INLINED { return a.part[i] op b.part[i]; }); \
  }                                                                                             \
  template <class V, int kN, class S>                                                           \
    requires(!detail::is_chains<S>)                                                             \
  TW_INLINE auto operator op(const Chains<V, kN>& a, S b) {                                     \
    const V all = splat<V>(b);                                                                  \
    return detail::in_each_chain<kN>([&](int i) TW_INLINED { return a.part[i] op all; });       \
  }                                                                                             \
  template <class V, int kN, class S>                                                           \
    requires(!detail::is_chains<S>)                                                             \
  TW_INLINE auto operator op(S a, const Chains<V, kN>& b) {                                     \
    const V all = splat<V>(a);                                                                  \
    return detail::in_each_chain<kN>([&](int i) TW_INLINED { return all op b.part[i]; });       \
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

template <class V, int kN>
TW_INLINE auto operator<<(const Chains<V, kN>& a, int bits) {
  return detail::in_each_chain<kN>([&](int i) TW_INLINED { return a.part[i] << bits; });
}
template <class V, int kN>
TW_INLINE auto operator>>(const Chains<V, kN>& a, int bits) {
  return detail::in_each_chain<kN>([&](int i) TW_INLINED { return a.part[i] >> bits; });
}
template <class V, int kN>
TW_INLINE auto operator-(const Chains<V, kN>& a) {
  return detail::in_each_chain<kN>([&](int i) TW_INLINED { return -a.part[i]; });
}

#define TW_EACH_CHAIN(f)                                                              \
  template <class V, int kN>                                                          \
  TW_INLINE Chains<V, kN> f(const Chains<V, kN>& a) {                                 \
    return detail::in_each_chain<kN>([&](int i) TW_INLINED { return f(a.part[i]); }); \
  }
TW_EACH_CHAIN(sqrt)
TW_EACH_CHAIN(round)
#undef TW_EACH_CHAIN
#define TW_EACH_CHAIN(f)                                                                         \
  template <class V, int kN>                                                                     \
  TW_INLINE Chains<V, kN> f(const Chains<V, kN>& a, const Chains<V, kN>& b) {                    \
    return detail::in_each_chain<kN>([&](int i) TW_INLINED { return f(a.part[i], b.part[i]); }); \
  }
TW_EACH_CHAIN(max)
TW_EACH_CHAIN(min)
TW_EACH_CHAIN(scale)
#undef TW_EACH_CHAIN

template <class V, int kN>
TW_INLINE Chains<V, kN> fma(const Chains<V, kN>& a, const Chains<V, kN>& b,
                            const Chains<V, kN>& c) {
  return detail::in_each_chain<kN>([&](int i)
                                       TW_INLINED { return fma(a.part[i], b.part[i], c.part[i]); });
}
template <class M, class V, int kN>
TW_INLINE Chains<V, kN> select(const Chains<M, kN>& mask, const Chains<V, kN>& a,
                               const Chains<V, kN>& b) {
  return detail::in_each_chain<kN>(
      [&](int i) TW_INLINED { return select(mask.part[i], a.part[i], b.part[i]); });
}
template <class V, int kN, class F>
TW_INLINE Chains<V, kN> each_lane(const Chains<V, kN>& a, F f) {
  return detail::in_each_chain<kN>([&](int i) TW_INLINED { return each_lane(a.part[i], f); });
}

}  // namespace tw::tile
