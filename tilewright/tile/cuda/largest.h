// Where a row's largest element is, on CUDA: the row is read once. Freestanding.
#pragma once

#include "tilewright/tile/cuda/primitives.h"

namespace tw::tile {

namespace detail {

/// The largest of a span's elements, NaN if there is one. 16-bit floats are compared as pairs: half
/// an instruction for each.
template <class P, class C, class T, int kN>
__device__ __forceinline__ C largest_of(const Span<P, C, true>&, const Raw<T, kN>& raw) {
  if constexpr (sizeof(T) == 2) {
    uint32_t pairs[kN / 2];
    __builtin_memcpy(pairs, raw.words, sizeof(pairs));
    TW_UNROLL
    for (int half = kN / 4; half > 0; half /= 2) {
      TW_UNROLL
      for (int i = 0; i < half; ++i) pairs[i] = larger_pair<T>(pairs[i], pairs[i + half]);
    }
    const auto two = Raw<T, 2>{{pairs[0]}}.template widen<C>();
    return Max::combine(two[0], two[1]);
  } else {
    return fold_lanes(raw.template widen<C>(), [](C a, C b) { return Max::combine(a, b); });
  }
}
template <class P, class C, class T, int kN>
__device__ __forceinline__ C largest_of(const Span<P, C, false>& at, const Raw<T, kN>& raw) {
  return fold_lanes(masked(at, raw.template widen<C>(), Max::identity<C>()),
                    [](C a, C b) { return Max::combine(a, b); });
}

}  // namespace detail

/// put(column) of the first of the largest elements of a row, which has some, by one thread. NaN is
/// larger than anything.
template <class C = float, class P, class Row, class Put>
__device__ __forceinline__ void find_largest(P p, const Row& row, Put&& put) {
  constexpr int kN = P::template kLanes<C>;
  constexpr uint32_t kNone = ~uint32_t{0};
  // The first of the largest that this thread has seen, the number of its span, and that span.
  C value = Max::identity<C>();
  uint32_t number = kNone;
  decltype(load_raw(row, span_at<C>(p, row, 0))) raw = {};
  constexpr bool kEndsLast = requires { row.phase; };  // else a thread's spans come in order
  for_spans<C>(p, row, [&](const auto& at, const auto& next) {
    const C high = detail::largest_of(at, next);
    const auto its = uint32_t(span_number<kN>(row, at.offset));
    const bool is_same = high == value || (high != high && value != value);
    if (kEndsLast && is_same ? its > number : high <= value || value != value) return;
    value = high;
    number = its;
    raw = next;
  });
  const auto first = numbered_span<C>(p, row, p.thread());
  if (number == kNone && first.offset < row.size(0)) {  // all are -inf
    number = uint32_t(p.thread());
    raw = load_raw(row, first);
  }
  const C high = reduce_threads(p, Max{}, value);
  const auto is_it = [high](C v) { return high == high ? v == high : v != v; };
  const uint32_t mine = is_it(value) ? number : kNone;
  if (reduce_threads(p, detail::Least{}, mine) != mine) return;
  const auto v = raw.template widen<C>();
  int lane = kN - 1;
  TW_UNROLL
  for (int i = kN - 2; i >= 0; --i) lane = is_it(v[i]) ? i : lane;
  put(numbered_span<C>(p, row, mine).offset + lane);
}

}  // namespace tw::tile
