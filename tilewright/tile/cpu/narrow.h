// Runs of a few elements taken apart or put together: pixels of three channels, complex numbers.
#pragma once

#include <utility>

#include "tilewright/tile/cpu/memory.h"

namespace tw::tile {

/// The most elements of such a run.
inline constexpr int kMostNarrow = 8;

namespace detail {

/// Lane i of the result is lane At::of(i) of the vectors v side by side.
template <class At, int kN, class V>
TW_INLINE V collect(const V (&v)[kN]) {
  constexpr int kLanes = kLanesOf<V>;
  V out = v[0];
  const auto take = [&]<int kVector, int... I>(std::integer_sequence<int, I...>) TW_INLINED {
    if constexpr (kVector == 1)
      out = __builtin_shufflevector(v[0], v[1], (At::of(I) < 2 * kLanes ? At::of(I) : 0)...);
    else  // what is not this vector's stays
      out = __builtin_shufflevector(
          out, v[kVector], (At::of(I) / kLanes == kVector ? kLanes + At::of(I) % kLanes : I)...);
  };
  [&]<int... K>(std::integer_sequence<int, K...>) TW_INLINED {
    (take.template operator()<K + 1>(std::make_integer_sequence<int, kLanes>{}), ...);
  }(std::make_integer_sequence<int, kN - 1>{});
  return out;
}

/// Element kUnit of each run of kN, where runs follow each other.
template <int kN, int kUnit, int kLanes>
struct OfRuns {
  static constexpr int of(int i) { return i * kN + kUnit; }
};
/// Vector kPart of the runs whose elements v has, one of each run in each vector.
template <int kN, int kPart, int kLanes>
struct OfUnits {
  static constexpr int of(int i) {
    const int at = kPart * kLanes + i;
    return at % kN * kLanes + at / kN;
  }
};

/// By Pattern, as many of `count` runs at once as a vector has lanes: from run i on, vector k lies
/// at from + i * from_run + k * from_part, and likewise in `to`. Returns the first run that is
/// left.
template <template <int, int, int> class Pattern, int kN, class V, class U>
TW_INLINE int64_t rearrange(const U* from, int64_t from_run, int64_t from_part, U* to,
                            int64_t to_run, int64_t to_part, int64_t count) {
  int64_t i = 0;
  for (; i + kLanesOf<V> <= count; i += kLanesOf<V>) {
    V v[kN];
    TW_UNROLL
    for (int k = 0; k < kN; ++k) v[k] = load_bits<V>(from + i * from_run + k * from_part);
    [&]<int... K>(std::integer_sequence<int, K...>) TW_INLINED {
      (store(to + i * to_run + K * to_part, collect<Pattern<kN, K, kLanesOf<V>>>(v)), ...);
    }(std::make_integer_sequence<int, kN>{});
  }
  return i;
}

template <class P, class U>
using WholeVector = vec<U, P::kVectorBytes / int(sizeof(U))>;

template <int kN, class P, class U>
TW_APART void take_apart(P, const U* from, U* to, int64_t to_step, int64_t count) {
  using V = WholeVector<P, U>;
  int64_t i = rearrange<OfRuns, kN, V>(from, kN, kLanesOf<V>, to, 1, to_step, count);
  for (; i < count; ++i)
    for (int unit = 0; unit < kN; ++unit) to[unit * to_step + i] = from[i * kN + unit];
}
template <int kN, class P, class U>
TW_APART void put_together(P, const U* from, int64_t from_step, U* to, int64_t count) {
  using V = WholeVector<P, U>;
  int64_t i = rearrange<OfUnits, kN, V>(from, 1, from_step, to, kN, kLanesOf<V>, count);
  for (; i < count; ++i)
    for (int unit = 0; unit < kN; ++unit) to[i * kN + unit] = from[unit * from_step + i];
}

/// f.template operator()<n>() for 2 <= n <= kMostNarrow.
template <class F>
TW_INLINE void with_narrow(int64_t n, F&& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) TW_INLINED {
    ((n == I + 2 ? f.template operator()<I + 2>() : void()), ...);
  }(std::make_integer_sequence<int, kMostNarrow - 1>{});
}

}  // namespace detail

/// to[unit * to_step + i] = from[i * n + unit] for i < count, unit < n; 2 <= n <= kMostNarrow.
template <class P, class U>
TW_INLINE void take_apart(P p, int64_t n, const U* from, U* to, int64_t to_step, int64_t count) {
  detail::with_narrow(
      n, [&]<int kN>() TW_INLINED { detail::take_apart<kN>(p, from, to, to_step, count); });
}
/// to[i * n + unit] = from[unit * from_step + i].
template <class P, class U>
TW_INLINE void put_together(P p, int64_t n, const U* from, int64_t from_step, U* to,
                            int64_t count) {
  detail::with_narrow(
      n, [&]<int kN>() TW_INLINED { detail::put_together<kN>(p, from, from_step, to, count); });
}

}  // namespace tw::tile
